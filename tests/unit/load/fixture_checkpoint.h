/* fixture_checkpoint: small model directories made in a temporary folder.
 *
 * It writes safetensors by itself and names tensors from model-spec 4.1, 4.2 and 3.6, so that the
 * loader is judged by a second reading of both. Every value is a function of the canonical name
 * and the place, hence a test can say what any element must be. Dimensions are the least that
 * groups of 128 allow. */
#ifndef RIPTIDE_TESTS_FIXTURE_CHECKPOINT_H
#define RIPTIDE_TESTS_FIXTURE_CHECKPOINT_H

#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/test.h"
#include "tensor/half.h"
#include "tensor/quant.h"

#define FIXTURE __attribute__((unused)) static

typedef struct {
    char name[160];
    char type[8];
    int n_dims;
    int64_t shape[6];
    void *bytes;
    int64_t n_bytes;
} fixture_tensor;

typedef struct {
    char dir[64];
    fixture_tensor *list;
    int n, cap;
} fixture;

FIXTURE void fixture_init(fixture *f)
{
    *f = (fixture){0};
    snprintf(f->dir, sizeof f->dir, "/tmp/riptide-load-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
}

FIXTURE void fixture_clear(fixture *f)
{
    for (int i = 0; i < f->n; i++) free(f->list[i].bytes);
    free(f->list);
    f->list = NULL;
    f->n = f->cap = 0;
}

FIXTURE void fixture_fini(fixture *f)
{
    fixture_clear(f);
    DIR *d = opendir(f->dir);
    struct dirent *entry;
    while (d && (entry = readdir(d))) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", f->dir, entry->d_name);
        if (entry->d_name[0] != '.') unlink(path);
    }
    if (d) closedir(d);
    rmdir(f->dir);
}

FIXTURE const char *fixture_path(const fixture *f, const char *name)
{
    static char path[4][400];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", f->dir, name);
    return p;
}

