/* tags: threads */
#include "base/mem.h"
#include "fixture_checkpoint.h"
#include "fixture_gguf_model.h"
#include "load/convert.h"
#include "load/gguf_priv.h"

static load_model must_open(const char *path)
{
    load_model m;
    err e = {0};
    CHECK_OK(load_model_open(&m, path, &e), &e);
    return m;
}

static void must_convert(const load_model *m, const char *path, dtype type)
{
    err e = {0};
    CHECK_OK(load_convert(m, path, type, 2, &e), &e);
}

/* The values of a tensor, all rows, into a buffer from malloc. */
static float *values_of(const tensor *t, int64_t *n)
{
    int64_t k = t->shape[t->n_dims - 1], n_rows = 1;
    for (int d = 0; d < t->n_dims - 1; d++) n_rows *= t->shape[d];
    float *out = malloc((size_t)(n_rows * k) * sizeof *out);
    for (int64_t r = 0; r < n_rows; r++) {
        tensor s = *t;
        int64_t row = r;
        while (s.n_dims > 2) {
            int64_t inner = 1;
            for (int d = 1; d < s.n_dims - 1; d++) inner *= s.shape[d];
            s = tensor_slice(&s, row / inner);
            row %= inner;
        }
        tensor_row_f32(&s, row, out + r * k);
    }
    *n = n_rows * k;
    return out;
}

/* Every tensor of b has a's values within `bound` of its largest. */
static void check_same_values(const load_model *a, const load_model *b, double bound)
{
    assert_int_equal(weights_count(a->weights), weights_count(b->weights));
    for (int i = 0; i < weights_count(a->weights); i++) {
        const tensor *t;
        int64_t n, n_b;
        const char *name = weights_name(a->weights, i, &t);
        assert_non_null(weights_find(b->weights, name));
        float *x = values_of(t, &n), *y = values_of(weights_find(b->weights, name), &n_b);
        double most = 0;
        assert_int_equal(n, n_b);
        bool is_decay = strstr(name, ".A_log") &&
                        a->target.has_neg_decay != b->target.has_neg_decay;
        for (int64_t k = 0; k < n; k++)
            most = fabs((double)x[k]) > most ? fabs((double)x[k]) : most;
        for (int64_t k = 0; k < n; k++) {
            float want = is_decay ? (float)-exp((double)x[k]) : x[k];
            if (!(fabs((double)want - (double)y[k]) <= bound * most))
                fail_msg("%s element %lld is %g, want %g", name, (long long)k, (double)y[k],
                         (double)want);
        }
        free(x);
        free(y);
    }
}

TEST(a_bundled_model_has_the_same_values_keys_and_texts_after_it)
{
    fixture f;
    fixture_init(&f);
    load_model m = must_open("models/mini-moe");
    must_convert(&m, fixture_path(&f, "moe.gguf"), DTYPE_F32);
    load_model g = must_open(fixture_path(&f, "moe.gguf"));
    arch_target want = m.target, got = g.target;
    assert_true(got.has_neg_decay && !want.has_neg_decay);
    got.has_neg_decay = false;
    assert_memory_equal(&got, &want, sizeof want);
    assert_true(fabs(g.sampling.temperature - m.sampling.temperature) < 1e-7);
    assert_true(g.sampling.top_k == m.sampling.top_k &&
                g.sampling.has_top_p == m.sampling.has_top_p);
    assert_true(str_equal(g.chat_template, m.chat_template));
    assert_true(str_equal(g.eos_token, m.eos_token));
    assert_int_equal(g.tokenizer.n_pieces, m.target.V);
    assert_true(str_is(g.tokenizer.pretokenizer, "qwen35"));
    check_same_values(&m, &g, 0);
    load_model_close(&m);
    load_model_close(&g);
    fixture_fini(&f);
}

TEST(a_draft_has_the_same_values_and_keys_after_it)
{
    fixture f;
    fixture_init(&f);
    load_model m = must_open("models/mini-dense-dflash2");
    must_convert(&m, fixture_path(&f, "d.gguf"), DTYPE_F32);
    load_model g = must_open(fixture_path(&f, "d.gguf"));
    arch_draft want = m.draft;
    want.n_target_layers = 0; /* the format does not say */
    assert_true(g.is_draft);
    assert_memory_equal(&g.draft, &want, sizeof want);
    check_same_values(&m, &g, 0);
    load_model_close(&m);
    load_model_close(&g);
    fixture_fini(&f);
}

