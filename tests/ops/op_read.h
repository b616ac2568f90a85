/* op_read: pieces of the readings, straight from the formulas of ops.h, model-spec and quant.h,
 * in double and without a line of the backends. */
#ifndef RIPTIDE_TESTS_OP_READ_H
#define RIPTIDE_TESTS_OP_READ_H

#include "ops/op_call.h"

static inline double read_number(const void *p, int64_t i, dtype type)
{
    uint16_t h = 0;
    if (type == DTYPE_F32) {
        float f;
        memcpy(&f, (const char *)p + i * 4, 4);
        return (double)f;
    }
    memcpy(&h, (const char *)p + i * 2, 2);
    int sign = h >> 15, bits = type == DTYPE_BF16 ? 7 : 10;
    int exponent = (h & 0x7fff) >> bits, fraction = h & ((1 << bits) - 1);
    int bias = type == DTYPE_BF16 ? 127 : 15;
    double m = exponent ? ldexp(1.0, bits) + fraction : (double)fraction;
    double v = ldexp(m, (exponent ? exponent : 1) - bias - bits);
    return sign ? -v : v;
}

/* The bf16 next to x. */
static inline double read_rounded(double x)
{
    uint16_t h = half_to_bf16((float)x);
    return read_number(&h, 0, DTYPE_BF16);
}

/* How a reading takes values that some backends keep in bf16. */
typedef enum { READ_EXACT, READ_BF16 } read_way;

/* Element (row, k) of slice x of a weight. READ_BF16: scale, bias and then the value rounded. */
static inline double read_weight_as(const tensor *t, int64_t x, int64_t row, int64_t k,
                                    read_way way)
{
    int64_t K = t->shape[t->n_dims - 1], N = t->shape[t->n_dims - 2];
    int64_t slice = t->slice_stride ? t->slice_stride : N * K;
    int64_t at = x * slice + row * K; /* elements before the row */
    if (t->type != DTYPE_AFFINE) {
        double v = read_number(t->data, at + k, t->type);
        return way == READ_BF16 ? read_rounded(v) : v;
    }
    const uint8_t *bytes = (const uint8_t *)t->data + at * t->bits / 8;
    uint32_t code = 0;
    for (int i = 0; i < t->bits; i++) {
        int64_t bit = k * t->bits + i;
        code |= (uint32_t)(bytes[bit / 8] >> (bit % 8) & 1) << i;
    }
    int64_t group = (at + k) / t->group;
    float scale = (float)read_number(t->scales, group, t->scale_type);
    float bias = (float)read_number(t->biases, group, t->scale_type);
    if (way == READ_BF16)
        return read_rounded(read_rounded((double)scale) * code + read_rounded((double)bias));
    volatile float product = scale * (float)code; /* rounded apart from the sum */
    return (double)(product + bias);
}

static inline double read_weight(const tensor *t, int64_t x, int64_t row, int64_t k)
{
    return read_weight_as(t, x, row, k, READ_EXACT);
}

/* sum_k W[x, row, k] v[k] */
static inline double read_dot_as(const tensor *t, int64_t x, int64_t row, const double *v,
                                 read_way way)
{
    int64_t K = t->shape[t->n_dims - 1];
    double sum = 0;
    for (int64_t k = 0; k < K; k++) sum += read_weight_as(t, x, row, k, way) * v[k];
    return sum;
}
static inline double read_dot(const tensor *t, int64_t x, int64_t row, const double *v)
{
    return read_dot_as(t, x, row, v, READ_EXACT);
}

/* A weight as doubles [N, K] of slice x, when it is used often. */
static inline double *read_matrix(op_call *c, const tensor *t, int64_t x)
{
    int64_t K = t->shape[t->n_dims - 1], N = t->shape[t->n_dims - 2];
    double *w = op_new(c, N * K, sizeof *w);
    for (int64_t i = 0; i < N * K; i++) w[i] = read_weight(t, x, i / K, i % K);
    return w;
}

static inline double *read_doubles(op_call *c, int i_buf)
{
    const op_buf *b = &c->buf[i_buf];
    double *x = op_new(c, b->n, sizeof *x);
    for (int64_t i = 0; i < b->n; i++) x[i] = (double)((const float *)b->host)[i];
    return x;
}

static inline double read_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* x / rms(x) * w, n values */
static inline void read_rmsnorm(double *x, const float *w, double eps, int n)
{
    double mean = 0;
    for (int i = 0; i < n; i++) mean += x[i] * x[i] / n;
    for (int i = 0; i < n; i++) x[i] = x[i] / sqrt(mean + eps) * (double)w[i];
}

/* Split-half rotation of the first 2n values by (cos, sin) pairs. */
static inline void read_rotate(double *x, const float *cs, int n)
{
    for (int j = 0; j < n; j++) {
        double a = x[j], b = x[n + j], c = (double)cs[2 * j], s = (double)cs[2 * j + 1];
        x[j] = a * c - b * s;
        x[n + j] = b * c + a * s;
    }
}

/* cos and sin of pos * theta^(-j / n) for n pairs. */
static inline void read_angles(float *cs, double theta, double pos, int n)
{
    for (int j = 0; j < n; j++) {
        double angle = pos * pow(theta, -(double)j / n);
        cs[2 * j] = (float)cos(angle);
        cs[2 * j + 1] = (float)sin(angle);
    }
}

#endif
