/* tags: slow */
#include "engine/memory_plan.h"

#include "base/mem.h"
#include "engine/engine_priv.h"
#include "model/engine_fixture.h"
#include "support/wrap_backend.h"

enum { MB = 1 << 20 };

/* 100 MiB fixed; a context of 16 blocks of 1 MiB; states of 2 MiB. */
static memory_wish wish(int64_t max_bytes, int64_t cache_bytes)
{
    return (memory_wish){.sizes = {.weights = 60 * MB,
                                   .draft = 20 * MB,
                                   .scratch = 12 * MB,
                                   .states = 8 * MB,
                                   .block = MB,
                                   .context_blocks = 16,
                                   .cell = 2 * MB},
                         .n_lanes = 4,
                         .max_bytes = max_bytes,
                         .cache_bytes = cache_bytes};
}

static memory_plan make(const memory_wish *w)
{
    memory_plan p;
    err e = {0};
    CHECK_OK(memory_plan_make(w, &p, &e), &e);
    assert_int_equal(p.total, p.weights + p.draft + p.scratch + p.states + p.kv + p.draft_kv +
                                  p.cache + p.turns);
    assert_int_equal(p.kv, p.n_blocks * w->sizes.block);
    if (p.limit > 0) assert_true(p.total <= p.limit);
    return p;
}

TEST(without_a_limit_all_lanes_have_their_context_and_the_cache_half_of_it)
{
    memory_wish w = wish(0, 0);
    memory_plan p = make(&w);
    assert_int_equal(p.n_blocks, 4 * 16);
    assert_int_equal(p.n_cells, 4 + (64 + 8) / 2 / 2);
    assert_false(p.is_short);
}

TEST(every_limit_is_kept_to_and_more_is_never_worse)
{
    memory_plan last = {0};
    for (int64_t limit = 127 * MB; limit < 240 * MB; limit += MB / 3) {
        memory_wish w = wish(limit, 0);
        memory_plan p = make(&w);
        assert_true(p.n_blocks >= 16 && p.n_blocks <= 64);
        assert_true(p.n_cells > 4);
        assert_true(p.n_blocks >= last.n_blocks && p.n_cells >= last.n_cells);
        assert_int_equal(p.is_short, p.n_blocks < 64 || p.n_cells < 22);
        last = p;
    }
    assert_int_equal(last.n_blocks, 64);
}

TEST(what_does_not_fit_is_refused_with_the_breakdown)
{
    memory_wish w = wish(125 * MB, 0);
    memory_plan p;
    err e = {0};
    assert_int_equal(memory_plan_make(&w, &p, &e), ERR_NOMEM);
    static const char *const parts[] = {"125 MiB",         "weights 60",          "draft 20",
                                        "scratch 12",      "states of 4 lanes 8", "1024 tokens 16",
                                        "prompt cache 10", "--max-context 960"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(e.msg, parts[i])) fail_msg("\"%s\" is not in: %s", parts[i], e.msg);
    w.sizes.context_blocks = 15; /* as it says */
    assert_int_equal(memory_plan_make(&w, &p, &e), ERR_OK);
    w.max_bytes = 90 * MB;
    assert_int_equal(memory_plan_make(&w, &p, &e), ERR_NOMEM);
}

TEST(a_cache_that_was_asked_for_is_not_made_smaller)
{
    memory_wish w = wish(150 * MB, 12 * MB);
    memory_plan p = make(&w);
    assert_int_equal(p.n_cells, 4 + 6);
    assert_int_equal(p.n_blocks, 30);
    err e = {0};
    w = wish(130 * MB, 12 * MB);
    assert_int_equal(memory_plan_make(&w, &p, &e), ERR_NOMEM);
    w = wish(0, 1 * MB);
    assert_int_equal(memory_plan_make(&w, &p, &e), ERR_INVALID);
    assert_string_equal(e.where, "cache-memory");
}

