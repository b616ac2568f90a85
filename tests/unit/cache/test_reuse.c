#include "cache/reuse.h"

#include "base/mem.h"
#include "cache/prefix_tree.h"
#include "support/test.h"

enum { BLOCK = PREFIX_BLOCK };

static reuse *open_reuse(const reuse_options *o)
{
    err e = {0};
    reuse *r = NULL;
    CHECK_OK(reuse_open(&r, o, &e), &e);
    return r;
}

/* A prompt of n blocks and one token more; prompts of the same kind share their first blocks. */
typedef struct {
    int32_t ids[64 * BLOCK + 1];
    int n_ids;
} prompt;

static void prompt_make(prompt *p, int kind, int n_blocks)
{
    p->n_ids = n_blocks * BLOCK + 1;
    for (int i = 0; i < p->n_ids; i++) p->ids[i] = kind * 1000 + i / BLOCK;
}

/* What a lane does with a prompt: take over, compute the rest, keep a cell at the boundaries in
 * `cells` (a bit each) and leave. Returns the blocks taken over. */
static int run_prompt_as(reuse *r, const prompt *p, uint64_t cells, reuse_weight weight)
{
    int32_t blocks[64];
    int n = p->n_ids / BLOCK;
    reuse_found f = reuse_match(r, p->ids, p->n_ids, blocks);
    reuse_hold(r, blocks, f.n_blocks);
    for (int i = f.n_blocks; i < n; i++) {
        assert_int_equal(reuse_take(r, 1, &blocks[i]), ERR_OK);
        reuse_advance(r, BLOCK);
        blocks[i] = reuse_publish(r, i > 0 ? blocks[i - 1] : PREFIX_ROOT, p->ids + i * BLOCK,
                                  blocks[i]);
        if (!(cells >> (i + 1) & 1)) continue;
        int32_t c = reuse_cell_take(r);
        reuse_cell_attach(r, blocks[i], c, weight);
    }
    reuse_drop(r, blocks, n);
    return f.n_blocks;
}

static int run_prompt(reuse *r, const prompt *p, uint64_t cells)
{
    return run_prompt_as(r, p, cells, REUSE_EXPECTED);
}

static void expect_sound(const reuse *r, int n_lent)
{
    reuse_counters c = reuse_stats(r);
    assert_int_equal(reuse_n_available(r), c.n_blocks - c.n_held);
    assert_true(c.n_free + c.n_nodes + c.n_held >= c.n_blocks);
    if (c.n_held == 0) assert_int_equal(c.n_free + c.n_nodes, c.n_blocks);
    assert_int_equal(c.n_cells_free + c.n_cells_attached + n_lent, c.n_cells);
}

TEST(a_prompt_is_taken_over_up_to_its_last_state)
{
    static prompt p;
    reuse *r = open_reuse(&(reuse_options){.n_blocks = 16, .n_lanes = 1, .n_cells = 4});
    prompt_make(&p, 1, 6);
    assert_int_equal(run_prompt(r, &p, 1u << 2 | 1u << 4), 0);
    int32_t path[64];
    reuse_found f = reuse_match(r, p.ids, p.n_ids, path);
    assert_int_equal(f.n_blocks, 4);
    assert_int_equal(f.n_match, 6);
    assert_int_equal(f.reason, REUSE_NO_STATE);
    assert_int_equal(reuse_peek(r, p.ids, p.n_ids), 4);
    p.ids[3 * BLOCK + 5]++;
    f = reuse_match(r, p.ids, p.n_ids, path);
    assert_int_equal(f.n_blocks, 2);
    assert_int_equal(f.n_match, 3);
    p.ids[2 * BLOCK + 5]++;
    f = reuse_match(r, p.ids, p.n_ids, path);
    assert_int_equal(f.n_blocks, 2);
    assert_int_equal(f.reason, REUSE_DIFFERS);
    reuse_counters c = reuse_stats(r);
    assert_int_equal(c.lookups, 4);
    assert_int_equal(c.hits, 3);
    assert_int_equal(c.reused_tokens, 8 * BLOCK);
    reuse_close(r);
}

