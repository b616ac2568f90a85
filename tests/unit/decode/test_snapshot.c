/* tags: slow */
#include "decode/snapshot.h"

#include "base/mem.h"
#include "decode/cycle_priv.h"
#include "decode/dflash_priv.h"
#include "decode/draft_window_priv.h"
#include "model/model_priv.h"
#include "support/test.h"

enum { PROMPT = 40, BOUNDARY = 64, SLOTS = 3 };

static cycle *open_mini(const char *draft_path, int n_slots)
{
    cycle *c = NULL;
    err e = {0};
    CHECK_OK(cycle_open(&c,
                        &(cycle_options){.model = "models/mini-dense",
                                         .draft = draft_path,
                                         .backend = "ref",
                                         .n_threads = 2,
                                         .n_slots = n_slots,
                                         .prefill_rows = 64,
                                         .max_context = 128,
                                         .kv = KV_INT8,
                                         .max_draft = -1},
                        &e),
             &e);
    return c;
}

static snapshots *open_snapshots(cycle *c, int n_cells, int n_windows)
{
    snapshots *s = NULL;
    err e = {0};
    CHECK_OK(snapshots_open(&s, c, n_cells, n_windows, &e), &e);
    return s;
}

static void fill_random(dev_buf b, uint64_t seed)
{
    for (int64_t i = 0; i < b.n_bytes / 4; i++)
        ((uint32_t *)b.ptr)[i] = (uint32_t)test_random(&seed);
}

static void expect_same_slots(const model *a, int slot_a, const model *b, int slot_b)
{
    for (int i = 0; i < a->n_gdn; i++) {
        int64_t state = a->state[i].n_bytes / a->opt.n_slots;
        int64_t conv = a->conv[i].n_bytes / a->opt.n_slots;
        assert_memory_equal((char *)a->state[i].ptr + slot_a * state,
                            (char *)b->state[i].ptr + slot_b * state, (size_t)state);
        assert_memory_equal((char *)a->conv[i].ptr + slot_a * conv,
                            (char *)b->conv[i].ptr + slot_b * conv, (size_t)conv);
    }
}

TEST(a_cell_holds_all_of_a_slots_state)
{
    cycle *c = open_mini(NULL, SLOTS);
    snapshots *s = open_snapshots(c, 2, 0);
    for (int i = 0; i < c->target->n_gdn; i++) {
        fill_random(c->target->state[i], 1 + (uint64_t)i);
        fill_random(c->target->conv[i], 100 + (uint64_t)i);
    }
    assert_int_equal(snapshot_save(s, 2, 1), ERR_OK);
    assert_int_equal(snapshot_save(s, 1, 0), ERR_OK);
    assert_int_equal(snapshot_load(s, 1, 0, BOUNDARY), ERR_OK);
    expect_same_slots(c->target, 0, c->target, 2);
    assert_int_equal(c->ctx_begin[0], BOUNDARY);
    assert_int_equal(snapshot_cell_bytes(c),
                     (c->target->bytes.states > 0) * c->target->n_gdn *
                         (c->target->state[0].n_bytes + c->target->conv[0].n_bytes) / SLOTS);
    assert_int_equal(snapshot_window_bytes(c), 0);
    assert_int_equal(snapshot_window_blocks(c), 0);
    assert_false(snapshot_has_window(s, 0, BOUNDARY, 0));
    assert_int_equal(snapshots_bytes(s), 2 * snapshot_cell_bytes(c));
    snapshots_close(s);
    cycle_close(c);
}

/* Rows of a ring that a block's positions take, a head after the other. */
static void expect_same_rows(const draft *d, int slot_a, int slot_b, int64_t pos)
{
    size_t size = (size_t)d->arch.D * 4;
    for (int i = 0; i < d->n_layers; i++) {
        const draft_ring *ring = &d->layers[i].ring;
        for (int64_t p = pos; p < pos + OPS_BLOCK; p++) {
            for (int g = 0; g < d->arch.G; g++) {
                int64_t a = ((int64_t)slot_a * d->arch.G + g) * ring->R + p % ring->R;
                int64_t b = ((int64_t)slot_b * d->arch.G + g) * ring->R + p % ring->R;
                assert_memory_equal((char *)ring->k.ptr + a * (int64_t)size,
                                    (char *)ring->k.ptr + b * (int64_t)size, size);
                assert_memory_equal((char *)ring->v.ptr + a * (int64_t)size,
                                    (char *)ring->v.ptr + b * (int64_t)size, size);
            }
        }
    }
}

TEST(a_window_holds_a_blocks_rows_of_every_layer_also_over_a_rings_end)
{
    cycle *c = open_mini("models/mini-dense-dflash2", 2);
    snapshots *s = open_snapshots(c, 1, 3);
    draft *d = c->drafter;
    assert_int_equal(draft_window_reach(d), 128);
    assert_int_equal(snapshot_window_blocks(c), 2);
    static const int64_t places[] = {0, 64, 128, 96, 250};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        for (int l = 0; l < d->n_layers; l++) {
            fill_random(d->layers[l].ring.k, 7 + (uint64_t)l + i * 10);
            fill_random(d->layers[l].ring.v, 5 + (uint64_t)l + i * 20);
        }
        assert_int_equal(snapshot_window_save(s, 0, places[i], 2), ERR_OK);
        assert_int_equal(snapshot_window_load(s, 2, 1, places[i]), ERR_OK);
        expect_same_rows(d, 0, 1, places[i]);
        assert_int_equal(c->ctx_begin[1], places[i]);
    }
    snapshots_close(s);
    cycle_close(c);
}

