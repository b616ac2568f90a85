/* tags: threads */
#include "backend/backend_priv.h"
#include "backend/cpu/cpu_priv.h"
#include "base/mem.h"
#include "cpu_tables.h"

static const backend_options two_threads = {.name = "cpu", .n_threads = 2};
static const backend_limits small = {.T = 8,
                                     .L = 2,
                                     .E = 64,
                                     .K = 64,
                                     .N = 64,
                                     .V = 100,
                                     .M = 2,
                                     .H = 2,
                                     .G = 1,
                                     .D = 32,
                                     .gdn_Hk = 1,
                                     .gdn_Hv = 1,
                                     .gdn_dk = 16,
                                     .gdn_dv = 16,
                                     .X = 4,
                                     .K_experts = 2,
                                     .moe_F = 32,
                                     .shared_F = 32,
                                     .max_position = 128};

/* Open, reserve and one weight, each of which must fail cleanly. */
static status open_all(backend **b, dev_weight *w, err *e)
{
    static const float data[32 * 64];
    tensor t = {
        .type = DTYPE_F32, .n_dims = 2, .shape = {32, 64}, .data = data, .n_bytes = sizeof data};
    TRY(cpu_backend_open(b, NULL, &two_threads, e));
    TRY((*b)->ops->reserve(*b, &small, e));
    return (*b)->ops->weight_open(*b, &t, WEIGHT_LINEAR, w, e);
}

TEST(open_survives_a_failure_of_every_allocation)
{
    for (int n = 1;; n++) {
        backend *b = NULL;
        dev_weight w = {0};
        err e;
        int64_t live = mem_count().n_live;
        mem_fail_at(n);
        status s = open_all(&b, &w, &e);
        mem_fail_at(0);
        if (b) {
            b->ops->weight_close(b, &w);
            b->ops->close(b);
        }
        assert_int_equal(mem_count().n_live, live);
        if (s == ERR_OK) {
            assert_true(n > 5);
            return;
        }
        CHECK_STATUS(s, ERR_NOMEM);
    }
}

TEST(says_what_it_is)
{
    backend *b;
    err e;
    CHECK_OK(cpu_backend_open(&b, "scalar", &two_threads, &e), &e);
    assert_string_equal(b->name, "cpu");
    assert_string_equal(b->isa, "scalar");
    assert_int_equal(b->act, DTYPE_F32);
    assert_int_equal(b->n_threads, 2);
    assert_true(b->quantises_drafts);
    b->ops->close(b);
    b = NULL;
    CHECK_STATUS(cpu_backend_open(&b, "mmx", &two_threads, &e), ERR_INVALID);
    assert_null(b);
}

TEST(reserve_refuses_what_no_kernel_can_do)
{
    backend *b;
    err e;
    CHECK_OK(cpu_backend_open(&b, NULL, &two_threads, &e), &e);
    backend_limits l = small;
    l.D = 40;
    CHECK_STATUS(b->ops->reserve(b, &l, &e), ERR_UNSUPPORTED);
    l = small;
    l.gdn_dv = 24;
    CHECK_STATUS(b->ops->reserve(b, &l, &e), ERR_UNSUPPORTED);
    b->ops->close(b);
}

TEST(an_op_beyond_what_was_reserved_fails_and_says_so)
{
    static float x[64 * 64], y[64 * 2000];
    backend *b;
    dev_weight w = {0};
    err e;
    uint8_t codes[80 * 32] = {0};
    uint16_t scales[80] = {0};
    tensor t = {.type = DTYPE_AFFINE,
                .n_dims = 2,
                .shape = {80, 64},
                .data = codes,
                .n_bytes = sizeof codes,
                .scales = scales,
                .biases = scales,
                .scale_type = DTYPE_BF16,
                .bits = 4,
                .group = 64};
    CHECK_OK(cpu_backend_open(&b, NULL, &two_threads, &e), &e);
    CHECK_OK(b->ops->reserve(b, &small, &e), &e);
    CHECK_OK(b->ops->weight_open(b, &t, WEIGHT_LINEAR, &w, &e), &e);
    linear_args a = {.x = {x, sizeof x}, .T = 8, .n_parts = 1};
    a.part[0].w = &w;
    a.part[0].y = (dev_buf){y, sizeof y};
    CHECK_STATUS(b->ops->linear(b, &a), ERR_OK);
    a.T = 64;
    CHECK_STATUS(b->ops->linear(b, &a), ERR_LIMIT);
    assert_string_equal(b->last.where, "linear");
    b->ops->weight_close(b, &w);
    b->ops->close(b);
}