TEST(the_last_token_of_a_prompt_is_never_taken_over)
{
    static prompt p;
    int32_t path[64];
    reuse *r = open_reuse(&(reuse_options){.n_blocks = 16, .n_lanes = 1, .n_cells = 4});
    prompt_make(&p, 1, 3);
    run_prompt(r, &p, ~0ull);
    assert_int_equal(reuse_match(r, p.ids, 3 * BLOCK + 1, path).n_blocks, 3);
    assert_int_equal(reuse_match(r, p.ids, 3 * BLOCK, path).n_blocks, 2);
    assert_int_equal(reuse_match(r, p.ids, 3 * BLOCK, path).reason, REUSE_WHOLE);
    assert_int_equal(reuse_match(r, p.ids, BLOCK, path).n_blocks, 0);
    assert_int_equal(reuse_match(r, p.ids, 1, path).n_blocks, 0);
    reuse_close(r);
}

TEST(nothing_is_cached_without_cells)
{
    static prompt p;
    int32_t path[64], ids[4];
    reuse *r = open_reuse(&(reuse_options){.n_blocks = 4, .n_lanes = 1});
    assert_false(reuse_is_on(r));
    prompt_make(&p, 1, 3);
    assert_int_equal(reuse_match(r, p.ids, p.n_ids, path).n_blocks, 0);
    assert_int_equal(reuse_take(r, 4, ids), ERR_OK);
    assert_int_equal(reuse_take(r, 1, path), ERR_LIMIT);
    reuse_drop(r, ids, 4);
    assert_int_equal(reuse_n_available(r), 4);
    reuse_close(r);
}

TEST(a_block_that_is_there_already_is_shared_and_the_own_one_free)
{
    static prompt p;
    reuse *r = open_reuse(&(reuse_options){.n_blocks = 4, .n_lanes = 2, .n_cells = 3});
    int32_t a, b;
    prompt_make(&p, 1, 1);
    assert_int_equal(reuse_take(r, 1, &a), ERR_OK);
    assert_int_equal(reuse_take(r, 1, &b), ERR_OK);
    assert_int_equal(reuse_publish(r, PREFIX_ROOT, p.ids, a), a);
    assert_int_equal(reuse_publish(r, PREFIX_ROOT, p.ids, b), a);
    assert_int_equal(reuse_publish(r, PREFIX_ROOT, p.ids, a), a);
    assert_int_equal(reuse_stats(r).n_free, 3);
    assert_int_equal(reuse_n_available(r), 3);
    reuse_drop(r, &a, 1);
    assert_int_equal(reuse_n_available(r), 3);
    reuse_drop(r, &a, 1);
    assert_int_equal(reuse_n_available(r), 4);
    assert_int_equal(reuse_stats(r).duplicates, 1);
    expect_sound(r, 0);
    reuse_close(r);
}

TEST(blocks_behind_the_last_state_go_first)
{
    static prompt p, q;
    int32_t ids[4];
    reuse *r = open_reuse(&(reuse_options){.n_blocks = 10, .n_lanes = 1, .n_cells = 5});
    prompt_make(&p, 1, 5);
    prompt_make(&q, 2, 5);
    run_prompt(r, &p, 1u << 3);
    run_prompt(r, &q, 1u << 3);
    assert_int_equal(reuse_take(r, 4, ids), ERR_OK);
    assert_int_equal(reuse_stats(r).evicted_blocks, 4);
    assert_int_equal(reuse_stats(r).evicted_cells, 0);
    assert_int_equal(reuse_peek(r, p.ids, p.n_ids), 3);
    assert_int_equal(reuse_peek(r, q.ids, q.n_ids), 3);
    reuse_drop(r, ids, 4);
    expect_sound(r, 0);
    reuse_close(r);
}

TEST(what_a_lane_holds_is_never_evicted)
{
    static prompt p;
    int32_t path[64], ids[8];
    reuse *r = open_reuse(&(reuse_options){.n_blocks = 8, .n_lanes = 1, .n_cells = 3});
    prompt_make(&p, 1, 4);
    run_prompt(r, &p, 1u << 2 | 1u << 4);
    reuse_found f = reuse_match(r, p.ids, p.n_ids, path);
    reuse_hold(r, path, 2);
    assert_int_equal(f.n_blocks, 4);
    assert_int_equal(reuse_take(r, 7, ids), ERR_LIMIT);
    assert_int_equal(reuse_take(r, 6, ids), ERR_OK);
    for (int i = 0; i < 6; i++) assert_true(ids[i] != path[0] && ids[i] != path[1]);
    assert_int_equal(reuse_peek(r, p.ids, p.n_ids), 2);
    reuse_drop(r, ids, 6);
    reuse_drop(r, path, 2);
    expect_sound(r, 0);
    reuse_close(r);
}

