/* tags: one-thread
 *
 * Cycles on a backend that replays what it captured: whatever lanes and widths come, the same
 * tokens as plain decoding, from a number of captures that the classes bound. */
#include "decode/cycle_priv.h"
#include "support/test.h"
#include "support/wrap_backend.h"

enum { SLOTS = 4, WIDEST = 7, TOKENS = 64, PROMPT = 23 };

static const int32_t prompt[PROMPT] = {2068, 329, 198,  496, 277,  220,  16,  17,
                                       464,  220, 18,   15,  30,   2069, 198, 2068,
                                       330,  198, 2078, 358, 2079, 358,  16};

static status open_graphs(backend **b, const char *isa, const backend_options *o, err *e)
{
    wrap_backend *w = NULL;
    (void)isa;
    TRY(wrap_open(&w, "cpu", o, e));
    wrap_keep_graphs(w);
    *b = &w->base;
    return ERR_OK;
}

static cycle *open_mini(const char *backend_name, const char *draft)
{
    cycle *c = NULL;
    err e = {0};
    CHECK_OK(cycle_open(&c,
                        &(cycle_options){.model = "models/mini-dense",
                                         .draft = draft,
                                         .backend = backend_name,
                                         .n_threads = 2,
                                         .n_slots = SLOTS,
                                         .prefill_rows = 32,
                                         .max_context = 256,
                                         .kv = KV_INT8,
                                         .max_draft = draft ? WIDEST : 0},
                        &e),
             &e);
    return c;
}

/* A prompt of its own length in each slot; the last two draw with noise, the last under masks. */
static void start(cycle *c, cycle_lane *lanes, bool has_masks)
{
    for (int s = 0; s < SLOTS; s++) {
        int32_t blocks[4];
        int n = PROMPT - 4 * s;
        for (int i = 0; i < 4; i++) blocks[i] = 4 * s + (i + 1) % 4;
        sample_policy p = {.seed = 9 + (uint64_t)s,
                           .temperature = s < 2 ? 0 : 0.8f,
                           .top_p = 1,
                           .repetition = 1,
                           .has_mask = has_masks && s == SLOTS - 1};
        assert_int_equal(cycle_reset(c, s), ERR_OK);
        assert_int_equal(cycle_set_blocks(c, s, 0, blocks, 4), ERR_OK);
        assert_int_equal(cycle_set_policy(c, s, &p, NULL), ERR_OK);
        cycle_slice slice = {.slot = s, .ids = prompt, .n = n - 1, .pos = 0, .prompt_end = n - 1};
        assert_int_equal(cycle_prefill(c, &slice, 1), ERR_OK);
        lanes[s] = (cycle_lane){.slot = s, .anchor = prompt[n - 1], .pos = n - 1};
    }
}

static void decode_plainly(int32_t (*want)[TOKENS])
{
    cycle_lane lanes[SLOTS];
    cycle *c = open_mini("cpu", NULL);
    start(c, lanes, false);
    for (int i = 0; i < TOKENS; i++) {
        cycle_result r[SLOTS];
        for (int s = 0; s < SLOTS; s++) lanes[s].max_new = 1;
        assert_int_equal(cycle_step(c, lanes, SLOTS, r), ERR_OK);
        for (int s = 0; s < SLOTS; s++) {
            want[s][i] = lanes[s].anchor = r[s].ids[0];
            lanes[s].pos++;
        }
    }
    cycle_close(c);
}

static void allow_all(void *ctx, const int32_t *proposals, int n, uint32_t *rows)
{
    size_t n_words = *(const size_t *)ctx;
    (void)proposals;
    memset(rows, 0xff, (size_t)(n + 1) * n_words * 4);
}

typedef struct {
    cycle *c;
    uint64_t random;
    int n_made[SLOTS];
    cycle_lane lanes[SLOTS];
    size_t mask_words;
    bool has_extras; /* masks, log probabilities */
    cycle_shape seen[256];
    int n_seen;
} walk;

static int below(walk *w, int n)
{
    return (int)(test_random(&w->random) % (uint64_t)n);
}

static void note_shape(walk *w, const cycle_lane *lanes, int L)
{
    cycle_shape s = cycle_shape_of(lanes, L);
    for (int i = 0; i < w->n_seen; i++)
        if (memcmp(&w->seen[i], &s, sizeof s) == 0) return;
    if (w->n_seen < 256) w->seen[w->n_seen++] = s;
}

