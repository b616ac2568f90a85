#include "load/small_float_priv.h"

#include <math.h>
#include <stdio.h>

#include "tensor/block.h"
#include "tensor/half.h"

typedef struct {
    const char *name;
    int bits, group, block; /* rows are whole `block`s */
    dtype type;             /* what it becomes */
} mode_row;

static const mode_row modes[] = {
    [SMALL_MXFP4] = {"mxfp4", 4, 32, 32, DTYPE_MXFP4},
    [SMALL_NVFP4] = {"nvfp4", 4, 16, 64, DTYPE_NVFP4},
    [SMALL_MXFP8] = {"mxfp8", 8, 32, 32, DTYPE_BF16},
};

small_float small_float_find(const char *mode)
{
    for (int i = SMALL_MXFP4; i <= SMALL_MXFP8; i++)
        if (strcmp(mode, modes[i].name) == 0) return (small_float)i;
    return SMALL_NONE;
}

static status fail(const checkpoint_item *it, const char *what, err *e)
{
    return err_set(e, ERR_FORMAT, safetensors_where(safetensors_path(it->file)), -1,
                   "tensor '%.90s' %s", it->name, what);
}

/* `it` must be of that type and of want's shape with the last dimension of `last`. */
static status check_item(const checkpoint_item *it, dtype type, const arch_tensor *want,
                         int64_t last, err *e)
{
    tensor t = {.type = type, .n_dims = want->n_dims};
    char has[96], wants[96], text[220];
    memcpy(t.shape, want->shape, sizeof t.shape);
    t.shape[t.n_dims - 1] = last;
    bool is_same = it->t.type == type && it->t.n_dims == t.n_dims;
    for (int i = 0; is_same && i < t.n_dims; i++) is_same = it->t.shape[i] == t.shape[i];
    if (is_same) return ERR_OK;
    snprintf(text, sizeof text, "is %s, want %s", tensor_format(&it->t, has, sizeof has),
             tensor_format(&t, wants, sizeof wants));
    return fail(it, text, e);
}

static status new_tensor(arena *mem, const arch_tensor *want, dtype type, tensor *out, err *e)
{
    int64_t n = 1;
    tensor t = {.type = type, .n_dims = want->n_dims};
    memcpy(t.shape, want->shape, sizeof t.shape);
    for (int i = 0; i < t.n_dims; i++) n *= t.shape[i];
    t.n_bytes = dtype_is_block(type) ? block_row_bytes(type, n) : n * 2;
    t.data = arena_new(mem, (size_t)t.n_bytes);
    if (!t.data)
        return err_set(e, ERR_NOMEM, "weights", -1, "%lld bytes for '%.80s'", (long long)t.n_bytes,
                       want->name);
    *out = t;
    return ERR_OK;
}

/* Codes 2 j and 2 j + 1 are the halves of byte j; in a block they are those of bytes j and
 * j + n / 2. */
static void put_halves(const uint8_t *codes, int n, uint8_t *out)
{
    for (int j = 0; j < n / 2; j++) {
        int up = j + n / 2;
        int low_code = codes[j / 2] >> (4 * (j % 2)) & 15;
        int up_code = codes[up / 2] >> (4 * (up % 2)) & 15;
        out[j] = (uint8_t)(low_code | up_code << 4);
    }
}

static void put_mxfp4(const uint8_t *codes, const uint8_t *scales, int64_t n, uint8_t *out)
{
    for (int64_t i = 0; i < n; i += 32, codes += 16, out += 17) {
        out[0] = *scales++;
        put_halves(codes, 32, out + 1);
    }
}

static void put_nvfp4(const uint8_t *codes, const uint8_t *scales, int64_t n, uint8_t *out)
{
    for (int64_t i = 0; i < n; i += 64, scales += 4, out += 36) {
        memcpy(out, scales, 4);
        for (int s = 0; s < 4; s++, codes += 8) put_halves(codes, 16, out + 4 + 8 * s);
    }
}