FIXTURE void fixture_bytes(const fixture *f, const char *name, const void *bytes, size_t n)
{
    FILE *file = fopen(fixture_path(f, name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

FIXTURE void fixture_text(const fixture *f, const char *name, const char *text)
{
    fixture_bytes(f, name, text, strlen(text));
}

/* Takes `bytes`, which is malloc'ed. */
FIXTURE void fixture_add(fixture *f, const char *name, const char *type, int n_dims,
                         const int64_t *shape, void *bytes, int64_t n_bytes)
{
    if (f->n == f->cap) {
        f->cap = f->cap ? 2 * f->cap : 64;
        f->list = realloc(f->list, (size_t)f->cap * sizeof *f->list);
        assert_non_null(f->list);
    }
    fixture_tensor *t = &f->list[f->n++];
    *t = (fixture_tensor){.n_dims = n_dims, .bytes = bytes, .n_bytes = n_bytes};
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(t->type, sizeof t->type, "%s", type);
    memcpy(t->shape, shape, (size_t)n_dims * sizeof *shape);
}

FIXTURE fixture_tensor *fixture_find(fixture *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->list[i].name, name) == 0) return &f->list[i];
    fail_msg("the fixture has no tensor %s", name);
    return NULL;
}

FIXTURE void fixture_remove(fixture *f, const char *name)
{
    fixture_tensor *t = fixture_find(f, name);
    free(t->bytes);
    *t = f->list[--f->n];
}

/* Tensors [from, to) as a safetensors file. */
FIXTURE void fixture_write_range(const fixture *f, const char *name, int from, int to)
{
    size_t cap = 512 * (size_t)(to - from + 1), n = 8;
    char *head = calloc(1, cap);
    assert_non_null(head);
    n += (size_t)snprintf(head + n, cap - n, "{\"__metadata__\":{\"format\":\"pt\"}");
    int64_t at = 0;
    for (int i = from; i < to; i++) {
        const fixture_tensor *t = &f->list[i];
        n += (size_t)snprintf(head + n, cap - n, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name,
                              t->type);
        for (int d = 0; d < t->n_dims; d++)
            n += (size_t)snprintf(head + n, cap - n, d ? ",%lld" : "%lld", (long long)t->shape[d]);
        n += (size_t)snprintf(head + n, cap - n, "],\"data_offsets\":[%lld,%lld]}", (long long)at,
                              (long long)(at + t->n_bytes));
        at += t->n_bytes;
    }
    n += (size_t)snprintf(head + n, cap - n, "}");
    uint64_t length = n - 8;
    memcpy(head, &length, 8);
    FILE *file = fopen(fixture_path(f, name), "wb");
    assert_non_null(file);
    fwrite(head, 1, n, file);
    for (int i = from; i < to; i++) fwrite(f->list[i].bytes, 1, (size_t)f->list[i].n_bytes, file);
    assert_int_equal(fclose(file), 0);
    free(head);
}

FIXTURE void fixture_write(const fixture *f)
{
    fixture_write_range(f, "model.safetensors", 0, f->n);
}

/* n files and their index. */
FIXTURE void fixture_write_shards(const fixture *f, int n)
{
    size_t cap = 256 * (size_t)(f->n + 4), at = 0;
    char *text = calloc(1, cap);
    assert_non_null(text);
    at += (size_t)snprintf(text, cap, "{\"metadata\":{\"total_size\":1},\"weight_map\":{");
    for (int s = 0; s < n; s++) {
        int from = f->n * s / n, to = f->n * (s + 1) / n;
        char name[64];
        snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", s + 1, n);
        fixture_write_range(f, name, from, to);
        for (int i = from; i < to; i++)
            at += (size_t)snprintf(text + at, cap - at, "%s\"%s\":\"%s\"", i ? "," : "",
                                   f->list[i].name, name);
    }
    snprintf(text + at, cap - at, "}}");
    fixture_text(f, "model.safetensors.index.json", text);
    free(text);
}

FIXTURE uint64_t fixture_hash(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 0x100000001b3u;
    return h;
}

/* What element i of the tensor with that hash holds before any rounding: within (-0.2, 0.2). */
FIXTURE float fixture_value(uint64_t hash, int64_t i)
{
    uint64_t x = (hash ^ (uint64_t)i) * 0x9e3779b97f4a7c15u;
    return (float)(int32_t)(x >> 32) * 0x1p-31f * 0.2f;
}

typedef enum { FIXTURE_SWITCH, FIXTURE_FUSED, FIXTURE_EACH, FIXTURE_FUSED_WEIGHT } fixture_experts;

typedef struct {
    bool is_mlx; /* layouts and norms of MLX */
    bool is_moe, is_tied, is_flat;
    dtype type;       /* of what is not quantised; 0 = BF16 */
    int bits, group;  /* 0 = not quantised */
    dtype scale_type; /* 0 = BF16 */
    fixture_experts experts;
    const char *prefix; /* in front of layers; NULL = by class */
    const char *extra;  /* more members of quantization, ",…" or "" */
    bool has_norm_mean; /* else 1 for MLX and 0 for Hugging Face */
    double norm_mean;
    bool is_v2; /* drafts */
} fixture_spec;

enum {
    FX_V = 96,
    FX_E = 128,
    FX_LAYERS = 4,
    FX_H = 4,
    FX_G = 2,
    FX_D = 32,
    FX_HK = 2,
    FX_HV = 4,
    FX_DK = 32,
    FX_DV = 32,
    FX_F = 128,
    FX_X = 4,
    FX_K = 2,
    FX_MOE_F = 128,
    FX_CONV = 4,
    FX_C = 2 * FX_HK * FX_DK + FX_HV * FX_DV
};

typedef struct {
    fixture *f;
    const fixture_spec *s;
    const char *prefix;
    int layer;
} fixture_maker;

FIXTURE dtype fixture_type(const fixture_spec *s)
{
    return s->type ? s->type : DTYPE_BF16;
}

/* The value that is stored: rounded to the type, the mean of norms added. */
FIXTURE float fixture_round(dtype type, float v)
{
    if (type == DTYPE_BF16) return half_from_bf16(half_to_bf16(v));
    if (type == DTYPE_F16) return half_from_f16(half_to_f16(v));
    return v;
}

FIXTURE void *fixture_store(dtype type, const float *v, int64_t n, int64_t *n_bytes)
{
    *n_bytes = n * (type == DTYPE_F32 ? 4 : 2);
    char *out = malloc((size_t)*n_bytes);
    assert_non_null(out);
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = type == DTYPE_F16 ? half_to_f16(v[i]) : half_to_bf16(v[i]);
        if (type == DTYPE_F32)
            memcpy(out + 4 * i, &v[i], 4);
        else
            memcpy(out + 2 * i, &h, 2);
    }
    return out;
}

