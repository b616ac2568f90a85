/* Modules of small floats, from random bytes, against readings of the formats' own sentences. */
#include "fixture_weights.h"

/* E2M1 of OCP MX: sign, two exponent bits, one of fraction. */
static double read_e2m1(int code)
{
    int exponent = code >> 1 & 3, fraction = code & 1;
    double v = exponent ? ldexp(1 + 0.5 * fraction, exponent - 1) : 0.5 * fraction;
    return code & 8 ? -v : v;
}

/* E4M3 of OCP FP8. */
static double read_e4m3(int code)
{
    int exponent = code >> 3 & 15, fraction = code & 7;
    double v = exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);
    return code & 128 ? -v : v;
}

typedef struct {
    const char *name, *config; /* an override of lm_head */
    int bits, group;
    dtype type;
} mode;

static const mode modes[] = {
    {"mxfp4", ",\"language_model.lm_head\":{\"group_size\":32,\"bits\":4,\"mode\":\"mxfp4\"}", 4,
     32, DTYPE_MXFP4},
    {"nvfp4", ",\"language_model.lm_head\":{\"group_size\":16,\"bits\":4,\"mode\":\"nvfp4\"}", 4,
     16, DTYPE_NVFP4},
    {"mxfp8", ",\"language_model.lm_head\":{\"group_size\":32,\"bits\":8,\"mode\":\"mxfp8\"}", 8,
     32, DTYPE_BF16},
};

static void replace(fixture *f, const char *name, const char *type, int64_t n, int64_t k,
                    void *bytes, int64_t n_bytes)
{
    fixture_remove(f, name);
    fixture_add(f, name, type, 2, (int64_t[]){n, k}, bytes, n_bytes);
}

/* An MLX fixture whose lm_head is in mode m; *codes and *scales are borrowed from it. */
static void begin_mode(bench *b, const mode *m, uint8_t **codes, uint8_t **scales, bool has_biases)
{
    uint64_t seed = test_seed();
    int64_t n_codes = FX_V * FX_E * m->bits / 8, n_scales = FX_V * FX_E / m->group;
    begin(b, (fixture_spec){.is_mlx = true, .bits = 4, .group = 32, .extra = m->config}, false);
    *codes = malloc((size_t)n_codes);
    *scales = malloc((size_t)n_scales);
    for (int64_t i = 0; i < n_codes; i++) {
        uint8_t c = (uint8_t)test_random(&seed);
        (*codes)[i] = m->bits == 8 && (c & 127) == 127 ? 0 : c; /* that one is no number */
    }
    for (int64_t i = 0; i < n_scales; i++)
        (*scales)[i] = (uint8_t)(m->group == 16 ? test_random(&seed) % 127
                                                : 110 + test_random(&seed) % 30);
    replace(&b->f, "language_model.lm_head.weight", "U32", FX_V, FX_E * m->bits / 32, *codes,
            n_codes);
    replace(&b->f, "language_model.lm_head.scales", "U8", FX_V, FX_E / m->group, *scales, n_scales);
    if (!has_biases) fixture_remove(&b->f, "language_model.lm_head.biases");
}

TEST(a_module_of_each_mode_has_the_values_of_its_format)
{
    for (int i = 0; i < 3; i++) {
        const mode *m = &modes[i];
        bench b;
        uint8_t *codes, *scales;
        float row[FX_E];
        begin_mode(&b, m, &codes, &scales, false);
        fixture_write(&b.f);
        must_open(&b);
        const tensor *t = weights_find(b.w, "lm_head.weight");
        assert_int_equal(t->type, m->type);
        for (int r = 0; r < FX_V; r++) {
            tensor_row_f32(t, r, row);
            for (int k = 0; k < FX_E; k++) {
                int at = r * FX_E + k, scale = scales[at / m->group];
                int half = codes[at / 2] >> (at % 2 * 4) & 15;
                double code = m->bits == 8 ? read_e4m3(codes[at]) : read_e2m1(half);
                double want = code * (m->group == 16 ? read_e4m3(scale) : ldexp(1, scale - 127));
                if ((double)row[k] != want)
                    fail_msg("%s [%d, %d]: %g, want %g", m->name, r, k, (double)row[k], want);
            }
        }
        end(&b);
    }
}