/* A file of blocks, whose heads are views, to f32: where their order is undone a second time. */
TEST(a_gguf_model_can_be_converted_too)
{
    fixture f;
    fixture_init(&f);
    for (int is_moe = 0; is_moe < 2; is_moe++) {
        made_gguf made = model_target(is_moe, true);
        made_write(&made, fixture_path(&f, "q8.gguf"));
        load_model m = must_open(fixture_path(&f, "q8.gguf"));
        must_convert(&m, fixture_path(&f, "f32.gguf"), DTYPE_F32);
        load_model g = must_open(fixture_path(&f, "f32.gguf"));
        assert_memory_equal(&g.target, &m.target, sizeof m.target);
        check_same_values(&m, &g, 0);
        /* The file itself is in the file's order again. */
        gguf *a = NULL, *b = NULL;
        err e;
        float x[256], y[256];
        CHECK_OK(gguf_open(&a, fixture_path(&f, "q8.gguf"), &e), &e);
        CHECK_OK(gguf_open(&b, fixture_path(&f, "f32.gguf"), &e), &e);
        static const char *const names[] = {"blk.0.attn_qkv.weight", "blk.1.attn_gate.weight",
                                            "blk.2.ssm_out.weight",  "blk.0.ssm_alpha.weight",
                                            "blk.0.ssm_a",           "blk.0.ssm_conv1d.weight"};
        for (int i = 0; i < 6; i++) {
            const tensor *t = &gguf_find_tensor(a, names[i])->t;
            const tensor *u = &gguf_find_tensor(b, names[i])->t;
            for (int64_t r = 0; r < (t->n_dims == 2 ? t->shape[0] : 1); r++) {
                tensor_row_f32(t, r, x);
                tensor_row_f32(u, r, y);
                assert_memory_equal(x, y, (size_t)t->shape[t->n_dims - 1] * 4);
            }
        }
        gguf_close(a);
        gguf_close(b);
        load_model_close(&g);
        load_model_close(&m);
    }
    fixture_fini(&f);
}

/* Width 32 fills no block of 256. */
TEST(rows_that_fill_no_block_fall_back)
{
    fixture f;
    fixture_init(&f);
    made_gguf made = model_target(false, true);
    made_write(&made, fixture_path(&f, "a.gguf"));
    load_model m = must_open(fixture_path(&f, "a.gguf"));
    must_convert(&m, fixture_path(&f, "b.gguf"), DTYPE_Q4_K);
    load_model g = must_open(fixture_path(&f, "b.gguf"));
    assert_int_equal(weights_find(g.weights, "embed_tokens.weight")->type, DTYPE_Q8_0);
    assert_int_equal(weights_find(g.weights, "layers.0.linear_attn.in_proj_a.weight")->type,
                     DTYPE_F32);
    assert_int_equal(weights_find(g.weights, "norm.weight")->type, DTYPE_F32);
    check_same_values(&m, &g, 0.005);
    load_model_close(&g);
    load_model_close(&m);
    fixture_fini(&f);
}

TEST(a_type_that_cannot_be_written_is_refused)
{
    load_model m = must_open("models/mini-dense-dflash2");
    err e = {0};
    CHECK_STATUS(load_convert(&m, "/nowhere/x.gguf", DTYPE_IQ2_S, 2, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "IQ2_S cannot be written"));
    CHECK_STATUS(load_convert(&m, "/nowhere/x.gguf", DTYPE_F16, 2, &e), ERR_IO);
    load_model_close(&m);
}

TEST(every_failed_allocation_is_out_of_memory_and_leaks_nothing)
{
    fixture f;
    fixture_init(&f);
    made_gguf made = model_target(true, true);
    made_write(&made, fixture_path(&f, "a.gguf"));
    load_model m = must_open(fixture_path(&f, "a.gguf"));
    int64_t live = mem_count().n_live;
    for (int64_t at = 1;; at++) {
        err e = {0};
        mem_fail_at(at);
        status s = load_convert(&m, fixture_path(&f, "b.gguf"), DTYPE_Q8_0, 2, &e);
        mem_fail_at(0);
        if (s != ERR_OK) CHECK_STATUS(s, ERR_NOMEM);
        assert_int_equal(mem_count().n_live, live);
        if (s == ERR_OK) break;
    }
    load_model_close(&m);
    fixture_fini(&f);
}
