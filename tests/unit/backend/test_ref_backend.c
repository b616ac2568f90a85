/* tags: threads */
/* Memory, weights, scratch and errors of ref; its ops are tested in tests/ops. */
#include "backend/backend.h"
#include "backend/ref/ref_priv.h"
#include "base/mem.h"
#include "support/test.h"

static backend *open_ref(int n_threads)
{
    err e = {0};
    backend *b = NULL;
    backend_options o = {.name = "ref", .n_threads = n_threads};
    CHECK_OK(backend_open(&b, &o, &e), &e);
    return b;
}

static const backend_limits limits = {.T = 4,
                                      .L = 2,
                                      .E = 64,
                                      .K = 128,
                                      .N = 64,
                                      .F = 128,
                                      .moe_F = 32,
                                      .shared_F = 32,
                                      .X = 4,
                                      .K_experts = 2,
                                      .V = 100,
                                      .M = 4,
                                      .H = 4,
                                      .G = 2,
                                      .D = 32,
                                      .gdn_Hk = 1,
                                      .gdn_Hv = 2,
                                      .gdn_dk = 16,
                                      .gdn_dv = 16};

TEST(open_and_reserve_survive_every_failing_allocation)
{
    int64_t n_live = mem_count().n_live;
    int n_failed = 0;
    for (int n = 1;; n++) {
        err e = {0};
        backend *b = NULL;
        backend_options o = {.name = "ref", .n_threads = 2};
        mem_fail_at(n);
        status s = backend_open(&b, &o, &e);
        if (s == ERR_OK) s = b->ops->reserve(b, &limits, &e);
        mem_fail_at(0);
        if (s != ERR_OK) {
            CHECK_STATUS(s, ERR_NOMEM);
            CHECK_STATUS(e.code, ERR_NOMEM);
            n_failed++;
        }
        if (b) b->ops->close(b);
        assert_int_equal(mem_count().n_live, n_live);
        if (s == ERR_OK) break;
        assert_true(n < 100);
    }
    assert_true(n_failed >= 4);
}

TEST(a_failed_reserve_leaves_the_scratch_that_was)
{
    err e = {0};
    backend *b = open_ref(1);
    CHECK_OK(b->ops->reserve(b, &limits, &e), &e);
    ref_backend before = *ref_of(b);
    backend_limits more = limits;
    more.V = 1000000;
    for (int n = 1; n <= 2; n++) {
        mem_fail_at(n);
        CHECK_STATUS(b->ops->reserve(b, &more, &e), ERR_NOMEM);
        mem_fail_at(0);
        assert_ptr_equal(ref_of(b)->own, before.own);
        assert_ptr_equal(ref_of(b)->shared, before.shared);
        assert_int_equal(ref_of(b)->own_bytes, before.own_bytes);
    }
    CHECK_OK(b->ops->reserve(b, &more, &e), &e);
    assert_true(ref_of(b)->own_bytes > before.own_bytes);
    b->ops->close(b);
}

TEST(memory_is_zeroed_copied_and_given_back)
{
    err e = {0};
    backend *b = open_ref(1);
    dev_buf a, c;
    char in[64], out[64], zero[64] = {0};
    memset(in, 7, sizeof in);
    CHECK_OK(b->ops->alloc(b, 64, &a, &e), &e);
    CHECK_OK(b->ops->alloc(b, 64, &c, &e), &e);
    assert_int_equal((uintptr_t)a.ptr % 64, 0);
    CHECK_OK(b->ops->download(b, out, a, 64), &e);
    assert_memory_equal(out, zero, 64);
    CHECK_OK(b->ops->upload(b, a, in, 64), &e);
    CHECK_OK(b->ops->copy(b, c, a, 64), &e);
    CHECK_OK(b->ops->fill(b, dev_buf_at(c, 32), 9, 32), &e);
    CHECK_OK(b->ops->sync(b), &e);
    CHECK_OK(b->ops->download(b, out, c, 64), &e);
    assert_memory_equal(out, in, 32);
    for (int i = 32; i < 64; i++) assert_int_equal(out[i], 9);
    b->ops->release(b, &a);
    assert_null(a.ptr);
    assert_int_equal(a.n_bytes, 0);
    b->ops->release(b, &a);
    b->ops->release(b, &c);
    CHECK_STATUS(b->ops->alloc(b, -1, &a, &e), ERR_INVALID);
    mem_fail_at(1);
    CHECK_STATUS(b->ops->alloc(b, 10, &a, &e), ERR_NOMEM);
    mem_fail_at(0);
    assert_null(a.ptr);
    b->ops->close(b);
}