/* Values [first, first + n) of `canonical` plus `mean`. */
FIXTURE float *fixture_values(const char *canonical, int64_t first, int64_t n, double mean)
{
    float *v = malloc((size_t)n * sizeof *v);
    assert_non_null(v);
    uint64_t hash = fixture_hash(canonical);
    for (int64_t i = 0; i < n; i++) v[i] = fixture_value(hash, first + i) + (float)mean;
    return v;
}

FIXTURE void fixture_add_plain(fixture *f, const char *name, const char *canonical, dtype type,
                               int n_dims, const int64_t *shape, double mean)
{
    int64_t n = 1, n_bytes;
    for (int i = 0; i < n_dims; i++) n *= shape[i];
    float *v = fixture_values(canonical, 0, n, mean);
    void *bytes = fixture_store(type, v, n, &n_bytes);
    fixture_add(f, name, dtype_name(type), n_dims, shape, bytes, n_bytes);
    free(v);
}

/* Quantise rows of v and add weight, scales and biases of `module`. */
FIXTURE void fixture_add_affine(fixture *f, const char *module, int bits, int group,
                                dtype scale_type, int n_dims, const int64_t *shape, const float *v)
{
    int64_t k = shape[n_dims - 1], rows = 1, n_bytes, per_row = quant_affine_row_bytes(k, bits);
    for (int i = 0; i < n_dims - 1; i++) rows *= shape[i];
    int64_t n_groups = rows * k / group, at[4];
    uint8_t *codes = malloc((size_t)(rows * per_row));
    uint16_t *half = malloc((size_t)n_groups * 4);
    float *wide = malloc((size_t)n_groups * 8);
    assert_true(codes && half && wide);
    for (int64_t r = 0; r < rows; r++)
        quant_affine_encode_row(v + r * k, k, bits, group, codes + r * per_row,
                                half + r * (k / group), half + n_groups + r * (k / group));
    half_row_from_bf16(half, wide, 2 * n_groups);
    char name[200];
    memcpy(at, shape, (size_t)n_dims * sizeof *shape);
    at[n_dims - 1] = k * bits / 32;
    snprintf(name, sizeof name, "%s.weight", module);
    fixture_add(f, name, "U32", n_dims, at, codes, rows * per_row);
    at[n_dims - 1] = k / group;
    for (int i = 0; i < 2; i++) {
        void *bytes = fixture_store(scale_type, wide + i * n_groups, n_groups, &n_bytes);
        snprintf(name, sizeof name, "%s.%s", module, i ? "biases" : "scales");
        fixture_add(f, name, dtype_name(scale_type), n_dims, at, bytes, n_bytes);
    }
    free(half);
    free(wide);
}

/* "prefix" + "layers.N." + rest, and without prefix. */
FIXTURE void fixture_names(const fixture_maker *m, const char *rest, char *full, char *canonical)
{
    if (m->layer >= 0)
        snprintf(canonical, 160, "layers.%d.%s", m->layer, rest);
    else
        snprintf(canonical, 160, "%s", rest);
    const char *prefix = m->prefix;
    /* The head stands outside of `model`. */
    if (strncmp(canonical, "lm_head", 7) == 0)
        prefix = strncmp(prefix, "language_model.", 15) == 0 ? "language_model." : "";
    snprintf(full, 200, "%s%s", prefix, canonical);
}

FIXTURE void fixture_linear(const fixture_maker *m, const char *module, int64_t n, int64_t k)
{
    char rest[120], full[200], canonical[160];
    int64_t shape[2] = {n, k};
    snprintf(rest, sizeof rest, "%s.weight", module);
    fixture_names(m, rest, full, canonical);
    if (m->s->bits == 0) {
        fixture_add_plain(m->f, full, canonical, fixture_type(m->s), 2, shape, 0);
        return;
    }
    float *v = fixture_values(canonical, 0, n * k, 0);
    full[strlen(full) - 7] = '\0';
    fixture_add_affine(m->f, full, m->s->bits, m->s->group,
                       m->s->scale_type ? m->s->scale_type : DTYPE_BF16, 2, shape, v);
    free(v);
}

FIXTURE void fixture_plain(const fixture_maker *m, const char *rest, int n_dims,
                           const int64_t *shape, double mean)
{
    char full[200], canonical[160];
    fixture_names(m, rest, full, canonical);
    fixture_add_plain(m->f, full, canonical, fixture_type(m->s), n_dims, shape, mean);
}

FIXTURE void fixture_norm(const fixture_maker *m, const char *rest, int64_t n)
{
    const fixture_spec *s = m->s;
    fixture_plain(m, rest, 1, &n, s->has_norm_mean ? s->norm_mean : s->is_mlx ? 1 : 0);
}

