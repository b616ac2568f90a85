/* tags: slow */
#include "decode/cycle.h"

#include "base/mem.h"
#include "decode/cycle_priv.h"
#include "decode/dflash_priv.h"
#include "model/model_priv.h"
#include "support/test.h"

static const int32_t prompt[] = {2068, 329, 198,  496, 277,  220, 16,  17,   464, 220,  18,
                                 15,   30,  2069, 198, 2068, 330, 198, 2078, 358, 2079, 358};
enum { PROMPT = sizeof prompt / sizeof *prompt };

static cycle *open_mini(const char *draft_path, int max_draft, int n_slots)
{
    cycle *c = NULL;
    err e = {0};
    CHECK_OK(cycle_open(&c,
                        &(cycle_options){.model = "models/mini-dense",
                                         .draft = draft_path,
                                         .backend = "ref",
                                         .n_slots = n_slots,
                                         .prefill_rows = 32,
                                         .max_context = 256,
                                         .kv = KV_INT8,
                                         .max_draft = max_draft},
                        &e),
             &e);
    return c;
}

/* Slot `slot` holds the prompt but its last token; its blocks are not in order. */
static void start(cycle *c, int slot, double temperature)
{
    int32_t blocks[4] = {3, 0, 2, 1};
    for (int i = 0; i < 4; i++) blocks[i] += 4 * slot;
    sample_policy p = {.seed = 9, .temperature = (float)temperature, .top_p = 1, .repetition = 1};
    assert_int_equal(cycle_reset(c, slot), ERR_OK);
    assert_int_equal(cycle_set_blocks(c, slot, 0, blocks, 4), ERR_OK);
    assert_int_equal(cycle_set_policy(c, slot, &p, NULL), ERR_OK);
    cycle_slice s = {
        .slot = slot, .ids = prompt, .n = PROMPT - 1, .pos = 0, .prompt_end = PROMPT - 1};
    assert_int_equal(cycle_prefill(c, &s, 1), ERR_OK);
}

/* Step one slot until its anchor stands at `end` or later, at most `width` proposals a cycle and
 * never past it. */
static void advance_to(cycle *c, cycle_lane *lane, int64_t end, int width, int *n_accepted)
{
    while (lane->pos < end) {
        cycle_result r;
        lane->max_new = (int)(end - lane->pos < OPS_ROWS_MAX ? end - lane->pos : OPS_ROWS_MAX);
        lane->n_draft = width < lane->max_new - 1 ? width : lane->max_new - 1;
        assert_int_equal(cycle_step(c, lane, 1, &r), ERR_OK);
        assert_in_range(r.n, 1, lane->n_draft + 1);
        assert_in_range(r.n_accepted, r.n - 1, r.n);
        lane->pos += r.n;
        lane->anchor = r.ids[r.n - 1];
        *n_accepted += r.n_accepted;
    }
}

static void expect_same_cells(const model *a, const model *b)
{
    for (int i = 0; i < a->n_gdn; i++) {
        assert_memory_equal(a->state[i].ptr, b->state[i].ptr, (size_t)a->state[i].n_bytes);
        assert_memory_equal(a->conv[i].ptr, b->conv[i].ptr, (size_t)a->conv[i].n_bytes);
    }
}

TEST(states_after_accepted_blocks_equal_states_after_plain_steps_bit_for_bit)
{
    for (int hot = 0; hot < 2; hot++) {
        cycle *plain = open_mini(NULL, -1, 1),
              *drafted = open_mini("models/mini-dense-dflash2", -1, 1);
        start(plain, 0, hot ? 0.9 : 0);
        start(drafted, 0, hot ? 0.9 : 0);
        cycle_lane a = {.anchor = prompt[PROMPT - 1], .pos = PROMPT - 1}, b = a;
        int none = 0, accepted = 0;
        for (int end = PROMPT + 1; end < PROMPT + 60; end += 13) {
            advance_to(plain, &a, end, 0, &none);
            advance_to(drafted, &b, end, 7, &accepted);
            assert_int_equal(a.anchor, b.anchor);
            expect_same_cells(plain->target, drafted->target);
        }
        assert_int_equal(none, 0);
        assert_true(accepted > 5);
        cycle_close(plain);
        cycle_close(drafted);
    }
}