TEST(without_a_cache_all_is_for_blocks)
{
    memory_wish w = wish(120 * MB, -1);
    memory_plan p = make(&w);
    assert_int_equal(p.n_cells, 0);
    assert_int_equal(p.n_blocks, 20);
}

TEST(so_many_blocks_as_asked_for_or_none)
{
    memory_wish w = wish(0, 0);
    memory_plan p;
    err e = {0};
    w.n_blocks = 17;
    assert_int_equal(make(&w).n_blocks, 17);
    w.n_blocks = 15;
    assert_int_equal(memory_plan_make(&w, &p, &e), ERR_INVALID);
}

TEST(a_cache_can_be_halved_down_to_none)
{
    memory_wish w = wish(0, 0);
    w.sizes.window = MB / 2;
    w.sizes.window_blocks = 4;
    memory_plan p = make(&w);
    int n = 0;
    for (int64_t was = p.cache; memory_plan_shrink(&p, &w); was = p.cache, n++) {
        assert_true(p.cache < was);
        assert_true(p.n_cells > 4);
    }
    assert_true(n >= 3);
    assert_int_equal(p.n_cells, 0);
    assert_int_equal(p.cache, 0);
    assert_false(memory_plan_shrink(&p, &w));
}

/* The plan of a bundled model against what opening it took. */
static void expect_plan(const char *backend, const char *draft)
{
    engine *en = run_open(&(engine_options){.model = "models/mini-dense",
                                            .draft = draft,
                                            .backend = backend,
                                            .n_lanes = 3,
                                            .max_context = 512,
                                            .draft_rows = -1});
    cycle_memory m = cycle_bytes(en->cycle);
    const memory_plan *p = &en->memory;
    assert_int_equal(p->kv, m.target.kv);
    assert_int_equal(p->states, m.target.states);
    assert_in_range(p->scratch, m.target.scratch + m.draft_scratch,
                    m.target.scratch + m.draft_scratch + 4096);
    assert_int_equal(p->draft_kv, m.draft_kv);
    assert_int_equal(p->cache, snapshots_bytes(en->snapshots));
    assert_int_equal(p->n_blocks, 24);
    assert_in_range(p->draft, m.draft_weights,
                    m.draft_weights * 5 / 4); /* an upper bound, and no wild one */
    assert_int_equal(engine_about(en)->kv_tokens, 24 * 64);
    engine_close(en);
}

TEST(a_plan_is_what_opening_takes)
{
    expect_plan("ref", "models/mini-dense-dflash2");
    expect_plan("cpu", "models/mini-dense-dflash2");
    expect_plan("cpu", NULL);
}

TEST(an_engine_keeps_to_its_memory_or_says_why_not)
{
    engine_options o = {.model = "models/mini-dense",
                        .draft = "models/mini-dense-dflash2",
                        .backend = "cpu",
                        .n_lanes = 4,
                        .max_context = 2048,
                        .draft_rows = -1};
    engine *en = run_open(&o);
    int64_t full = en->memory.total;
    engine_close(en);
    o.max_memory = full * 9 / 10;
    en = run_open(&o);
    const engine_info *a = engine_about(en);
    assert_true(a->weight_bytes + a->draft_bytes + a->kv_bytes + a->draft_kv_bytes +
                    a->state_bytes + a->scratch_bytes + a->cache_bytes <=
                o.max_memory);
    assert_true(a->kv_tokens >= 2048 && a->kv_tokens < 4 * 2048);
    engine_close(en);
    err e = {0};
    o.max_memory = full / 4;
    en = NULL;
    assert_int_equal(engine_open(&en, &o, &e), ERR_NOMEM);
    assert_string_equal(e.where, "memory");
    assert_non_null(strstr(e.msg, "weights"));
}