TEST(a_weight_is_the_files_own_bytes)
{
    err e = {0};
    backend *b = open_ref(1);
    uint8_t codes[2 * 64 / 2] = {0};
    uint16_t scales[2] = {0}, biases[2] = {0};
    tensor t = {.type = DTYPE_AFFINE,
                .n_dims = 2,
                .shape = {2, 64},
                .data = codes,
                .n_bytes = sizeof codes,
                .scales = scales,
                .biases = biases,
                .scale_type = DTYPE_BF16,
                .bits = 4,
                .group = 64};
    dev_weight w;
    CHECK_OK(b->ops->weight_open(b, &t, WEIGHT_LINEAR, &w, &e), &e);
    assert_ptr_equal(w.view.data, codes);
    assert_int_equal(w.N, 2);
    assert_int_equal(w.K, 64);
    assert_int_equal(w.X, 1);
    assert_int_equal(w.n_bytes, sizeof codes + sizeof scales + sizeof biases);
    b->ops->weight_close(b, &w);
    assert_null(w.view.data);
    b->ops->close(b);
}

TEST(a_weight_of_another_kind_is_refused_and_the_output_left_alone)
{
    err e = {0};
    backend *b = open_ref(1);
    float x[8] = {0};
    tensor t = {.type = DTYPE_F32, .n_dims = 2, .shape = {2, 4}, .data = x, .n_bytes = 32};
    dev_weight w = {.N = 77};
    CHECK_STATUS(b->ops->weight_open(b, &t, WEIGHT_EXPERTS, &w, &e), ERR_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "[2, 4] F32"));
    t.type = DTYPE_I32;
    CHECK_STATUS(b->ops->weight_open(b, &t, WEIGHT_LINEAR, &w, &e), ERR_UNSUPPORTED);
    t = (tensor){.type = DTYPE_F32, .n_dims = 3, .shape = {2, 2, 2}, .data = x, .n_bytes = 32};
    CHECK_STATUS(b->ops->weight_open(b, &t, WEIGHT_TABLE, &w, &e), ERR_UNSUPPORTED);
    assert_int_equal(w.N, 77);
    b->ops->close(b);
}

TEST(an_op_beyond_what_was_reserved_says_so)
{
    err e = {0};
    backend *b = open_ref(1);
    float w_data[2 * 256] = {0}, y[2] = {5, 5}, x[256] = {0};
    tensor t = {.type = DTYPE_F32,
                .n_dims = 2,
                .shape = {2, 256},
                .data = w_data,
                .n_bytes = sizeof w_data};
    dev_weight w;
    CHECK_OK(b->ops->weight_open(b, &t, WEIGHT_LINEAR, &w, &e), &e);
    linear_args a = {
        .x = {x, sizeof x}, .T = 1, .n_parts = 1, .part = {{&w, {y, sizeof y}, LINEAR_ACT}}};
    CHECK_STATUS(b->ops->linear(b, &a), ERR_LIMIT);
    assert_string_equal(b->last.where, "linear");
    assert_true(y[0] == 5);
    backend_limits wide = {.K = 256};
    CHECK_OK(b->ops->reserve(b, &wide, &e), &e);
    CHECK_OK(b->ops->linear(b, &a), &b->last);
    assert_true(y[0] == 0);
    b->ops->close(b);
}

TEST(there_are_no_graphs)
{
    backend *b = open_ref(1);
    assert_false(b->ops->graph_replay(b, 1));
    CHECK_STATUS(b->ops->graph_begin(b, 1), ERR_OK);
    CHECK_STATUS(b->ops->graph_end(b), ERR_OK);
    assert_false(b->ops->graph_replay(b, 1));
    assert_false(b->quantises_drafts);
    assert_int_equal(b->act, DTYPE_F32);
    b->ops->close(b);
}