TEST(a_rejected_block_leaves_the_state_of_the_rows_that_were_right)
{
    /* Noise of another seed makes the drafter of the first slot guess what the target does not
     * draw: mixed acceptance in one call with a lane that drafts nothing. */
    cycle *c = open_mini("models/mini-dense-dflash2", -1, 2), *one = open_mini(NULL, -1, 2);
    start(c, 0, 1.5);
    start(c, 1, 0);
    start(one, 0, 1.5);
    start(one, 1, 0);
    cycle_lane lanes[2] = {
        {.slot = 0, .anchor = prompt[PROMPT - 1], .pos = PROMPT - 1, .n_draft = 7, .max_new = 16},
        {.slot = 1, .anchor = prompt[PROMPT - 1], .pos = PROMPT - 1, .n_draft = 0, .max_new = 16}};
    cycle_lane alone[2] = {lanes[0], lanes[1]};
    int rejected = 0, none = 0;
    for (int i = 0; i < 12; i++) {
        cycle_result r[2];
        assert_int_equal(cycle_step(c, lanes, 2, r), ERR_OK);
        assert_int_equal(r[1].n, 1);
        rejected += r[0].n_accepted < 7;
        for (int l = 0; l < 2; l++) {
            lanes[l].pos += r[l].n;
            lanes[l].anchor = r[l].ids[r[l].n - 1];
        }
    }
    assert_true(rejected > 0);
    for (int l = 0; l < 2; l++) {
        advance_to(one, &alone[l], lanes[l].pos, 0, &none);
        assert_int_equal(alone[l].anchor, lanes[l].anchor);
    }
    expect_same_cells(one->target, c->target);
    cycle_close(c);
    cycle_close(one);
}

/* The draft's context of positions [0, end) of a slot, bit for bit. */
static void expect_same_context(const cycle *a, const cycle *b, int slot, int64_t end)
{
    const draft *x = a->drafter, *y = b->drafter;
    int G = x->arch.G, D = x->arch.D;
    for (int i = 0; i < x->n_layers; i++)
        for (int g = 0; g < G; g++) {
            int R = x->layers[i].ring.R;
            assert_true(end <= R);
            size_t at = ((size_t)slot * (size_t)G + (size_t)g) * (size_t)R * (size_t)D * 4;
            size_t n = (size_t)end * (size_t)D * 4;
            assert_memory_equal((char *)x->layers[i].ring.k.ptr + at,
                                (char *)y->layers[i].ring.k.ptr + at, n);
            assert_memory_equal((char *)x->layers[i].ring.v.ptr + at,
                                (char *)y->layers[i].ring.v.ptr + at, n);
        }
}

static void propose_all(cycle *c, const cycle_lane *lane, cycle_result *r)
{
    cycle_lane l = *lane;
    l.n_draft = 7;
    l.max_new = 8;
    assert_int_equal(cycle_step(c, &l, 1, r), ERR_OK);
}

TEST(context_that_waited_is_the_context_that_did_not)
{
    cycle *at_once = open_mini("models/mini-dense-dflash2", -1, 2),
          *later = open_mini("models/mini-dense-dflash2", -1, 2);
    /* 5 rows wait; 70 are more than the store holds, so some are flushed on the way. */
    static const int spells[] = {5, 70};
    for (int i = 0; i < 2; i++) {
        cycle_lane a = {.slot = 1, .anchor = prompt[PROMPT - 1], .pos = PROMPT - 1}, b = a;
        cycle_result x, y;
        int accepted = 0;
        start(at_once, 1, 0.7);
        start(later, 1, 0.7);
        advance_to(at_once, &a, a.pos + spells[i], 7, &accepted);
        advance_to(later, &b, a.pos, 0, &accepted);
        assert_int_equal(a.anchor, b.anchor);
        assert_true(later->pending.n_rows > 0 && later->pending.n_rows <= spells[i]);
        propose_all(at_once, &a, &x);
        propose_all(later, &b, &y);
        assert_int_equal(later->pending.n_rows, 0);
        assert_int_equal(x.n, y.n);
        assert_memory_equal(x.proposals, y.proposals, 7 * sizeof *x.proposals);
        expect_same_context(at_once, later, 1, a.pos + x.n);
    }
    cycle_close(at_once);
    cycle_close(later);
}