/* Values of all experts of one projection, [X, n, k]. */
FIXTURE float *fixture_expert_values(int layer, const char *proj, int64_t n, int64_t k)
{
    char canonical[160];
    snprintf(canonical, sizeof canonical, "layers.%d.mlp.experts.%s.weight", layer, proj);
    return fixture_values(canonical, 0, FX_X * n * k, 0);
}

FIXTURE void fixture_expert_form(const fixture_maker *m, const char *rest, int n_dims,
                                 const int64_t *shape, const float *v, bool has_suffix)
{
    char full[200], canonical[160];
    fixture_names(m, rest, full, canonical);
    int64_t n = 1, n_bytes;
    for (int i = 0; i < n_dims; i++) n *= shape[i];
    if (m->s->bits) {
        fixture_add_affine(m->f, full, m->s->bits, m->s->group,
                           m->s->scale_type ? m->s->scale_type : DTYPE_BF16, n_dims, shape, v);
        return;
    }
    if (has_suffix) strcat(full, ".weight");
    void *bytes = fixture_store(fixture_type(m->s), v, n, &n_bytes);
    fixture_add(m->f, full, dtype_name(fixture_type(m->s)), n_dims, shape, bytes, n_bytes);
}

FIXTURE void fixture_experts_of(const fixture_maker *m)
{
    static const char *const projs[3] = {"gate_proj", "up_proj", "down_proj"};
    const int64_t n[3] = {FX_MOE_F, FX_MOE_F, FX_E}, k[3] = {FX_E, FX_E, FX_MOE_F};
    float *v[3];
    char rest[120];
    for (int p = 0; p < 3; p++) v[p] = fixture_expert_values(m->layer, projs[p], n[p], k[p]);
    for (int p = 0; p < 3; p++) {
        int64_t shape[3] = {FX_X, n[p], k[p]}, per = n[p] * k[p];
        if (m->s->experts == FIXTURE_SWITCH) {
            snprintf(rest, sizeof rest, "mlp.switch_mlp.%s", projs[p]);
            fixture_expert_form(m, rest, 3, shape, v[p], true);
        } else if (m->s->experts == FIXTURE_EACH) {
            for (int x = 0; x < FX_X; x++) {
                snprintf(rest, sizeof rest, "mlp.experts.%d.%s", x, projs[p]);
                fixture_expert_form(m, rest, 2, shape + 1, v[p] + x * per, true);
            }
        } else if (p == 2) {
            fixture_expert_form(m, "mlp.experts.down_proj", 3, shape, v[p],
                                m->s->experts == FIXTURE_FUSED_WEIGHT);
        }
    }
    if (m->s->experts == FIXTURE_FUSED || m->s->experts == FIXTURE_FUSED_WEIGHT) {
        int64_t per = FX_MOE_F * FX_E, shape[3] = {FX_X, 2 * FX_MOE_F, FX_E};
        float *both = malloc((size_t)(FX_X * 2 * per) * sizeof *both);
        assert_non_null(both);
        for (int x = 0; x < FX_X; x++)
            for (int h = 0; h < 2; h++)
                memcpy(both + (2 * x + h) * per, v[h] + x * per, (size_t)per * sizeof *both);
        fixture_expert_form(m, "mlp.experts.gate_up_proj", 3, shape, both,
                            m->s->experts == FIXTURE_FUSED_WEIGHT);
        free(both);
    }
    for (int p = 0; p < 3; p++) free(v[p]);
}

FIXTURE void fixture_ffn(const fixture_maker *m, const char *path, int64_t F)
{
    char module[100];
    snprintf(module, sizeof module, "%s.gate_proj", path);
    fixture_linear(m, module, F, FX_E);
    snprintf(module, sizeof module, "%s.up_proj", path);
    fixture_linear(m, module, F, FX_E);
    snprintf(module, sizeof module, "%s.down_proj", path);
    fixture_linear(m, module, FX_E, F);
}