TEST(a_slot_has_the_windows_between_its_contexts_beginning_and_its_rings_reach)
{
    cycle *c = open_mini("models/mini-dense-dflash2", 1);
    snapshots *s = open_snapshots(c, 1, 1);
    c->ctx_begin[0] = 64;
    assert_false(snapshot_has_window(s, 0, 192, 0));
    assert_true(snapshot_has_window(s, 0, 192, 64));
    assert_true(snapshot_has_window(s, 0, 192, 128));
    assert_false(snapshot_has_window(s, 0, 191, 128));
    assert_false(snapshot_has_window(s, 0, 193, 64));
    snapshots_close(s);
    cycle_close(c);
}

static void start(cycle *c, int slot, int n_ids, const int32_t *ids)
{
    int32_t blocks[2] = {2 * slot + 1, 2 * slot};
    sample_policy p = {.seed = 9, .temperature = 0, .top_p = 1, .repetition = 1};
    assert_int_equal(cycle_reset(c, slot), ERR_OK);
    assert_int_equal(cycle_set_blocks(c, slot, 0, blocks, 2), ERR_OK);
    assert_int_equal(cycle_set_policy(c, slot, &p, NULL), ERR_OK);
    cycle_slice a = {.slot = slot, .ids = ids, .n = n_ids - 1, .prompt_end = n_ids - 1};
    assert_int_equal(cycle_prefill(c, &a, 1), ERR_OK);
}

/* Lanes come to the boundary in different cycles, some inside accepted proposals; what their cells
 * then hold is what plain steps up to it leave. */
static void expect_boundary(const char *draft_path, int n_draft)
{
    static const int begins[SLOTS] = {0, 5, 2};
    int32_t ids[PROMPT], answer[SLOTS][BOUNDARY + 32];
    for (int i = 0; i < PROMPT; i++) ids[i] = 300 + i % 7;
    cycle *c = open_mini(draft_path, SLOTS + 1), *plain = open_mini(NULL, 1);
    snapshots *s = open_snapshots(c, SLOTS, 0);
    cycle_lane lanes[SLOTS];
    int32_t cell[SLOTS];
    bool done[SLOTS] = {false};
    for (int l = 0; l < SLOTS; l++) {
        int n = PROMPT - begins[l];
        start(c, l, n, ids + begins[l]);
        memcpy(answer[l], ids + begins[l], (size_t)n * sizeof *ids);
        lanes[l] = (cycle_lane){
            .slot = l, .anchor = ids[PROMPT - 1], .pos = n - 1, .n_draft = n_draft, .max_new = 16};
    }
    for (int n_done = 0; n_done < SLOTS;) {
        cycle_result results[SLOTS];
        bool crossed[SLOTS];
        for (int l = 0; l < SLOTS; l++)
            cell[l] = !done[l] && lanes[l].pos + n_draft + 1 >= BOUNDARY ? l : -1;
        assert_int_equal(snapshot_before_cycle(s, lanes, SLOTS, cell), ERR_OK);
        assert_int_equal(cycle_step(c, lanes, SLOTS, results), ERR_OK);
        assert_int_equal(snapshot_after_cycle(s, lanes, SLOTS, cell, results, crossed), ERR_OK);
        for (int l = 0; l < SLOTS; l++) {
            if (done[l]) lanes[l].pos = BOUNDARY + 1; /* its blocks end soon: again and again */
            int64_t at = lanes[l].pos + 1;
            for (int i = 0; i < results[l].n && !done[l]; i++)
                answer[l][at + i] = results[l].ids[i];
            assert_int_equal(crossed[l], !done[l] && lanes[l].pos + results[l].n >= BOUNDARY);
            lanes[l].pos += results[l].n;
            lanes[l].anchor = results[l].ids[results[l].n - 1];
            if (!crossed[l]) continue;
            done[l] = true;
            n_done++;
        }
    }
    for (int l = 0; l < SLOTS; l++) {
        start(plain, 0, BOUNDARY + 1, answer[l]);
        assert_int_equal(snapshot_load(s, l, SLOTS, BOUNDARY), ERR_OK);
        expect_same_slots(c->target, SLOTS, plain->target, 0);
    }
    snapshots_close(s);
    cycle_close(c);
    cycle_close(plain);
}

TEST(a_boundary_inside_accepted_proposals_leaves_the_state_of_plain_steps)
{
    expect_boundary("models/mini-dense-dflash2", 7);
}

TEST(a_boundary_reached_by_single_rows_leaves_the_state_too)
{
    expect_boundary(NULL, 0);
}

TEST(open_survives_an_allocator_that_fails)
{
    cycle *c = open_mini("models/mini-dense-dflash2", 1);
    snapshots *s = NULL;
    err e = {0};
    int64_t live = mem_count().n_live;
    int n = 1;
    for (;; n++) {
        mem_fail_at(n);
        status st = snapshots_open(&s, c, 3, 2, &e);
        mem_fail_at(0);
        if (st == ERR_OK) break;
        assert_int_equal(st, ERR_NOMEM);
        assert_int_equal(mem_count().n_live, live);
    }
    assert_true(n > 4);
    snapshots_close(s);
    assert_int_equal(mem_count().n_live, live);
    cycle_close(c);
}