TEST(a_slot_that_is_reset_takes_no_context_of_its_old_sequence)
{
    cycle *c = open_mini("models/mini-dense-dflash2", -1, 2),
          *fresh = open_mini("models/mini-dense-dflash2", -1, 2);
    for (int company = 0; company < 2; company++) {
        cycle_lane lanes[2] = {
            {.slot = 0, .anchor = prompt[PROMPT - 1], .pos = PROMPT - 1, .max_new = 16},
            {.slot = 1, .anchor = prompt[PROMPT - 1], .pos = PROMPT - 1, .max_new = 16}};
        cycle_result r[2], want;
        for (int slot = 0; slot <= company; slot++) start(c, slot, 0);
        for (int i = 0; i < 6; i++) {
            assert_int_equal(cycle_step(c, lanes, 1 + company, r), ERR_OK);
            for (int l = 0; l <= company; l++) {
                lanes[l].pos += r[l].n;
                lanes[l].anchor = r[l].ids[0];
            }
        }
        assert_int_equal(c->pending.n_rows, 6 * (1 + company));
        start(c, 0, 0.9); /* the other lane's rows are not lost by it */
        start(fresh, 0, 0.9);
        assert_int_equal(c->pending.n_rows, 0);
        cycle_lane again = {.slot = 0, .anchor = prompt[PROMPT - 1], .pos = PROMPT - 1};
        propose_all(fresh, &again, &want);
        propose_all(c, &again, &r[0]);
        assert_memory_equal(r[0].proposals, want.proposals, 7 * sizeof *want.proposals);
        expect_same_context(c, fresh, 0, PROMPT - 1 + want.n);
    }
    cycle_close(c);
    cycle_close(fresh);
}

TEST(narrow_proposals_are_the_first_of_wide_ones_in_any_company)
{
    cycle *c = open_mini("models/mini-dense-dflash2", -1, 3);
    cycle_result wide[3], r[3];
    static const int widths[][3] = {{1, 0, 7}, {3, 2, 0}, {0, 5, 1}, {0, 0, 4}, {7, 7, 7}};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        for (int pass = 0; pass < 2; pass++) {
            cycle_lane lanes[3];
            for (int l = 0; l < 3; l++) {
                start(c, l, 0.5 * l);
                lanes[l] = (cycle_lane){.slot = l,
                                        .anchor = prompt[PROMPT - 1],
                                        .pos = PROMPT - 1,
                                        .n_draft = pass ? widths[i][l] : 7,
                                        .max_new = 8};
            }
            assert_int_equal(cycle_step(c, lanes, 3, pass ? r : wide), ERR_OK);
        }
        for (int l = 0; l < 3; l++) {
            assert_int_equal(r[l].n_drafted, widths[i][l]);
            assert_memory_equal(r[l].proposals, wide[l].proposals,
                                (size_t)widths[i][l] * sizeof *r[l].proposals);
            assert_memory_equal(r[l].ids, wide[l].ids, (size_t)r[l].n * sizeof *r[l].ids);
        }
    }
    cycle_close(c);
}

TEST(a_step_allocates_nothing)
{
    cycle *c = open_mini("models/mini-dense-dflash2", -1, 1);
    mem_guard_begin("cycle test");
    start(c, 0, 0.8);
    cycle_lane lane = {.anchor = prompt[PROMPT - 1], .pos = PROMPT - 1};
    int accepted = 0;
    advance_to(c, &lane, PROMPT + 20, 7, &accepted);
    mem_guard_end();
    cycle_close(c);
}

TEST(the_last_token_allowed_ends_a_cycle_and_its_tail_is_not_committed)
{
    cycle *c = open_mini("models/mini-dense-dflash2", -1, 1);
    start(c, 0, 0);
    cycle *plain = open_mini(NULL, -1, 1);
    start(plain, 0, 0);
    cycle_lane lane = {.anchor = prompt[PROMPT - 1], .pos = PROMPT - 1, .n_draft = 7, .max_new = 2};
    cycle_lane alone = lane;
    int n_cut = 0, none = 0;
    for (int i = 0; i < 8; i++) {
        cycle_result r;
        assert_int_equal(cycle_step(c, &lane, 1, &r), ERR_OK);
        assert_in_range(r.n, 1, 2);
        n_cut += r.n_accepted == 2;
        lane.pos += r.n;
        lane.anchor = r.ids[r.n - 1];
    }
    assert_true(n_cut > 0);
    advance_to(plain, &alone, lane.pos, 0, &none);
    expect_same_cells(plain->target, c->target);
    cycle_close(plain);
    cycle_close(c);
}

TEST(a_draft_that_does_not_fit_the_target_is_refused)
{
    cycle *c = NULL;
    err e = {0};
    assert_int_equal(cycle_open(&c,
                                &(cycle_options){.model = "models/mini-moe",
                                                 .draft = "models/mini-dense-dflash2",
                                                 .backend = "ref",
                                                 .n_slots = 1,
                                                 .prefill_rows = 8,
                                                 .max_draft = -1},
                                &e),
                     ERR_INVALID);
    assert_true(e.msg[0] != 0);
    assert_int_equal(cycle_open(&c,
                                &(cycle_options){.model = "models/mini-dense-dflash2",
                                                 .backend = "ref",
                                                 .n_slots = 1,
                                                 .prefill_rows = 8},
                                &e),
                     ERR_INVALID);
    assert_null(c);
}