/* users.md 41: title requests beside a session. */
TEST(short_requests_do_not_push_out_a_long_session)
{
    static prompt session, title;
    reuse *r = open_reuse(&(reuse_options){.n_blocks = 50, .n_lanes = 1, .n_cells = 7});
    prompt_make(&session, 1, 40);
    run_prompt(r, &session, 1u << 10 | 1ull << 40);
    for (int i = 0; i < 200; i++) {
        prompt_make(&title, 2 + i, 4);
        run_prompt(r, &title, 1u << 4);
        expect_sound(r, 0);
    }
    assert_int_equal(reuse_peek(r, session.ids, session.n_ids), 40);
    reuse_close(r);
}

TEST(states_in_passing_thin_out_from_the_beginning)
{
    static prompt p;
    int32_t blocks[64];
    reuse *r = open_reuse(&(reuse_options){.n_blocks = 64, .n_lanes = 1, .n_cells = 9});
    prompt_make(&p, 1, 64);
    for (int i = 0; i < 64; i++) {
        assert_int_equal(reuse_take(r, 1, &blocks[i]), ERR_OK);
        reuse_advance(r, BLOCK);
        blocks[i] = reuse_publish(r, i > 0 ? blocks[i - 1] : PREFIX_ROOT, p.ids + i * BLOCK,
                                  blocks[i]);
        reuse_cell_attach(r, blocks[i], reuse_cell_take(r), REUSE_PASSING);
    }
    /* Nine left: the newest, and older ones at growing distances, none of them far from all. */
    int last = 0, widest = 0, late = 0;
    for (int i = 0; i < 64; i++) {
        if (!reuse_has_cell(r, blocks[i])) continue;
        if (i + 1 - last > widest) widest = i + 1 - last;
        last = i + 1;
        if (i >= 48) late++;
    }
    assert_int_equal(last, 64);
    assert_true(widest <= 40);
    assert_true(late >= 4);
    reuse_drop(r, blocks, 64);
    expect_sound(r, 0);
    reuse_close(r);
}

TEST(the_beginning_of_a_turn_outlives_a_wider_gap_in_passing)
{
    static prompt p, q;
    int32_t path[64];
    reuse *r = open_reuse(&(reuse_options){.n_blocks = 64, .n_lanes = 1, .n_cells = 4});
    prompt_make(&p, 1, 30);
    prompt_make(&q, 2, 9);
    run_prompt_as(r, &p, 1u << 30, REUSE_PASSING);
    prompt_make(&p, 1, 36); /* 6 blocks more */
    run_prompt_as(r, &p, 1ull << 36, REUSE_END);
    reuse_match(r, p.ids, p.n_ids, path);
    reuse_pass_ends(r, path[35]);
    run_prompt_as(r, &q, 1u << 9, REUSE_PASSING);
    int32_t a = reuse_cell_take(r), b = reuse_cell_take(r);
    assert_int_equal(reuse_peek(r, p.ids, p.n_ids), 36);
    assert_int_equal(reuse_peek(r, q.ids, q.n_ids), 0);
    reuse_cell_drop(r, a);
    reuse_cell_drop(r, b);
    expect_sound(r, 0);
    reuse_close(r);
}

/* A session that goes on beside work that wants every cell keeps its last end. */
TEST(ends_that_a_session_left_behind_go_before_its_last)
{
    static prompt p, other;
    int32_t path[64];
    reuse *r = open_reuse(&(reuse_options){.n_blocks = 60, .n_lanes = 1, .n_cells = 7});
    for (int n = 30; n < 40; n += 3) {
        prompt_make(&p, 1, n);
        run_prompt_as(r, &p, 1ull << n, REUSE_END);
        reuse_match(r, p.ids, p.n_ids, path);
        reuse_pass_ends(r, path[n - 2]);
    }
    prompt_make(&other, 2, 9);
    run_prompt(r, &other, 1u << 3 | 1u << 6 | 1u << 9);
    for (int i = 0; i < 4; i++) {
        reuse_found f = reuse_match(r, p.ids, p.n_ids, path);
        assert_int_equal(f.n_blocks, 39);
        prompt_make(&other, 3 + i, 6);
        run_prompt(r, &other, 1u << 3 | 1u << 6);
        expect_sound(r, 0);
    }
    reuse_close(r);
}

