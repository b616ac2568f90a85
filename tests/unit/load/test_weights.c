/* weights.c and weights_build.c: every form in which a checkpoint stores a tensor. */
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

static void begin(bench *b, fixture_spec spec, bool is_draft)
{
    *b = (bench){.spec = spec};
    fixture_init(&b->f);
    if (is_draft)
        fixture_draft(&b->f, &b->spec);
    else
        fixture_target(&b->f, &b->spec);
}

static status open_it(bench *b, err *e)
{
    str text;
    arena_init(&b->mem, 0);
    status s = file_read(&b->mem, fixture_path(&b->f, "config.json"), 1 << 20, &text, e);
    if (s == ERR_OK) s = hf_config_parse(&b->c, &b->mem, text, "config.json", e);
    if (s == ERR_OK) s = weights_open(&b->w, b->f.dir, &b->c, e);
    if (s != ERR_OK) arena_fini(&b->mem);
    return s;
}

static void must_open(bench *b)
{
    err e;
    CHECK_OK(open_it(b, &e), &e);
}

static void close_it(bench *b)
{
    weights_close(b->w);
    b->w = NULL;
    arena_fini(&b->mem);
}

static void end(bench *b)
{
    close_it(b);
    fixture_fini(&b->f);
}

static void check_fails(bench *b, status want, const char *where, const char *words)
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
static void expect_row(const fixture_spec *s, const char *canonical, bool is_linear, int64_t row,
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

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static bool is_linear_name(const char *name)
{
    return ends_with(name, "proj.weight") || ends_with(name, "embed_tokens.weight") ||
           ends_with(name, "lm_head.weight") || ends_with(name, "gate.weight") ||
           ends_with(name, "projection.weight") || strcmp(name, "fc.weight") == 0 ||
           strstr(name, "in_proj_");
}

static double mean_of(const fixture_spec *s, const char *name, bool is_draft)
{
    if (strstr(name, "linear_attn.norm")) return 1;
    if (!ends_with(name, "norm.weight")) return 0;
    return s->has_norm_mean ? s->norm_mean : s->is_mlx || is_draft;
}

/* All values of one tensor against the function that made them. */
static void check_values(const fixture_spec *s, const char *name, const tensor *t, bool is_draft)
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

static void check_all(const bench *b, int n_want, bool is_draft)
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

static void check_target(fixture_spec spec)
{
    bench b;
    begin(&b, spec, false);
    fixture_write(&b.f);
    must_open(&b);
    check_all(&b, (spec.is_moe ? N_MOE : N_DENSE) - spec.is_tied, false);
    assert_int_equal(b.w->layout, spec.is_mlx ? WEIGHTS_LAYOUT_MLX : WEIGHTS_LAYOUT_HF);
    end(&b);
}

TEST(mlx_affine_of_all_widths_groups_and_scale_types)
{
    static const int bits[] = {2, 3, 4, 5, 6, 8}, groups[] = {32, 64, 128};
    static const dtype scales[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 3; j++)
            check_target((fixture_spec){.is_mlx = true, .bits = bits[i], .group = groups[j],
                                        .scale_type = scales[(i + j) % 3]});
}

TEST(mlx_experts_are_switch_mlp)
{
    check_target((fixture_spec){.is_mlx = true, .is_moe = true, .bits = 4, .group = 64});
    check_target((fixture_spec){.is_mlx = true, .is_moe = true});
}

TEST(hugging_face_files_of_all_float_types)
{
    static const dtype types[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32};
    for (int i = 0; i < 3; i++) {
        check_target((fixture_spec){.type = types[i]});
        check_target((fixture_spec){.type = types[i], .is_flat = true, .is_tied = true});
        check_target((fixture_spec){.type = types[i], .is_moe = true, .experts = FIXTURE_FUSED});
    }
}

TEST(experts_of_every_form_give_the_same_tensors)
{
    static const fixture_experts forms[] = {FIXTURE_SWITCH, FIXTURE_FUSED, FIXTURE_FUSED_WEIGHT,
                                            FIXTURE_EACH};
    for (int i = 0; i < 4; i++) {
        check_target((fixture_spec){.is_moe = true, .experts = forms[i]});
        check_target((fixture_spec){.is_mlx = true, .is_moe = true, .experts = forms[i], .bits = 5,
                                    .group = 32, .scale_type = DTYPE_F16});
    }
}

TEST(any_known_prefix_will_do)
{
    static const char *const prefixes[] = {"", "model.", "language_model.model.",
                                           "model.language_model.", "language_model."};
    for (int i = 0; i < 5; i++) check_target((fixture_spec){.prefix = prefixes[i]});
}

TEST(sharded_files_are_one_model)
{
    for (int n = 1; n < 5; n++) {
        bench b;
        begin(&b, (fixture_spec){.is_mlx = true, .bits = 4, .group = 64}, false);
        fixture_write_shards(&b.f, n);
        must_open(&b);
        check_all(&b, N_DENSE, false);
        assert_non_null(strstr(weights_file(b.w, "embed_tokens.weight"), "model-00001-of"));
        end(&b);
    }
}

TEST(drafts_of_both_versions)
{
    static const dtype types[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32};
    for (int v2 = 0; v2 < 2; v2++)
        for (int i = 0; i < 3; i++) {
            bench b;
            begin(&b, (fixture_spec){.is_v2 = v2, .prefix = i ? "model." : "", .type = types[i]},
                  true);
            fixture_write(&b.f);
            must_open(&b);
            check_all(&b, v2 ? 15 * FX_D_LAYERS + 6 : 11 * FX_D_LAYERS + 3, true);
            assert_int_equal(b.c.draft.is_v2, v2);
            end(&b);
        }
}

TEST(overrides_set_bits_and_a_module_without_scales_is_plain)
{
    bench b;
    begin(&b, (fixture_spec){.is_mlx = true, .bits = 4, .group = 64,
                             .extra = ",\"language_model.model.layers.0.mlp.down_proj\":"
                                      "{\"group_size\":32,\"bits\":8},"
                                      "\"language_model.model.layers.1.mlp.up_proj\":false"},
          false);
    fixture_spec other = {.is_mlx = true, .bits = 8, .group = 32}, plain = {.is_mlx = true};
    fixture_maker m = {&b.f, &other, "language_model.model.", 0};
    fixture_remove(&b.f, "language_model.model.layers.0.mlp.down_proj.weight");
    fixture_remove(&b.f, "language_model.model.layers.0.mlp.down_proj.scales");
    fixture_remove(&b.f, "language_model.model.layers.0.mlp.down_proj.biases");
    fixture_linear(&m, "mlp.down_proj", FX_E, FX_F);
    m.s = &plain;
    m.layer = 1;
    fixture_remove(&b.f, "language_model.model.layers.1.mlp.up_proj.weight");
    fixture_remove(&b.f, "language_model.model.layers.1.mlp.up_proj.scales");
    fixture_remove(&b.f, "language_model.model.layers.1.mlp.up_proj.biases");
    fixture_linear(&m, "mlp.up_proj", FX_F, FX_E);
    fixture_write(&b.f);
    must_open(&b);
    const tensor *t = weights_find(b.w, "layers.0.mlp.down_proj.weight");
    assert_true(t->bits == 8 && t->group == 32);
    check_values(&other, "layers.0.mlp.down_proj.weight", t, false);
    t = weights_find(b.w, "layers.1.mlp.up_proj.weight");
    assert_int_equal(t->type, DTYPE_BF16);
    check_values(&plain, "layers.1.mlp.up_proj.weight", t, false);
    t = weights_find(b.w, "layers.0.mlp.up_proj.weight");
    assert_true(t->bits == 4 && t->group == 64);
    end(&b);
}

TEST(a_disputed_tie_is_settled_by_the_files)
{
    for (int is_tied = 0; is_tied < 2; is_tied++) {
        bench b;
        arena mem;
        str text;
        err e;
        char changed[8000];
        begin(&b, (fixture_spec){.is_tied = is_tied}, false);
        fixture_write(&b.f);
        arena_init(&mem, 0);
        CHECK_OK(file_read(&mem, fixture_path(&b.f, "config.json"), 8000, &text, &e), &e);
        char *at = strstr((char *)(uintptr_t)text.ptr, "\"text_config\":{");
        assert_non_null(at);
        at += strlen("\"text_config\":{");
        snprintf(changed, sizeof changed, "%.*s\"tie_word_embeddings\":%s,%s", (int)(at - text.ptr),
                 text.ptr, is_tied ? "false" : "true", at);
        fixture_text(&b.f, "config.json", changed);
        arena_fini(&mem);
        must_open(&b);
        assert_true(b.c.is_tie_disputed);
        assert_int_equal(b.c.target.is_tied, is_tied);
        check_all(&b, N_DENSE - is_tied, false);
        end(&b);
    }
}

TEST(extra_tensors_are_ignored)
{
    bench b;
    int64_t five[5] = {2, 3, 1, 2, 2}, one = 1;
    begin(&b, (fixture_spec){0}, false);
    int n = b.f.n;
    fixture_add_plain(&b.f, "model.visual.patch_embed.proj.weight", "v", DTYPE_BF16, 5, five, 0);
    fixture_add_plain(&b.f, "mtp.fc.weight", "m", DTYPE_BF16, 1, &one, 0);
    fixture_add_plain(&b.f, "model.language_model.layers.0.rotary.inv_freq", "r", DTYPE_F32, 1, &one,
                      0);
    fixture_write(&b.f);
    must_open(&b);
    assert_int_equal(weights_count(b.w), N_DENSE);
    assert_null(weights_find(b.w, "mtp.fc.weight"));
    assert_true(b.f.n == n + 3);
    end(&b);
}

TEST(get_checks_the_shape_and_names_file_and_tensor)
{
    bench b;
    tensor t = {0};
    err e;
    begin(&b, (fixture_spec){0}, false);
    fixture_write(&b.f);
    must_open(&b);
    int64_t shape[3] = {FX_V, FX_E, 1};
    CHECK_OK(weights_get(b.w, "lm_head.weight", 2, shape, &t, &e), &e);
    assert_true(t.shape[1] == FX_E && t.type == DTYPE_BF16);
    shape[1] = 64;
    tensor before = t;
    CHECK_STATUS(weights_get(b.w, "lm_head.weight", 2, shape, &t, &e), ERR_FORMAT);
    assert_string_equal(e.msg, "tensor 'lm_head.weight' is [96, 128] BF16, want [96, 64] BF16");
    assert_non_null(strstr(e.where, "model.safetensors"));
    CHECK_STATUS(weights_get(b.w, "lm_head.weight", 3, shape, &t, &e), ERR_FORMAT);
    CHECK_STATUS(weights_get(b.w, "nothing", 1, shape, &t, &e), ERR_FORMAT);
    assert_string_equal(e.msg, "tensor 'nothing' is missing");
    assert_memory_equal(&t, &before, sizeof t);
    end(&b);
}

TEST(forgotten_tensors_can_be_read_again)
{
    bench b;
    begin(&b, (fixture_spec){.is_moe = true, .experts = FIXTURE_FUSED}, false);
    fixture_write(&b.f);
    must_open(&b);
    for (int i = 0; i < weights_count(b.w); i++) {
        const tensor *t;
        weights_name(b.w, i, &t);
        weights_forget(b.w, t);
    }
    check_all(&b, N_MOE, false);
    end(&b);
}

TEST(each_missing_tensor_is_named)
{
    bench b;
    begin(&b, (fixture_spec){.is_mlx = true, .bits = 4, .group = 64}, false);
    for (int i = 0; i < b.f.n; i++) {
        fixture_tensor kept = b.f.list[i];
        char words[200];
        const char *canonical = strstr(kept.name, "lm_head");
        if (!canonical) canonical = kept.name + strlen("language_model.model.");
        if (ends_with(kept.name, ".scales"))
            snprintf(words, sizeof words, "unless .scales stand beside it");
        else if (ends_with(kept.name, ".biases"))
            snprintf(words, sizeof words, "has .scales, but no .biases");
        else if (kept.n_dims == 2)
            snprintf(words, sizeof words, "has .scales, but no .weight");
        else
            snprintf(words, sizeof words, "tensor '%.150s' is missing", canonical);
        b.f.list[i] = b.f.list[b.f.n - 1];
        b.f.n--;
        fixture_write(&b.f);
        check_fails(&b, ERR_FORMAT, "model.safetensors", words);
        b.f.n++;
        b.f.list[i] = kept;
    }
    fixture_fini(&b.f);
}

/* Change the shape or type of one tensor, keeping its size right for the file. */
static void check_changed(fixture_spec spec, bool is_draft, const char *name, const char *type,
                          int n_dims, int64_t d0, int64_t d1, int64_t d2, status want,
                          const char *words)
{
    bench b;
    begin(&b, spec, is_draft);
    fixture_tensor *t = fixture_find(&b.f, name);
    int64_t shape[3] = {d0, d1, d2}, n = dtype_bits(dtype_find(type, strlen(type))) / 8;
    for (int i = 0; i < n_dims; i++) n *= shape[i];
    snprintf(t->type, sizeof t->type, "%s", type);
    t->n_dims = n_dims;
    memcpy(t->shape, shape, sizeof shape);
    t->bytes = realloc(t->bytes, (size_t)n + 1);
    if (n > t->n_bytes) memset((char *)t->bytes + t->n_bytes, 0, (size_t)(n - t->n_bytes));
    t->n_bytes = n;
    fixture_write(&b.f);
    check_fails(&b, want, "model.safetensors", words);
    fixture_fini(&b.f);
}

TEST(a_wrong_shape_or_type_is_refused_with_both)
{
    fixture_spec hf = {0}, mlx = {.is_mlx = true, .bits = 4, .group = 64},
                 moe = {.is_moe = true, .experts = FIXTURE_FUSED}, v2 = {.is_v2 = true};
    check_changed(hf, false, "lm_head.weight", "BF16", 2, FX_E, FX_V, 0, ERR_FORMAT,
                  "tensor 'lm_head.weight' is [128, 96] BF16, want [96, 128] BF16");
    check_changed(hf, false, "lm_head.weight", "BF16", 1, FX_E * FX_V, 0, 0, ERR_FORMAT, "is [12288]");
    check_changed(hf, false, "lm_head.weight", "F8_E4M3", 2, FX_V, FX_E, 0, ERR_FORMAT,
                  "has dtype F8_E4M3: a weight is F32, F16 or BF16");
    check_changed(hf, false, "lm_head.weight", "I32", 2, FX_V, FX_E, 0, ERR_FORMAT, "dtype I32");
    check_changed(hf, false, "model.language_model.norm.weight", "BF16", 2, 1, FX_E, 0, ERR_FORMAT,
                  "want [128] BF16");
    check_changed(hf, false, "model.language_model.layers.0.linear_attn.conv1d.weight", "BF16", 2,
                  FX_C, FX_CONV, 0, ERR_FORMAT, "want [256, 1, 4] BF16");
    check_changed(hf, false, "model.language_model.layers.1.linear_attn.conv1d.weight", "BF16", 3,
                  FX_C, FX_CONV, 1, ERR_FORMAT, "is laid out otherwise");
    check_changed(hf, false, "model.language_model.layers.0.linear_attn.A_log", "BF16", 1, FX_HV + 1,
                  0, 0, ERR_FORMAT, "want [4] BF16");
    check_changed(moe, false, "model.language_model.layers.0.mlp.experts.gate_up_proj", "BF16", 3, FX_X,
                  FX_E, 2 * FX_MOE_F + 1, ERR_FORMAT, "want [4, 256, 128] BF16");
    check_changed(v2, true, "candidate_selector.successor_codebook", "BF16", 2, FX_V, FX_RANK + 1, 0,
                  ERR_FORMAT, "want [96, 32] BF16");
    check_changed(v2, true, "layers.1.mlp_conv.base_kernel", "BF16", 3, 2, 3, FX_E, ERR_FORMAT,
                  "want [2, 2, 128] BF16");

    check_changed(mlx, false, "language_model.lm_head.weight", "U32", 2, FX_V, 8, 0, ERR_FORMAT,
                  "is [96, 8] U32, want [96, 16] U32");
    check_changed(mlx, false, "language_model.lm_head.weight", "I32", 2, FX_V, 16, 0, ERR_FORMAT,
                  "is [96, 16] I32, want [96, 16] U32");
    check_changed(mlx, false, "language_model.lm_head.scales", "BF16", 2, FX_V, 4, 0, ERR_FORMAT,
                  "'language_model.lm_head.scales' is [96, 4] BF16, want [96, 2] BF16");
    check_changed(mlx, false, "language_model.lm_head.scales", "U8", 2, FX_V, 2, 0, ERR_FORMAT,
                  "is [96, 2] U8, want [96, 2] BF16");
    check_changed(mlx, false, "language_model.lm_head.biases", "F32", 2, FX_V, 2, 0, ERR_FORMAT,
                  "'language_model.lm_head.biases' is [96, 2] F32, want [96, 2] BF16");
}

static void check_config(const char *extra, int bits, int group, status want, const char *words)
{
    bench b;
    fixture_spec files = {.is_mlx = true, .bits = 4, .group = 32};
    begin(&b, files, false);
    fixture_write(&b.f);
    fixture_spec told = {.is_mlx = true, .bits = bits, .group = group, .extra = extra};
    fixture_target_config(&b.f, &told);
    check_fails(&b, want, "model.safetensors", words);
    fixture_fini(&b.f);
}

TEST(a_table_that_does_not_fit_the_files_is_refused)
{
    check_config(NULL, 0, 0, ERR_FORMAT, "config.json has no quantization");
    check_config(NULL, 8, 32, ERR_FORMAT, "is [96, 16] U32, want [96, 32] U32");
    check_config(NULL, 4, 64, ERR_FORMAT, "is [96, 4] BF16, want [96, 2] BF16");
    check_config(",\"lm_head\":false", 4, 32, ERR_FORMAT,
                 "module 'lm_head' has .scales, but its override is false");
    check_config(",\"language_model.lm_head\":{\"mode\":\"nvfp4\",\"group_size\":16,\"bits\":4}", 4, 32,
                 ERR_UNSUPPORTED, "module 'lm_head' has .scales, but mode 'nvfp4' is not known");
}

TEST(groups_that_do_not_divide_the_columns_are_refused)
{
    bench b;
    begin(&b, (fixture_spec){.bits = 4, .group = 64}, true); /* a draft's down_proj has 192 */
    fixture_write(&b.f);
    arena mem;
    str text;
    err e;
    char changed[4000];
    arena_init(&mem, 0);
    CHECK_OK(file_read(&mem, fixture_path(&b.f, "config.json"), 4000, &text, &e), &e);
    snprintf(changed, sizeof changed, "{\"quantization\":{\"bits\":4,\"group_size\":%d},%s", 128,
             text.ptr + 1);
    fixture_text(&b.f, "config.json", changed);
    check_fails(&b, ERR_FORMAT, "model.safetensors", "want ");
    snprintf(changed, sizeof changed,
             "{\"quantization\":{\"bits\":4,\"group_size\":64,\"layers.0.mlp.down_proj\":"
             "{\"group_size\":128}},%s",
             text.ptr + 1);
    fixture_text(&b.f, "config.json", changed);
    check_fails(&b, ERR_FORMAT, "model.safetensors",
                "module 'layers.0.mlp.down_proj' has .scales, but groups of 128 do not divide its "
                "192 columns");
    snprintf(changed, sizeof changed, "{\"quantization\":{\"bits\":4,\"group_size\":64},%s",
             text.ptr + 1);
    fixture_text(&b.f, "config.json", changed);
    arena_fini(&mem);
    must_open(&b);
    check_all(&b, 11 * FX_D_LAYERS + 3, true);
    end(&b);
}

TEST(two_forms_of_the_same_experts_are_refused)
{
    bench b;
    begin(&b, (fixture_spec){.is_moe = true, .experts = FIXTURE_FUSED}, false);
    fixture_spec other = {.is_moe = true, .experts = FIXTURE_SWITCH};
    fixture_maker m = {&b.f, &other, "model.language_model.", 2};
    fixture_experts_of(&m);
    fixture_write(&b.f);
    check_fails(&b, ERR_FORMAT, "model.safetensors", "hold the same experts");
    fixture_fini(&b.f);
}

TEST(single_experts_must_be_complete_and_alike)
{
    bench b;
    begin(&b, (fixture_spec){.is_moe = true, .experts = FIXTURE_EACH}, false);
    fixture_tensor *t = fixture_find(&b.f, "model.language_model.layers.0.mlp.experts.3.up_proj.weight");
    snprintf(t->type, sizeof t->type, "F16");
    fixture_write(&b.f);
    check_fails(&b, ERR_FORMAT, "model.safetensors", "has another type than expert 0");
    fixture_remove(&b.f, "model.language_model.layers.0.mlp.experts.3.up_proj.weight");
    fixture_write(&b.f);
    check_fails(&b, ERR_FORMAT, "model.safetensors", "'layers.0.mlp.experts.3.up_proj' is missing");
    fixture_fini(&b.f);
}

TEST(every_failed_allocation_is_out_of_memory_and_leaks_nothing)
{
    bench b;
    begin(&b, (fixture_spec){.is_moe = true, .experts = FIXTURE_EACH}, false);
    fixture_write_shards(&b.f, 2);
    int64_t live = mem_count().n_live;
    for (int64_t at = 1;; at++) {
        err e;
        mem_fail_at(at);
        status s = open_it(&b, &e);
        mem_fail_at(0);
        if (s == ERR_OK) close_it(&b);
        assert_int_equal(mem_count().n_live, live);
        if (s == ERR_OK) break;
        CHECK_STATUS(s, ERR_NOMEM);
    }
    fixture_fini(&b.f);
}
