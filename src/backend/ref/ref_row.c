#include <string.h>

#include "backend/ref/ref_priv.h"
#include "tensor/half.h"
#include "tensor/quant.h"

static float scale_at(const void *p, int64_t i, dtype type)
{
    if (type == DTYPE_F32) {
        float f;
        memcpy(&f, (const char *)p + i * 4, 4);
        return f;
    }
    uint16_t h;
    memcpy(&h, (const char *)p + i * 2, 2);
    return type == DTYPE_BF16 ? half_from_bf16(h) : half_from_f16(h);
}

/* A group of 4- or 8-bit codes, in two loops that a compiler turns into vector code: codes to
 * bytes, bytes to values. Product and sum are rounded apart, as quant.h says. */
REF_HOT static void affine_group(const uint8_t *codes, int bits, int group, float scale, float bias,
                                 float *out)
{
    uint8_t nibbles[128];
    const uint8_t *q = codes;
    if (bits == 4) {
        for (int i = 0; i < group / 2; i++) {
            nibbles[2 * i] = codes[i] & 15;
            nibbles[2 * i + 1] = codes[i] >> 4;
        }
        q = nibbles;
    }
    for (int i = 0; i < group; i++) {
        out[i] = scale * (float)(int)q[i] + bias;
    }
}

void ref_row_decode(const tensor *t, int64_t i, float *out)
{
    if (t->type != DTYPE_AFFINE || (t->bits != 4 && t->bits != 8)) {
        tensor_row_f32(t, i, out);
        return;
    }
    int64_t K = t->shape[t->n_dims - 1], n_groups = K / t->group;
    const uint8_t *row = (const uint8_t *)t->data + i * quant_affine_row_bytes(K, t->bits);
    for (int64_t g = 0; g < n_groups; g++) {
        float scale = scale_at(t->scales, i * n_groups + g, t->scale_type);
        float bias = scale_at(t->biases, i * n_groups + g, t->scale_type);
        affine_group(row + g * t->group * t->bits / 8, t->bits, t->group, scale, bias,
                     out + g * t->group);
    }
}

/* n is a multiple of 16, at most REF_RUN. */
static inline __attribute__((always_inline)) double dot_run(const float *a, const float *b, int n)
{
    float s[16] = {0};
    for (int k = 0; k < n; k += 16) {
        for (int i = 0; i < 16; i++) {
            s[i] += a[k + i] * b[k + i];
        }
    }
    double sum = 0;
    for (int i = 0; i < 16; i++) sum += (double)s[i];
    return sum;
}

REF_HOT double ref_row_dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    int64_t k = 0;
    for (; k + REF_RUN <= n; k += REF_RUN) sum += dot_run(a + k, b + k, REF_RUN);
    int rest = (int)(n - k) & ~15;
    if (rest > 0) sum += dot_run(a + k, b + k, rest);
    for (k += rest; k < n; k++) sum += (double)a[k] * (double)b[k];
    return sum;
}

REF_HOT double ref_row_dot_double(const float *a, const float *b, int64_t n)
{
    double s[8] = {0}, sum = 0;
    int64_t k = 0;
    for (; k + 8 <= n; k += 8) {
        for (int i = 0; i < 8; i++) {
            s[i] += (double)a[k + i] * (double)b[k + i];
        }
    }
    for (; k < n; k++) sum += (double)a[k] * (double)b[k];
    for (int i = 0; i < 8; i++) sum += s[i];
    return sum;
}