TEST(the_state_before_an_evicted_one_inherits_its_use)
{
    static prompt p, q;
    reuse *r = open_reuse(&(reuse_options){.n_blocks = 30, .n_lanes = 1, .n_cells = 4});
    int32_t path[64];
    prompt_make(&p, 1, 6);
    prompt_make(&q, 2, 6);
    run_prompt(r, &p, 1u << 5 | 1u << 6);
    run_prompt(r, &q, 1u << 5);
    reuse_advance(r, 10000);
    reuse_match(r, p.ids, p.n_ids, path); /* uses the one at 6 only */
    int32_t a = reuse_cell_take(r), b = reuse_cell_take(r);
    assert_true(a >= 0 && b >= 0);
    assert_int_equal(reuse_peek(r, p.ids, p.n_ids), 5); /* 6 was cheapest to lose */
    assert_int_equal(reuse_peek(r, q.ids, q.n_ids), 5);
    int32_t c = reuse_cell_take(r);
    assert_int_equal(reuse_peek(r, p.ids, p.n_ids), 5);
    assert_int_equal(reuse_peek(r, q.ids, q.n_ids), 0);
    reuse_cell_drop(r, a);
    reuse_cell_drop(r, b);
    reuse_cell_drop(r, c);
    expect_sound(r, 0);
    reuse_close(r);
}

TEST(a_second_state_of_a_node_is_given_back_and_its_weight_kept)
{
    static prompt p;
    reuse *r = open_reuse(&(reuse_options){.n_blocks = 4, .n_lanes = 1, .n_cells = 3});
    prompt_make(&p, 1, 1);
    int32_t b;
    assert_int_equal(reuse_take(r, 1, &b), ERR_OK);
    reuse_publish(r, PREFIX_ROOT, p.ids, b);
    reuse_cell_attach(r, b, reuse_cell_take(r), REUSE_PASSING);
    reuse_cell_attach(r, b, reuse_cell_take(r), REUSE_EXPECTED);
    expect_sound(r, 0);
    assert_int_equal(reuse_stats(r).n_cells_attached, 1);
    reuse_cell_drop(r, reuse_cell_take(r));
    expect_sound(r, 0);
    reuse_drop(r, &b, 1);
    reuse_close(r);
}

TEST(windows_go_by_their_last_use_and_never_within_one_moment)
{
    static prompt p;
    int32_t blocks[64];
    reuse *r = open_reuse(
        &(reuse_options){.n_blocks = 8, .n_lanes = 1, .n_cells = 3, .n_windows = 2});
    prompt_make(&p, 1, 4);
    run_prompt(r, &p, 1u << 4);
    reuse_match(r, p.ids, p.n_ids, blocks);
    assert_int_equal(reuse_window_use(r, blocks[0]), -1);
    int32_t a = reuse_window_take(r, blocks[0]), b = reuse_window_take(r, blocks[1]);
    assert_true(a >= 0 && b >= 0 && a != b);
    assert_int_equal(reuse_window_take(r, blocks[2]), -1);
    reuse_advance(r, 1);
    assert_int_equal(reuse_window_use(r, blocks[0]), a);
    assert_int_equal(reuse_window_take(r, blocks[2]), b);
    assert_int_equal(reuse_window_use(r, blocks[1]), -1);
    assert_int_equal(reuse_stats(r).evicted_windows, 1);
    reuse_close(r);
}

TEST(clear_forgets_all_but_what_lanes_hold)
{
    static prompt p;
    int32_t path[64];
    reuse *r = open_reuse(
        &(reuse_options){.n_blocks = 8, .n_lanes = 1, .n_cells = 3, .n_windows = 2});
    prompt_make(&p, 1, 4);
    run_prompt(r, &p, 1u << 2 | 1u << 4);
    reuse_match(r, p.ids, p.n_ids, path);
    reuse_hold(r, path, 2);
    int32_t lent = reuse_cell_take(r);
    reuse_clear(r);
    assert_int_equal(reuse_stats(r).n_nodes, 0);
    assert_int_equal(reuse_stats(r).n_free, 6);
    expect_sound(r, 1);
    reuse_drop(r, path, 2);
    reuse_cell_drop(r, lent);
    expect_sound(r, 0);
    assert_int_equal(reuse_stats(r).n_free, 8);
    assert_int_equal(reuse_peek(r, p.ids, p.n_ids), 0);
    reuse_close(r);
}