FIXTURE void fixture_target_layer(const fixture_maker *m)
{
    int64_t hv = FX_HV, dv = FX_DV;
    int64_t conv[3] = {FX_C, m->s->is_mlx ? FX_CONV : 1, m->s->is_mlx ? 1 : FX_CONV};
    fixture_norm(m, "input_layernorm.weight", FX_E);
    fixture_norm(m, "post_attention_layernorm.weight", FX_E);
    if (m->layer % 4 == 3) {
        fixture_linear(m, "self_attn.q_proj", 2 * FX_H * FX_D, FX_E);
        fixture_linear(m, "self_attn.k_proj", FX_G * FX_D, FX_E);
        fixture_linear(m, "self_attn.v_proj", FX_G * FX_D, FX_E);
        fixture_linear(m, "self_attn.o_proj", FX_E, FX_H * FX_D);
        fixture_norm(m, "self_attn.q_norm.weight", FX_D);
        fixture_norm(m, "self_attn.k_norm.weight", FX_D);
    } else {
        fixture_linear(m, "linear_attn.in_proj_qkv", FX_C, FX_E);
        fixture_linear(m, "linear_attn.in_proj_z", FX_HV * FX_DV, FX_E);
        fixture_linear(m, "linear_attn.in_proj_b", FX_HV, FX_E);
        fixture_linear(m, "linear_attn.in_proj_a", FX_HV, FX_E);
        fixture_plain(m, "linear_attn.conv1d.weight", 3, conv, 0);
        fixture_plain(m, "linear_attn.A_log", 1, &hv, 0);
        fixture_plain(m, "linear_attn.dt_bias", 1, &hv, 0);
        fixture_plain(m, "linear_attn.norm.weight", 1, &dv, 1);
        fixture_linear(m, "linear_attn.out_proj", FX_E, FX_HV * FX_DV);
    }
    if (m->s->is_moe) {
        fixture_linear(m, "mlp.gate", FX_X, FX_E);
        fixture_experts_of(m);
        fixture_ffn(m, "mlp.shared_expert", FX_MOE_F);
        fixture_linear(m, "mlp.shared_expert_gate", 1, FX_E);
    } else {
        fixture_ffn(m, "mlp", FX_F);
    }
}

FIXTURE void fixture_target_config(const fixture *f, const fixture_spec *s)
{
    char text[6000], body[3000], ffn[300], quant[1500] = "";
    if (s->is_moe)
        snprintf(ffn, sizeof ffn,
                 "\"num_experts\":%d,\"num_experts_per_tok\":%d,\"moe_intermediate_size\":%d,"
                 "\"shared_expert_intermediate_size\":%d",
                 FX_X, FX_K, FX_MOE_F, FX_MOE_F);
    else
        snprintf(ffn, sizeof ffn, "\"intermediate_size\":%d", FX_F);
    snprintf(body, sizeof body,
             "\"model_type\":\"qwen3_5%s_text\",\"vocab_size\":%d,\"hidden_size\":%d,"
             "\"num_hidden_layers\":%d,\"num_attention_heads\":%d,\"num_key_value_heads\":%d,"
             "\"head_dim\":%d,\"linear_num_key_heads\":%d,\"linear_num_value_heads\":%d,"
             "\"linear_key_head_dim\":%d,\"linear_value_head_dim\":%d,"
             "\"linear_conv_kernel_dim\":%d,\"full_attention_interval\":4,"
             "\"max_position_embeddings\":256,\"rms_norm_eps\":1e-6,\"eos_token_id\":7,"
             "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10000,"
             "\"partial_rotary_factor\":0.25,\"mrope_section\":[2,1,1]},%s",
             s->is_moe ? "_moe" : "", FX_V, FX_E, FX_LAYERS, FX_H, FX_G, FX_D, FX_HK, FX_HV, FX_DK,
             FX_DV, FX_CONV, ffn);
    if (s->bits || s->extra)
        snprintf(quant, sizeof quant, ",\"quantization\":{\"group_size\":%d,\"bits\":%d%s}",
                 s->group, s->bits, s->extra ? s->extra : "");
    if (s->is_flat)
        snprintf(text, sizeof text, "{%s,\"tie_word_embeddings\":%s%s}", body,
                 s->is_tied ? "true" : "false", quant);
    else
        snprintf(text, sizeof text,
                 "{\"architectures\":[\"Qwen3_5%sForConditionalGeneration\"],"
                 "\"model_type\":\"qwen3_5%s\",\"text_config\":{%s},\"tie_word_embeddings\":%s%s}",
                 s->is_moe ? "Moe" : "", s->is_moe ? "_moe" : "", body,
                 s->is_tied ? "true" : "false", quant);
    fixture_text(f, "config.json", text);
}

