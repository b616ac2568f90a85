/* tags: slow */
/* Recurrent states as BF16: what a pass gives depends on the block boundaries before it, not on how
 * it was cut or what was kept and restored. */
#include "model/narrow.h"

#include "base/mem.h"
#include "decode/cycle_priv.h"
#include "decode/snapshot.h"
#include "model/cells.h"
#include "support/test.h"

enum { N = 150 };

static cycle *open_mini(bool is_narrow, int prefill_rows)
{
    cycle *c = NULL;
    err e = {0};
    CHECK_OK(cycle_open(&c,
                        &(cycle_options){.model = "models/mini-dense",
                                         .backend = "cpu",
                                         .n_threads = 1,
                                         .n_slots = 2,
                                         .prefill_rows = prefill_rows,
                                         .logit_rows = N,
                                         .max_context = 256,
                                         .kv = KV_INT8,
                                         .has_narrow_states = is_narrow},
                        &e),
             &e);
    return c;
}

static void make_ids(int32_t *ids)
{
    for (int i = 0; i < N; i++) ids[i] = 200 + i * 37 % 900;
}

/* All N rows of logits, owned. */
static float *probe(cycle *c, int64_t *n)
{
    int32_t ids[N];
    err e = {0};
    make_ids(ids);
    *n = (int64_t)N * cycle_files(c)->target.V;
    float *logits = mem_new_array((size_t)*n, sizeof *logits);
    CHECK_OK(
        cycle_probe(c, &(cycle_probe_args){.ids = ids, .n = N, .rows = N, .logits = logits}, &e),
        &e);
    return logits;
}

TEST(rows_up_to_the_first_boundary_are_those_of_f32_states_and_later_ones_hardly_differ)
{
    int64_t n, n_differ = 0;
    cycle *wide = open_mini(false, 128), *half = open_mini(true, 128);
    float *want = probe(wide, &n), *got = probe(half, &n);
    int64_t V = n / N;
    assert_memory_equal(got, want, (size_t)(OPS_BLOCK * V) * sizeof *got);
    for (int64_t i = OPS_BLOCK * V; i < n; i++) {
        n_differ += got[i] < want[i] || got[i] > want[i];
        assert_true(fabsf(got[i] - want[i]) < 1);
    }
    assert_true(n_differ > V);
    mem_free(want);
    mem_free(got);
    cycle_close(wide);
    cycle_close(half);
}

TEST(a_prompt_in_one_piece_in_pieces_and_behind_a_restore_is_the_same)
{
    int64_t n;
    cycle *c = open_mini(true, 128), *cut = open_mini(true, 17);
    float *want = probe(c, &n), *got = probe(cut, &n);
    int64_t V = n / N, n_bytes = V * (int64_t)sizeof *got;
    assert_memory_equal(got, want, (size_t)n * sizeof *got);
    mem_free(got);
    cycle_close(cut);

    /* Slot 0 as far as the second boundary in one call, which rounds on the way; kept; slot 1 goes
     * on from there, in the same blocks. */
    int32_t ids[N], blocks[] = {0, 1, 2, 3};
    err e = {0};
    snapshots *kept = NULL;
    make_ids(ids);
    CHECK_OK(snapshots_open(&kept, c, 3, 0, &e), &e);
    assert_int_equal(snapshot_cell_bytes(c) * 2 > cells_bytes(c->target, false), true);
    assert_true(snapshot_cell_bytes(c) < cells_bytes(c->target, false));
    for (int slot = 0; slot < 2; slot++) {
        assert_int_equal(cycle_reset(c, slot), ERR_OK);
        assert_int_equal(cycle_set_blocks(c, slot, 0, blocks, 4), ERR_OK);
    }
    cycle_slice s = {.slot = 0, .ids = ids, .n = 2 * OPS_BLOCK, .prompt_end = N};
    assert_int_equal(cycle_prefill(c, &s, 1), ERR_OK);
    assert_int_equal(snapshot_save(kept, 0, 2), ERR_OK);
    assert_int_equal(snapshot_load(kept, 2, 1, 2 * OPS_BLOCK), ERR_OK);
    s = (cycle_slice){.slot = 1,
                      .ids = ids + 2 * OPS_BLOCK,
                      .n = N - 2 * OPS_BLOCK,
                      .pos = 2 * OPS_BLOCK,
                      .prompt_end = N,
                      .n_logits = 1};
    assert_int_equal(cycle_prefill(c, &s, 1), ERR_OK);
    got = mem_new_array((size_t)V, sizeof *got);
    assert_int_equal(c->be->ops->download(c->be, got, model_logits(c->target), n_bytes), ERR_OK);
    assert_memory_equal(got, want + (N - 1) * V, (size_t)n_bytes);
    mem_free(got);
    mem_free(want);
    snapshots_close(kept);
    cycle_close(c);
}

TEST(a_lane_proposes_no_further_than_its_block)
{
    cycle c = {.max_draft = 7};
    assert_int_equal(cycle_most_draft(&c, 62), 7);
    c.narrow = (narrow *)&c;
    assert_int_equal(cycle_most_draft(&c, 0), 7);
    assert_int_equal(cycle_most_draft(&c, 62), 1);
    assert_int_equal(cycle_most_draft(&c, 63), 0);
    assert_int_equal(cycle_most_draft(&c, 64), 7);
}

TEST(without_memory_narrow_states_are_refused)
{
    err e = {0};
    cycle *c = open_mini(false, 64);
    for (int at = 1; at <= 3; at++) {
        narrow *n = NULL;
        int64_t n_live = mem_count().n_live;
        mem_fail_at(at);
        status s = narrow_open(&n, c->target, &e);
        mem_fail_at(0);
        CHECK_STATUS(s, ERR_NOMEM);
        assert_int_equal(mem_count().n_live, n_live);
    }
    cycle_close(c);
}