/* Many prompts of few kinds through a small pool, with and without eviction at every chance. */
static void run_many(bool evicts_always, uint64_t seed)
{
    static prompt p;
    reuse *r = open_reuse(&(reuse_options){.n_blocks = 24,
                                           .n_lanes = 1,
                                           .n_cells = 5,
                                           .n_windows = 3,
                                           .evicts_always = evicts_always});
    for (int i = 0; i < 3000; i++) {
        int kind = (int)(test_random(&seed) % 4), n = (int)(test_random(&seed) % 20) + 1;
        prompt_make(&p, kind, n);
        int cut = (int)(test_random(&seed) % (uint64_t)n);
        for (int j = cut * BLOCK; j < p.n_ids && kind == 3; j++) p.ids[j] += i;
        int peek = reuse_peek(r, p.ids, p.n_ids);
        assert_int_equal(run_prompt(r, &p, test_random(&seed)), peek);
        expect_sound(r, 0);
        if (i % 500 == 499) reuse_clear(r);
    }
    assert_true(reuse_stats(r).evicted_cells > 100);
    reuse_close(r);
}

TEST(a_node_is_forgotten_with_all_below_it_and_nothing_else)
{
    static prompt p, q, other;
    int32_t path[64];
    reuse *r = open_reuse(&(reuse_options){.n_blocks = 32, .n_lanes = 2, .n_cells = 8});
    prompt_make(&p, 1, 6);
    q = p;
    for (int i = 4 * BLOCK; i < q.n_ids; i++) q.ids[i] += 7; /* parts behind four blocks */
    prompt_make(&other, 2, 3);
    run_prompt(r, &p, 1u << 2 | 1u << 6);
    run_prompt(r, &q, 1u << 6);
    run_prompt(r, &other, 1u << 3);
    reuse_found f = reuse_match(r, p.ids, p.n_ids, path);
    assert_int_equal(f.n_blocks, 6);
    reuse_hold(r, path, 2); /* a lane goes on holding the first two */
    assert_int_equal(reuse_peek_held(r, p.ids, p.n_ids), 2);
    assert_int_equal(reuse_peek_held(r, q.ids, q.n_ids), 2);
    assert_int_equal(reuse_peek_held(r, other.ids, other.n_ids), 0);
    reuse_forget(r, path[2]);
    assert_int_equal(reuse_peek(r, p.ids, p.n_ids), 2);
    assert_int_equal(reuse_peek(r, q.ids, q.n_ids), 2);
    assert_int_equal(reuse_stats(r).n_nodes, 2 + 3);
    reuse_forget(r, path[0]);
    reuse_forget(r, path[0]); /* is none any more */
    assert_int_equal(reuse_peek(r, p.ids, p.n_ids), 0);
    assert_int_equal(reuse_peek(r, other.ids, other.n_ids), 3);
    assert_int_equal(reuse_stats(r).n_nodes, 3);
    assert_int_equal(reuse_stats(r).n_held, 2);
    reuse_drop(r, path, 2);
    expect_sound(r, 0);
    reuse_close(r);
}

TEST(blocks_and_cells_add_up_under_random_use)
{
    uint64_t seed = test_seed();
    run_many(false, seed);
    run_many(true, seed);
}

TEST(open_survives_an_allocator_that_fails)
{
    err e = {0};
    reuse *r = NULL;
    reuse_options o = {.n_blocks = 8, .n_lanes = 2, .n_cells = 2, .n_windows = 1};
    int64_t live = mem_count().n_live;
    assert_int_equal(reuse_open(&r, &o, &e), ERR_INVALID);
    o.n_cells = 3;
    for (int n = 1;; n++) {
        mem_fail_at(n);
        status s = reuse_open(&r, &o, &e);
        mem_fail_at(0);
        if (s == ERR_OK) break;
        assert_int_equal(s, ERR_NOMEM);
        assert_int_equal(mem_count().n_live, live);
    }
    reuse_close(r);
    assert_int_equal(mem_count().n_live, live);
}