/* E4M3 codes as f32, 256 at a time at most. */
static void decode_e4m3(const uint8_t *codes, int64_t n, float *out)
{
    tensor t = {.type = DTYPE_F8_E4M3, .n_dims = 2, .shape = {1, n}, .data = codes, .n_bytes = n};
    tensor_row_f32(&t, 0, out);
}

static void put_mxfp8(const uint8_t *codes, const uint8_t *scales, int64_t n, uint16_t *out)
{
    float v[32];
    for (int64_t i = 0; i < n; i += 32) {
        decode_e4m3(codes + i, 32, v);
        int exponent = *scales++ - 127;
        for (int j = 0; j < 32; j++) out[i + j] = half_to_bf16(ldexpf(v[j], exponent));
    }
}

/* E8M0 has one code that is no number; E4M3 has two, and a scale has no sign. */
static status check_scales(const checkpoint_item *scales, small_float mode, err *e)
{
    const uint8_t *p = scales->t.data;
    for (int64_t i = 0; i < scales->t.n_bytes; i++)
        if (mode == SMALL_NVFP4 ? p[i] >= 0x7f : p[i] == 0xff)
            return fail(scales, "has a scale that is negative or no number", e);
    return ERR_OK;
}

status small_float_take(arena *mem, small_float mode, const checkpoint_item *weight,
                        const checkpoint_item *scales, const arch_tensor *want, tensor *out, err *e)
{
    const mode_row *m = &modes[mode];
    int64_t K = want->shape[want->n_dims - 1], n = K;
    tensor t;
    for (int i = 0; i < want->n_dims - 1; i++) n *= want->shape[i];
    if (K % m->block != 0) return fail(weight, "has rows that are no whole groups of its mode", e);
    TRY(check_item(weight, DTYPE_U32, want, K / 32 * m->bits, e));
    TRY(check_item(scales, DTYPE_U8, want, K / m->group, e));
    TRY(check_scales(scales, mode, e));
    TRY(new_tensor(mem, want, m->type, &t, e));
    void *data = (void *)(uintptr_t)t.data;
    if (mode == SMALL_MXFP4)
        put_mxfp4(weight->t.data, scales->t.data, n, data);
    else if (mode == SMALL_NVFP4)
        put_nvfp4(weight->t.data, scales->t.data, n, data);
    else
        put_mxfp8(weight->t.data, scales->t.data, n, data);
    *out = t;
    return ERR_OK;
}

status small_float_take_fp8(arena *mem, const checkpoint_item *weight,
                            const checkpoint_item *scales, int rows, int columns,
                            const arch_tensor *want, tensor *out, err *e)
{
    enum { RUN = 256 };
    float v[RUN];
    tensor t;
    if (want->n_dims != 2) return fail(weight, "is of 8-bit floats and no matrix", e);
    int64_t N = want->shape[0], K = want->shape[1], n_scales = (K + columns - 1) / columns;
    arch_tensor grid = {want->name, want->kind, 2, {(N + rows - 1) / rows, n_scales}};
    TRY(check_item(weight, DTYPE_F8_E4M3, want, K, e));
    TRY(check_item(scales, dtype_is_float(scales->t.type) ? scales->t.type : DTYPE_F32, &grid,
                   n_scales, e));
    TRY(new_tensor(mem, want, DTYPE_BF16, &t, e));
    float *scale = arena_new_array(mem, (size_t)n_scales, sizeof *scale);
    if (!scale) return err_set(e, ERR_NOMEM, "weights", -1, "a row of scales");
    uint16_t *to = (uint16_t *)(uintptr_t)t.data;
    const uint8_t *from = weight->t.data;
    for (int64_t i = 0; i < N; i++) {
        if (i % rows == 0) tensor_row_f32(&scales->t, i / rows, scale);
        for (int64_t k = 0; k < K; k += RUN) {
            int64_t n = K - k < RUN ? K - k : RUN;
            decode_e4m3(from + i * K + k, n, v);
            for (int64_t j = 0; j < n; j++) {
                float product = v[j] * scale[(k + j) / columns];
                if (!isfinite(product)) return fail(weight, "has a value that is no number", e);
                to[i * K + k + j] = half_to_bf16(product);
            }
        }
    }
    *out = t;
    return ERR_OK;
}
