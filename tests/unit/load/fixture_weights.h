/* fixture_weights: a fixture model opened by weights.c, and what its values must be. */
#ifndef RIPTIDE_TESTS_FIXTURE_WEIGHTS_H
#define RIPTIDE_TESTS_FIXTURE_WEIGHTS_H

#include "base/file.h"
#include "base/mem.h"
#include "fixture_checkpoint.h"
#include "load/weights_priv.h"

typedef struct {
    fixture f;
    fixture_spec spec;
    arena mem;
    hf_config c;
    weights *w;
} bench;

FIXTURE void begin(bench *b, fixture_spec spec, bool is_draft)
{
    *b = (bench){.spec = spec};
    fixture_init(&b->f);
    if (is_draft)
        fixture_draft(&b->f, &b->spec);
    else
        fixture_target(&b->f, &b->spec);
}

FIXTURE status open_it(bench *b, err *e)
{
    str text;
    arena_init(&b->mem, 0);
    status s = file_read(&b->mem, fixture_path(&b->f, "config.json"), 1 << 20, &text, e);
    if (s == ERR_OK) s = hf_config_parse(&b->c, &b->mem, text, "config.json", e);
    if (s == ERR_OK) s = weights_open(&b->w, b->f.dir, &b->c, e);
    if (s != ERR_OK) arena_fini(&b->mem);
    return s;
}

FIXTURE void must_open(bench *b)
{
    err e;
    CHECK_OK(open_it(b, &e), &e);
}

FIXTURE void close_it(bench *b)
{
    weights_close(b->w);
    b->w = NULL;
    arena_fini(&b->mem);
}

FIXTURE void end(bench *b)
{
    close_it(b);
    fixture_fini(&b->f);
}

FIXTURE void check_fails(bench *b, status want, const char *where, const char *words)
{
    err e = {0};
    int64_t live = mem_count().n_live;
    status s = open_it(b, &e);
    if (s != want || !strstr(e.msg, words) || !strstr(e.where, where))
        fail_msg("%s: %s: \"%s\", want %s: \"%s\"", status_name(s), e.where, e.msg, where, words);
    assert_null(b->w);
    assert_int_equal(mem_count().n_live, live);
}

/* What rows of a stored tensor must be read as: rounded, or encoded and decoded again. */
FIXTURE void expect_row(const fixture_spec *s, const char *canonical, bool is_linear, int64_t row,
                        int64_t k, double mean, float *out)
{
    float *v = fixture_values(canonical, row * k, k, mean);
    if (!is_linear || s->bits == 0) {
        for (int64_t i = 0; i < k; i++) out[i] = fixture_round(fixture_type(s), v[i]);
    } else {
        uint8_t codes[1024];
        uint16_t scales[16], biases[16];
        quant_affine_encode_row(v, k, s->bits, s->group, codes, scales, biases);
        quant_affine_decode_row(codes, scales, biases, DTYPE_BF16, s->bits, s->group, k, out);
    }
    free(v);
}

FIXTURE bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

FIXTURE bool is_linear_name(const char *name)
{
    return ends_with(name, "proj.weight") || ends_with(name, "embed_tokens.weight") ||
           ends_with(name, "lm_head.weight") || ends_with(name, "gate.weight") ||
           ends_with(name, "projection.weight") || strcmp(name, "fc.weight") == 0 ||
           strstr(name, "in_proj_");
}

FIXTURE double mean_of(const fixture_spec *s, const char *name, bool is_draft)
{
    if (strstr(name, "linear_attn.norm")) return 1;
    if (!ends_with(name, "norm.weight")) return 0;
    return s->has_norm_mean ? s->norm_mean : s->is_mlx || is_draft;
}

/* All values of one tensor against the function that made them. */
FIXTURE void check_values(const fixture_spec *s, const char *name, const tensor *t, bool is_draft)
{
    float got[1024], want[1024];
    bool is_linear = is_linear_name(name);
    int64_t k = t->shape[t->n_dims - 1], rows = 1, n_slices = t->n_dims == 3 ? t->shape[0] : 1;
    if (t->n_dims > 1) rows = t->shape[t->n_dims - 2];
    assert_int_equal(t->type == DTYPE_AFFINE, is_linear && s->bits > 0);
    for (int64_t x = 0; x < n_slices; x++) {
        tensor slice = t->n_dims == 3 ? tensor_slice(t, x) : *t;
        for (int64_t r = 0; r < rows; r++) {
            tensor_row_f32(&slice, r, got);
            expect_row(s, name, is_linear, x * rows + r, k, mean_of(s, name, is_draft), want);
            if (memcmp(got, want, (size_t)k * 4) != 0)
                fail_msg("%s [%lld, %lld]: %g, want %g", name, (long long)x, (long long)r,
                         (double)got[0], (double)want[0]);
        }
    }
}

FIXTURE void check_all(const bench *b, int n_want, bool is_draft)
{
    assert_int_equal(weights_count(b->w), n_want);
    int64_t n_bytes = 0;
    for (int i = 0; i < n_want; i++) {
        const tensor *t;
        const char *name = weights_name(b->w, i, &t);
        assert_ptr_equal(weights_find(b->w, name), t);
        check_values(&b->spec, name, t, is_draft);
        n_bytes += weights_tensor_bytes(t);
    }
    assert_true(weights_bytes(b->w) == n_bytes);
    int64_t n_stored = 0;
    for (int i = 0; i < b->f.n; i++) n_stored += b->f.list[i].n_bytes;
    assert_true(n_bytes == n_stored);
}

/* Model-spec 4.1: 14 a delta layer, 11 an attention layer, 3 outside; experts take 6 instead of the
 * 3 of the dense feed-forward, plus the router. */
enum { N_DENSE = 3 * 14 + 11 + 3, N_MOE = N_DENSE + 4 * 5 };

FIXTURE void check_target(fixture_spec spec)
{
    bench b;
    begin(&b, spec, false);
    fixture_write(&b.f);
    must_open(&b);
    check_all(&b, (spec.is_moe ? N_MOE : N_DENSE) - spec.is_tied, false);
    assert_int_equal(b.w->layout, spec.is_mlx ? WEIGHTS_LAYOUT_MLX : WEIGHTS_LAYOUT_HF);
    end(&b);
}

#endif