TEST(what_does_not_fit_a_mode_is_refused)
{
    for (int i = 0; i < 3; i++) {
        bench b;
        uint8_t *codes, *scales;
        begin_mode(&b, &modes[i], &codes, &scales, false);
        scales[5] = 0xff;
        fixture_write(&b.f);
        check_fails(&b, ERR_FORMAT, "model.safetensors", "negative or no number");
        fixture_fini(&b.f);
        begin_mode(&b, &modes[i], &codes, &scales, true);
        fixture_write(&b.f);
        check_fails(&b, ERR_FORMAT, "model.safetensors", "its mode has no .biases");
        fixture_fini(&b.f);
        begin_mode(&b, &modes[i], &codes, &scales, false);
        fixture_find(&b.f, "language_model.lm_head.weight")->shape[0] = FX_V / 2;
        fixture_find(&b.f, "language_model.lm_head.weight")->n_bytes /= 2;
        fixture_write(&b.f);
        check_fails(&b, ERR_FORMAT, "model.safetensors", "want [96, ");
        fixture_fini(&b.f);
    }
}

/* A Hugging Face fixture whose lm_head has E4M3 codes and a scale for 64 rows and 96 columns. */
static void begin_fp8(bench *b, const char *config, uint8_t **codes, float **scales)
{
    uint64_t seed = test_seed();
    char text[6200];
    str has;
    err e = {0};
    begin(b, (fixture_spec){0}, false);
    *codes = malloc(FX_V * FX_E);
    *scales = malloc(4 * sizeof **scales);
    for (int i = 0; i < FX_V * FX_E; i++) {
        (*codes)[i] = (uint8_t)test_random(&seed);
        if (((*codes)[i] & 127) == 127) (*codes)[i] = 0;
    }
    for (int i = 0; i < 4; i++) (*scales)[i] = (float)(0.01 + test_uniform(&seed));
    replace(&b->f, "lm_head.weight", "F8_E4M3", FX_V, FX_E, *codes, FX_V * FX_E);
    fixture_add(&b->f, "lm_head.weight_scale_inv", "F32", 2, (int64_t[]){2, 2}, *scales, 16);
    arena_init(&b->mem, 0);
    CHECK_OK(file_read(&b->mem, fixture_path(&b->f, "config.json"), 1 << 20, &has, &e), &e);
    snprintf(text, sizeof text, "%.*s%s}", (int)has.len - 1, has.ptr, config);
    fixture_text(&b->f, "config.json", text);
    arena_fini(&b->mem);
    fixture_write(&b->f);
}

#define FP8                                                                            \
    ",\"quantization_config\":{\"quant_method\":\"fp8\",\"fmt\":\"e4m3\","             \
    "\"activation_scheme\":\"dynamic\",\"modules_to_not_convert\":[\"embed_tokens\"]," \
    "\"weight_block_size\":[64,96]}"

TEST(fp8_with_scales_of_blocks_becomes_bf16)
{
    bench b;
    uint8_t *codes;
    float *scales, row[FX_E];
    begin_fp8(&b, FP8, &codes, &scales);
    must_open(&b);
    const tensor *t = weights_find(b.w, "lm_head.weight");
    assert_true(t->type == DTYPE_BF16 && b.w->layout == WEIGHTS_LAYOUT_HF);
    for (int r = 0; r < FX_V; r++) {
        tensor_row_f32(t, r, row);
        for (int k = 0; k < FX_E; k++) {
            double v = read_e4m3(codes[r * FX_E + k]) * (double)scales[r / 64 * 2 + k / 96];
            if (row[k] != half_from_bf16(half_to_bf16((float)v)))
                fail_msg("[%d, %d]: %g, want %g", r, k, (double)row[k], v);
        }
    }
    end(&b);
}

TEST(fp8_without_its_scales_or_configuration_is_refused)
{
    bench b;
    uint8_t *codes;
    float *scales;
    begin_fp8(&b, "", &codes, &scales);
    check_fails(&b, ERR_FORMAT, "model.safetensors",
                "config.json has no quantization_config of fp8");
    fixture_fini(&b.f);
    begin_fp8(&b, FP8, &codes, &scales);
    codes[7] = 0x7f;
    fixture_write(&b.f);
    check_fails(&b, ERR_FORMAT, "model.safetensors", "no number");
    fixture_remove(&b.f, "lm_head.weight_scale_inv");
    fixture_write(&b.f);
    check_fails(&b, ERR_FORMAT, "model.safetensors", "no weight_scale_inv beside it");
    fixture_fini(&b.f);
    begin_fp8(&b, FP8, &codes, &scales);
    fixture_find(&b.f, "lm_head.weight_scale_inv")->shape[0] = 4;
    fixture_find(&b.f, "lm_head.weight_scale_inv")->shape[1] = 1;
    fixture_write(&b.f);
    check_fails(&b, ERR_FORMAT, "model.safetensors", "want [2, 2] F32");
    fixture_fini(&b.f);
}
