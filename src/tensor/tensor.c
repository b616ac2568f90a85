#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

#include "base/asserts.h"
#include "tensor/block.h"
#include "tensor/half.h"
#include "tensor/quant.h"

bool tensor_count(const tensor *t, int64_t *n)
{
    int64_t product = 1;
    for (int i = 0; i < t->n_dims; i++) {
        if (t->shape[i] < 0) return false;
        if (__builtin_mul_overflow(product, t->shape[i], &product)) return false;
    }
    *n = product;
    return true;
}

static const void *move(const void *p, int64_t n_bytes)
{
    return p ? (const uint8_t *)p + n_bytes : NULL;
}

/* Bytes of n elements that lie along whole rows (n a multiple of 32 for AFFINE, of a block). */
static int64_t span_bytes(const tensor *t, int64_t n)
{
    if (t->type == DTYPE_AFFINE) return quant_affine_row_bytes(n, t->bits);
    return block_row_bytes(t->type, n);
}

/* The same tensor starting `n` elements later. */
static void advance(tensor *t, int64_t n)
{
    t->data = move(t->data, span_bytes(t, n));
    if (t->type != DTYPE_AFFINE) return;
    int64_t n_bytes = n / t->group * dtype_bits(t->scale_type) / 8;
    t->scales = move(t->scales, n_bytes);
    t->biases = move(t->biases, n_bytes);
}

tensor tensor_slice(const tensor *t, int64_t i)
{
    ASSERT(t->n_dims >= 2 && !t->heads.n && i >= 0 && i < t->shape[0]);
    tensor s = *t;
    s.n_dims--;
    int64_t n = 1;
    for (int d = 0; d < s.n_dims; d++) n *= s.shape[d] = t->shape[d + 1];
    s.shape[s.n_dims] = 0;
    s.n_bytes = span_bytes(t, n);
    s.slice_stride = 0;
    advance(&s, i * (t->slice_stride ? t->slice_stride : n));
    return s;
}

tensor tensor_rows(const tensor *t, int64_t from, int64_t to)
{
    ASSERT(t->n_dims == 2 && !t->slice_stride && !t->heads.n);
    ASSERT(0 <= from && from <= to && to <= t->shape[0]);
    tensor r = *t;
    r.shape[0] = to - from;
    r.n_bytes = span_bytes(t, (to - from) * t->shape[1]);
    advance(&r, from * t->shape[1]);
    return r;
}

tensor tensor_slice_rows(const tensor *t, int64_t from, int64_t to)
{
    ASSERT(t->n_dims == 3 && !t->slice_stride && 0 <= from && from <= to && to <= t->shape[1]);
    tensor r = *t;
    r.shape[1] = to - from;
    r.n_bytes = span_bytes(t, t->shape[0] * r.shape[1] * t->shape[2]);
    r.slice_stride = t->shape[1] * t->shape[2];
    advance(&r, from * t->shape[2]);
    return r;
}

/* E4M3 "fn": bias 7, no infinity, S.1111.111 is NaN. */
static float from_e4m3(uint8_t b)
{
    int exponent = b >> 3 & 15, fraction = b & 7;
    if (exponent == 15 && fraction == 7) return half_from_bf16((uint16_t)(b >> 7 << 15 | 0x7fc0));
    float v = exponent ? (float)(8 + fraction) : (float)fraction;
    for (int i = exponent ? exponent : 1; i < 10; i++) v *= 0.5f;
    for (int i = exponent; i > 10; i--) v *= 2;
    return b & 0x80 ? -v : v;
}

#define CONVERT(c_type, expression)                      \
    for (int64_t i = 0; i < n; i++) {                    \
        c_type v;                                        \
        memcpy(&v, p + i * (int64_t)sizeof v, sizeof v); \
        out[i] = (expression);                           \
    }                                                    \
    break

