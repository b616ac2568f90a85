/* tags: slow */
#include "decode/cycle.h"

#include "base/mem.h"
#include "decode/cycle_priv.h"
#include "support/test.h"

static const int32_t prompt[] = {2068, 329, 198,  496, 277,  220, 16,  17,   464, 220,  18,
                                 15,   30,  2069, 198, 2068, 330, 198, 2078, 358, 2079, 358};
enum { PROMPT = sizeof prompt / sizeof *prompt, STEPS = 40, LANES = 3 };

static cycle *open_mini(const char *draft)
{
    cycle *c = NULL;
    err e = {0};
    CHECK_OK(cycle_open(&c,
                        &(cycle_options){.model = "models/mini-dense",
                                         .draft = draft,
                                         .backend = "cpu",
                                         .n_threads = 1,
                                         .n_slots = LANES,
                                         .prefill_rows = 32,
                                         .max_context = 256,
                                         .kv = KV_INT8,
                                         .max_draft = -1},
                        &e),
             &e);
    return c;
}

/* A rule that a mask of the place alone can keep: an id behind `last` must differ from it modulo 3
 * and not be divisible by 5. */
typedef struct {
    int32_t last;
    int V;
    int n_fills, n_rows;
} rule;

static bool rule_allows(int32_t last, int32_t id)
{
    return id % 3 != last % 3 && id % 5 != 0;
}

static void rule_fill(void *ctx, const int32_t *proposals, int n, uint32_t *rows)
{
    rule *r = ctx;
    int n_words = (r->V + 31) / 32;
    memset(rows, 0, (size_t)(n + 1) * (size_t)n_words * 4);
    for (int i = 0; i <= n; i++) {
        int32_t last = i == 0 ? r->last : proposals[i - 1];
        for (int32_t id = 0; id < r->V; id++)
            if (rule_allows(last, id)) rows[i * n_words + id / 32] |= 1u << (id % 32);
    }
    r->n_fills++;
    r->n_rows += n + 1;
}

static void start(cycle *c, int slot, bool is_masked)
{
    int32_t blocks[4];
    for (int i = 0; i < 4; i++) blocks[i] = 4 * slot + i;
    sample_policy p = {.seed = 9 + (uint64_t)slot,
                       .temperature = 1,
                       .top_p = 1,
                       .repetition = 1,
                       .has_mask = is_masked};
    assert_int_equal(cycle_reset(c, slot), ERR_OK);
    assert_int_equal(cycle_set_blocks(c, slot, 0, blocks, 4), ERR_OK);
    assert_int_equal(cycle_set_policy(c, slot, &p, NULL), ERR_OK);
    cycle_slice s = {
        .slot = slot, .ids = prompt, .n = PROMPT - 1, .pos = 0, .prompt_end = PROMPT - 1};
    assert_int_equal(cycle_prefill(c, &s, 1), ERR_OK);
}

/* Lanes of `slots` to STEPS tokens each; lane 1 is never masked. `rests`: every other cycle goes
 * without its masks where a lane may do so. */
static void generate(cycle *c, const int *slots, int L, int width, int32_t out[LANES][STEPS + 16])
{
    rule rules[LANES];
    cycle_lane lanes[LANES];
    int n[LANES] = {0}, n_left = L;
    for (int l = 0; l < L; l++) {
        int slot = slots[l];
        start(c, slot, slot != 1);
        rules[l] = (rule){.last = prompt[PROMPT - 1], .V = c->files.target.V};
        lanes[l] = (cycle_lane){.slot = slot, .anchor = prompt[PROMPT - 1], .pos = PROMPT - 1};
        if (slot != 1) lanes[l].mask = (cycle_mask){rule_fill, &rules[l], NULL};
    }
    while (n_left > 0) {
        cycle_result r[LANES];
        n_left = 0;
        for (int l = 0; l < L; l++) {
            lanes[l].n_draft = l == 2 ? width / 2 : width; /* of different widths at a time */
            lanes[l].max_new = width + 1;
        }
        assert_int_equal(cycle_step(c, lanes, L, r), ERR_OK);
        for (int l = 0; l < L; l++) {
            for (int i = 0; i < r[l].n; i++) {
                int32_t id = r[l].ids[i];
                if (lanes[l].mask.fill) assert_true(rule_allows(rules[l].last, id));
                rules[l].last = id;
                if (n[l] < STEPS) out[slots[l]][n[l]++] = id;
            }
            lanes[l].pos += r[l].n;
            lanes[l].anchor = rules[l].last;
            n_left += n[l] < STEPS;
        }
    }
    for (int l = 0; l < L; l++) {
        assert_int_equal(rules[l].n_fills > 0, slots[l] != 1);
        if (width > 0 && slots[l] == 0) assert_true(rules[l].n_rows > rules[l].n_fills);
    }
}

TEST(each_row_is_masked_behind_its_own_proposals_in_any_company)
{
    static int32_t want[LANES][STEPS + 16], got[LANES][STEPS + 16];
    cycle *bare = open_mini(NULL), *drafted = open_mini("models/mini-dense-dflash2");
    for (int slot = 0; slot < LANES; slot++) generate(bare, &slot, 1, 0, want);
    const int all[LANES] = {0, 1, 2};
    for (int width = 0; width <= 7; width += width ? 3 : 1) {
        for (int slot = 0; slot < LANES; slot++) {
            generate(drafted, &slot, 1, width, got);
            assert_memory_equal(got[slot], want[slot], STEPS * 4);
        }
        generate(drafted, all, LANES, width, got);
        for (int slot = 0; slot < LANES; slot++)
            assert_memory_equal(got[slot], want[slot], STEPS * 4);
    }
    cycle_close(bare);
    cycle_close(drafted);
}

/* A lane whose policy has masks, in a cycle in which it has none. */
TEST(a_lane_that_rests_from_its_masks_is_free)
{
    cycle *c = open_mini(NULL);
    int32_t free_id = 0;
    for (int masked = 0; masked < 2; masked++)
        for (int company = 0; company < 2; company++) {
            start(c, 0, masked);
            start(c, 2, true);
            rule r = {.last = prompt[PROMPT - 1], .V = c->files.target.V};
            cycle_lane lanes[2] = {
                {.slot = 0, .anchor = prompt[PROMPT - 1], .pos = PROMPT - 1, .max_new = 1},
                {.slot = 2,
                 .anchor = prompt[PROMPT - 1],
                 .pos = PROMPT - 1,
                 .max_new = 1,
                 .mask = {rule_fill, &r, NULL}}};
            cycle_result out[2];
            assert_int_equal(cycle_step(c, lanes, 1 + company, out), ERR_OK);
            if (masked || company) assert_int_equal(out[0].ids[0], free_id);
            free_id = out[0].ids[0];
        }
    cycle_close(c);
}