TEST(lanes_are_as_many_as_suit_the_memory)
{
    int most_before = 0;
    for (int64_t limit = 90 * MB; limit < 4000 * (int64_t)MB; limit += 25 * MB) {
        int most = 0;
        for (int n = 1; n <= 64; n++) {
            memory_wish w = wish(limit, 0);
            w.n_lanes = n;
            w.sizes.states = n * 2 * MB;
            if (!memory_plan_suits(&w)) continue;
            assert_int_equal(most, n - 1); /* what suits more suits fewer */
            most = n;
            memory_plan p = make(&w);
            assert_true(p.n_blocks >= (n + 3) / 4 * 16);
        }
        assert_true(most >= most_before);
        most_before = most;
    }
    assert_int_equal(most_before, 64);
    memory_wish w = wish(4000 * (int64_t)MB, 0);
    w.sizes.is_host = true;
    w.n_lanes = MEMORY_PLAN_LANES_HOST + 1;
    assert_false(memory_plan_suits(&w)); /* the cores are the same */
    w = wish(0, 0);                      /* nothing is known */
    assert_true(memory_plan_suits(&w));
    w.n_lanes = 5;
    assert_false(memory_plan_suits(&w));
}

TEST(an_engine_without_a_number_of_lanes_has_those_that_suit)
{
    engine_options o = {.model = "models/mini-dense",
                        .backend = "cpu",
                        .n_threads = 1,
                        .max_context = 512,
                        .max_memory = 256 * (int64_t)MB};
    engine *en = run_open(&o);
    assert_int_equal(engine_about(en)->n_lanes, MEMORY_PLAN_LANES_HOST);
    int64_t fixed = en->memory.weights + en->memory.scratch;
    engine_close(en);
    o.max_memory = fixed + 40 * MB;
    en = run_open(&o);
    assert_in_range(engine_about(en)->n_lanes, 1, MEMORY_PLAN_LANES_HOST - 1);
    assert_true(en->memory.total <= o.max_memory);
    engine_close(en);
}

/* ---- a device of its own memory ---- */

static int64_t device_free;
static wrap_backend *device;

/* The processor as a device that has `device_free` bytes. */
static status open_device(backend **b, const char *isa, const backend_options *o, err *e)
{
    wrap_backend *w = NULL;
    (void)isa;
    TRY(wrap_open(&w, "cpu", o, e));
    w->base.memory_free = device_free;
    device = w;
    *b = &w->base;
    return ERR_OK;
}

TEST(a_device_is_asked_for_what_it_has_free_and_not_for_more)
{
    enum { GB = 1 << 30 };
    engine *en = NULL;
    err e = {0};
    engine_options o = {.model = "models/mini-dense",
                        .backend = "device",
                        .n_lanes = 4,
                        .max_context = 2048,
                        .draft_rows = -1};
    backend_register("device", open_device);
    device_free = GB + 8 * MB;
    assert_int_equal(memory_plan_device(device_free), 8 * MB);
    assert_int_equal(memory_plan_device(64 * (int64_t)GB), 62 * (int64_t)GB);
    assert_int_equal(engine_open(&en, &o, &e), ERR_NOMEM);
    assert_non_null(strstr(e.msg, "does not fit into 8 MiB of the device: weights"));
    o.max_memory = 2 * (int64_t)GB; /* a wish cannot make it larger */
    assert_int_equal(engine_open(&en, &o, &e), ERR_NOMEM);
    assert_non_null(strstr(e.msg, "of the device"));
    device_free = 3 * (int64_t)GB;
    o.max_memory = 0;
    en = run_open(&o);
    const memory_plan *p = &en->memory;
    assert_int_equal(p->limit, 2 * (int64_t)GB);
    assert_int_equal(device->arena_bytes, p->weights + p->scratch + p->states + p->kv);
    int64_t all = p->kv;
    o.max_memory = p->total * 3 / 4;
    engine_close(en);
    en = run_open(&o);
    assert_true(en->memory.limit == o.max_memory && en->memory.kv < all);
    engine_close(en);
}