/* Tensors and config.json of a target; the files are for the caller to write. */
FIXTURE void fixture_target(fixture *f, const fixture_spec *s)
{
    const char *by_class = s->is_mlx    ? "language_model.model."
                           : s->is_flat ? "model."
                                        : "model.language_model.";
    fixture_maker m = {f, s, s->prefix ? s->prefix : by_class, -1};
    fixture_target_config(f, s);
    fixture_linear(&m, "embed_tokens", FX_V, FX_E);
    for (m.layer = 0; m.layer < FX_LAYERS; m.layer++) fixture_target_layer(&m);
    m.layer = -1;
    fixture_norm(&m, "norm.weight", FX_E);
    if (!s->is_tied) fixture_linear(&m, "lm_head", FX_V, FX_E);
}

enum { FX_D_LAYERS = 2, FX_TAPS = 2, FX_RANK = 32, FX_D_F = 192 };

FIXTURE void fixture_draft_conv(const fixture_maker *m, const char *path)
{
    char name[100];
    int64_t shape[3] = {2, 2, FX_E};
    snprintf(name, sizeof name, "%s.base_kernel", path);
    fixture_plain(m, name, 3, shape, 0);
    snprintf(name, sizeof name, "%s.kernel_projection", path);
    fixture_linear(m, name, 2 * 2 * FX_E / 16, FX_E);
}

FIXTURE void fixture_draft(fixture *f, const fixture_spec *s)
{
    fixture_maker m = {f, s, s->prefix ? s->prefix : "", -1};
    int64_t codes[2] = {FX_V, FX_RANK}, width = FX_E, size = FX_D;
    double mean = s->has_norm_mean ? s->norm_mean : 1;
    char text[2000];
    snprintf(text, sizeof text,
             "{\"architectures\":[\"%s\"],\"model_type\":\"qwen3\",\"hidden_size\":%d,"
             "\"intermediate_size\":%d,\"num_hidden_layers\":%d,\"num_attention_heads\":%d,"
             "\"num_key_value_heads\":%d,\"head_dim\":%d,\"vocab_size\":%d,"
             "\"num_target_layers\":%d,"
             "\"rms_norm_eps\":1e-6,\"sliding_window\":64,\"rope_theta\":10000,"
             "\"layer_types\":[\"sliding_attention\",\"full_attention\"],%s"
             "\"dflash_config\":{%s\"mask_token_id\":95,\"target_layer_ids\":[0,2]%s}}",
             s->is_v2 ? "DFlash2DraftModel" : "DFlashDraftModel", FX_E, FX_D_F, FX_D_LAYERS, FX_H,
             FX_G, FX_D, FX_V, FX_LAYERS, s->is_v2 ? "\"is_causal\":false," : "\"block_size\":16,",
             s->is_v2 ? "\"block_size\":8," : "", s->is_v2 ? ",\"selector_rank\":32" : "");
    fixture_text(f, "config.json", text);
    fixture_linear(&m, "fc", FX_E, FX_TAPS * FX_E);
    fixture_plain(&m, "hidden_norm.weight", 1, &width, mean);
    fixture_plain(&m, "norm.weight", 1, &width, mean);
    for (m.layer = 0; m.layer < FX_D_LAYERS; m.layer++) {
        fixture_plain(&m, "input_layernorm.weight", 1, &width, mean);
        fixture_plain(&m, "post_attention_layernorm.weight", 1, &width, mean);
        fixture_linear(&m, "self_attn.q_proj", FX_H * FX_D, FX_E);
        fixture_linear(&m, "self_attn.k_proj", FX_G * FX_D, FX_E);
        fixture_linear(&m, "self_attn.v_proj", FX_G * FX_D, FX_E);
        fixture_linear(&m, "self_attn.o_proj", FX_E, FX_H * FX_D);
        fixture_plain(&m, "self_attn.q_norm.weight", 1, &size, mean);
        fixture_plain(&m, "self_attn.k_norm.weight", 1, &size, mean);
        fixture_ffn(&m, "mlp", FX_D_F);
        if (!s->is_v2) continue;
        fixture_draft_conv(&m, "attention_conv");
        fixture_draft_conv(&m, "mlp_conv");
    }
    m.layer = -1;
    if (!s->is_v2) return;
    fixture_linear(&m, "candidate_selector.hidden_projection", FX_RANK, FX_E);
    fixture_plain(&m, "candidate_selector.predecessor_codebook", 2, codes, 0);
    fixture_plain(&m, "candidate_selector.successor_codebook", 2, codes, 0);
}

#endif