/* Some of the lanes that are not done, in any order of slots, each as wide as chance has it. */
static int choose_lanes(walk *w, cycle_lane *lanes)
{
    int L = 0, first = below(w, SLOTS), widest = below(w, 3) ? WIDEST : 0;
    for (int i = 0; i < SLOTS; i++) {
        int s = (first + i) % SLOTS, left = TOKENS - w->n_made[s];
        if (left == 0 || (L > 0 && below(w, 3) == 0)) continue;
        cycle_lane *lane = &lanes[L++];
        *lane = w->lanes[s];
        lane->max_new = left < OPS_ROWS_MAX ? left : OPS_ROWS_MAX;
        lane->n_draft = widest ? below(w, widest + 1) : 0;
        if (lane->n_draft >= left) lane->n_draft = left - 1;
        lane->wants_logprobs = w->has_extras && below(w, 4) == 0;
        if (w->has_extras && s == SLOTS - 1)
            lane->mask = (cycle_mask){allow_all, &w->mask_words, NULL};
    }
    return L;
}

static void walk_to_the_end(walk *w, int32_t (*want)[TOKENS])
{
    cycle_lane lanes[SLOTS];
    cycle_result r[SLOTS];
    start(w->c, w->lanes, w->has_extras);
    memset(w->n_made, 0, sizeof w->n_made);
    for (int L; (L = choose_lanes(w, lanes)) > 0;) {
        note_shape(w, lanes, L);
        assert_int_equal(cycle_step(w->c, lanes, L, r), ERR_OK);
        for (int l = 0; l < L; l++) {
            int s = lanes[l].slot;
            assert_in_range(r[l].n, 1, lanes[l].n_draft + 1);
            for (int i = 0; i < r[l].n; i++)
                assert_int_equal(r[l].ids[i], want[s][w->n_made[s] + i]);
            w->n_made[s] += r[l].n;
            w->lanes[s].pos += r[l].n;
            w->lanes[s].anchor = r[l].ids[r[l].n - 1];
        }
    }
}

TEST(captured_cycles_give_the_tokens_of_plain_ones_from_few_captures)
{
    static int32_t want[SLOTS][TOKENS];
    static walk w;
    backend_register("graphs", open_graphs);
    decode_plainly(want);
    w = (walk){.c = open_mini("graphs", "models/mini-dense-dflash2"), .random = test_seed()};
    w.mask_words = (size_t)(model_arch(cycle_model(w.c))->V + 31) / 32;
    for (int i = 0; i < 2; i++) walk_to_the_end(&w, want);
    /* Lanes 1, 2 and 4 by widths 1, 3 and 7 of the proposal; then 1 lane of 1, or of 2, 4 or 8
     * rows, and several of 2 or 4, or of 4, 8, 12, 16, 24 or 32. */
    int64_t n = cycle_backend(w.c)->n_captures;
    print_message("%d shapes, %d captures\n", w.n_seen, (int)n);
    assert_in_range(n, 6, 9 + 12);
    assert_true(w.n_seen > n);
    w.has_extras = true;
    walk_to_the_end(&w, want);
    /* Once more with log probabilities, with masks in two parts, of which one cares. */
    assert_in_range(cycle_backend(w.c)->n_captures, n + 1, 9 + 12 * (2 + 1 + 2));
    cycle_close(w.c);
}

TEST(a_capture_that_fails_leaves_nothing_behind)
{
    static int32_t want[SLOTS][TOKENS];
    cycle_lane lanes[SLOTS];
    cycle_result r;
    backend_register("graphs", open_graphs);
    decode_plainly(want);
    cycle *c = open_mini("graphs", "models/mini-dense-dflash2");
    wrap_backend *w = (wrap_backend *)(void *)(uintptr_t)cycle_backend(c);
    start(c, lanes, false);
    lanes[0].n_draft = 3;
    lanes[0].max_new = 4;
    w->refuse_at = 60; /* a call of the target's pass */
    assert_int_equal(cycle_step(c, lanes, 1, &r), ERR_LIMIT);
    assert_int_equal(w->base.n_captures, 1); /* the proposal */
    for (int i = 0, n = 0; i < 2; i++, n += r.n) {
        assert_int_equal(cycle_step(c, lanes, 1, &r), ERR_OK);
        for (int k = 0; k < r.n; k++) assert_int_equal(r.ids[k], want[0][n + k]);
        lanes[0].pos += r.n;
        lanes[0].anchor = r.ids[r.n - 1];
    }
    assert_int_equal(w->base.n_captures, 2);
    cycle_close(c);
}