/* n elements at p, which may be unaligned. */
static void convert(const uint8_t *p, dtype type, int64_t n, float *out)
{
    switch (type) {
    case DTYPE_F32: memcpy(out, p, (size_t)n * 4); break;
    case DTYPE_F16: CONVERT(uint16_t, half_from_f16(v));
    case DTYPE_BF16: CONVERT(uint16_t, half_from_bf16(v));
    case DTYPE_F64: CONVERT(double, (float)v);
    case DTYPE_I8: CONVERT(int8_t, (float)v);
    case DTYPE_U8: CONVERT(uint8_t, (float)v);
    case DTYPE_I16: CONVERT(int16_t, (float)v);
    case DTYPE_U16: CONVERT(uint16_t, (float)v);
    case DTYPE_I32: CONVERT(int32_t, (float)v);
    case DTYPE_U32: CONVERT(uint32_t, (float)v);
    case DTYPE_I64: CONVERT(int64_t, (float)v);
    case DTYPE_U64: CONVERT(uint64_t, (float)v);
    case DTYPE_BOOL: CONVERT(uint8_t, v ? 1.0f : 0.0f);
    case DTYPE_F8_E4M3: CONVERT(uint8_t, from_e4m3(v));
    case DTYPE_F8_E5M2: CONVERT(uint8_t, half_from_f16((uint16_t)(v << 8)));
    default: ASSERT(false); /* not element by element */
    }
}

/* Our head h in the file. */
static int64_t file_head(const tensor_heads *v, int64_t h)
{
    int64_t r = v->n / v->n_groups;
    return h % r * v->n_groups + h / r;
}

int64_t tensor_file_row(const tensor *t, int64_t i)
{
    const tensor_heads *v = &t->heads;
    if (v->n == 0 || v->in_columns || i < v->from) return i;
    int64_t at = i - v->from;
    return v->from + file_head(v, at / v->size) * v->size + at % v->size;
}

int64_t tensor_our_column(const tensor *t, int64_t c)
{
    const tensor_heads *v = &t->heads;
    if (v->n == 0 || !v->in_columns) return c;
    int64_t h = c / v->size, ours = h % v->n_groups * (v->n / v->n_groups) + h / v->n_groups;
    return ours * v->size + c % v->size;
}

/* A row whose columns are heads: each block's values go where our order has them. */
static void decode_columns(const tensor *row, int64_t k, float *out)
{
    int n = dtype_block(row->type);
    float piece[256];
    for (int64_t at = 0; at < k; at += n) {
        const uint8_t *block = (const uint8_t *)row->data + block_row_bytes(row->type, at);
        block_decode_row(row->type, block, n, piece);
        for (int i = 0; i < n; i++) out[tensor_our_column(row, at + i)] = piece[i];
    }
}

void tensor_row_f32(const tensor *t, int64_t i, float *out)
{
    ASSERT(t->n_dims == 1 || (t->n_dims == 2 && !t->slice_stride));
    int64_t k = t->shape[t->n_dims - 1];
    ASSERT(i >= 0 && i < (t->n_dims == 2 ? t->shape[0] : 1));
    if (k == 0) return;
    tensor row = *t;
    advance(&row, tensor_file_row(t, i) * k);
    if (t->type == DTYPE_AFFINE)
        quant_affine_decode_row(row.data, row.scales, row.biases, t->scale_type, t->bits, t->group,
                                k, out);
    else if (dtype_is_block(t->type) && t->heads.in_columns)
        decode_columns(&row, k, out);
    else if (dtype_is_block(t->type))
        block_decode_row(t->type, row.data, k, out);
    else
        convert(row.data, t->type, k, out);
}

const char *tensor_format(const tensor *t, char *out, int cap)
{
    if (cap <= 0) return out;
    int n = snprintf(out, (size_t)cap, "[");
    for (int i = 0; i < t->n_dims && n < cap; i++)
        n += snprintf(out + n, (size_t)(cap - n), "%s%lld", i ? ", " : "", (long long)t->shape[i]);
    if (n < cap) n += snprintf(out + n, (size_t)(cap - n), "] %s", dtype_name(t->type));
    if (n < cap && t->type == DTYPE_AFFINE)
        snprintf(out + n, (size_t)(cap - n), "%d/%d", t->bits, t->group);
    return out;
}
