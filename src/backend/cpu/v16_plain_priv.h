/* v16_plain: 16 lanes in portable C, four vectors of four. Included by v16_priv.h. */
#ifndef RIPTIDE_BACKEND_CPU_V16_PLAIN_PRIV_H
#define RIPTIDE_BACKEND_CPU_V16_PLAIN_PRIV_H

typedef float v16_f4 __attribute__((vector_size(16)));
typedef int32_t v16_i4 __attribute__((vector_size(16)));
typedef uint32_t v16_u4 __attribute__((vector_size(16)));

typedef struct {
    v16_f4 p[4];
} v16;
typedef struct {
    v16_i4 p[4];
} v16i;

#define V16_EACH for (int i_ = 0; i_ < 4; i_++)
#define V16_LANES for (int l_ = 0; l_ < 16; l_++)
#define V16_AT(v) ((v).p[l_ / 4][l_ % 4])

V16_OP v16 v16_load(const float *p)
{
    v16 v;
    memcpy(&v, p, sizeof v);
    return v;
}

V16_OP void v16_store(float *p, v16 v)
{
    memcpy(p, &v, sizeof v);
}

/* 4 values, 4 times; and lanes 4 q .. 4 q + 3. */
V16_OP v16 v16_load_4times(const float *p)
{
    v16 v;
    v16_f4 x;
    memcpy(&x, p, sizeof x);
    V16_EACH v.p[i_] = x;
    return v;
}

V16_OP void v16_store_quarter(float *p, v16 v, int q)
{
    memcpy(p, &v.p[q], sizeof v.p[q]);
}

V16_OP v16i v16i_load(const void *p)
{
    v16i v;
    memcpy(&v, p, sizeof v);
    return v;
}

V16_OP void v16i_store(void *p, v16i v)
{
    memcpy(p, &v, sizeof v);
}

V16_OP v16 v16_set1(float x)
{
    v16 v;
    V16_EACH v.p[i_] = (v16_f4){x, x, x, x};
    return v;
}

V16_OP v16i v16i_set1(int32_t x)
{
    v16i v;
    V16_EACH v.p[i_] = (v16_i4){x, x, x, x};
    return v;
}

#define V16_BINARY(name, type, expression) \
    V16_OP type name(type a, type b)       \
    {                                      \
        V16_EACH a.p[i_] = (expression);   \
        return a;                          \
    }
V16_BINARY(v16_add, v16, a.p[i_] + b.p[i_])
V16_BINARY(v16_sub, v16, a.p[i_] - b.p[i_])
V16_BINARY(v16_mul, v16, a.p[i_] * b.p[i_])
V16_BINARY(v16_div, v16, a.p[i_] / b.p[i_])
V16_BINARY(v16i_add, v16i, (v16_i4)((v16_u4)a.p[i_] + (v16_u4)b.p[i_]))
V16_BINARY(v16i_sub, v16i, (v16_i4)((v16_u4)a.p[i_] - (v16_u4)b.p[i_]))
V16_BINARY(v16i_mul, v16i, (v16_i4)((v16_u4)a.p[i_] * (v16_u4)b.p[i_]))
V16_BINARY(v16i_and, v16i, a.p[i_] & b.p[i_])
V16_BINARY(v16i_or, v16i, a.p[i_] | b.p[i_])
V16_BINARY(v16i_xor, v16i, a.p[i_] ^ b.p[i_])

V16_OP v16 v16_fma(v16 a, v16 b, v16 c)
{
    v16 r;
    V16_EACH
    {
        v16_f4 x = a.p[i_], y = b.p[i_], z = c.p[i_];
        r.p[i_] = (v16_f4){__builtin_fmaf(x[0], y[0], z[0]), __builtin_fmaf(x[1], y[1], z[1]),
                           __builtin_fmaf(x[2], y[2], z[2]), __builtin_fmaf(x[3], y[3], z[3])};
    }
    return r;
}

V16_OP v16 v16_sqrt(v16 a)
{
    float lanes[16];
    v16_store(lanes, a);
    V16_LANES lanes[l_] = __builtin_sqrtf(lanes[l_]);
    return v16_load(lanes);
}

V16_OP v16i v16i_of_bits(v16 a)
{
    v16i v;
    memcpy(&v, &a, sizeof v);
    return v;
}

V16_OP v16 v16_of_bits(v16i a)
{
    v16 v;
    memcpy(&v, &a, sizeof v);
    return v;
}

/* A mask is all ones in the lanes where it holds. */
typedef v16i v16_mask;

V16_OP v16_mask v16_gt(v16 a, v16 b)
{
    v16_mask m;
    V16_EACH m.p[i_] = a.p[i_] > b.p[i_];
    return m;
}

V16_OP v16_mask v16i_gt(v16i a, v16i b)
{
    v16_mask m;
    V16_EACH m.p[i_] = a.p[i_] > b.p[i_];
    return m;
}

V16_OP v16 v16_select(v16_mask m, v16 a, v16 b)
{
    v16i x = v16i_of_bits(a), y = v16i_of_bits(b);
    V16_EACH x.p[i_] = (m.p[i_] & x.p[i_]) | (~m.p[i_] & y.p[i_]);
    return v16_of_bits(x);
}

V16_OP v16i v16i_select(v16_mask m, v16i a, v16i b)
{
    V16_EACH a.p[i_] = (m.p[i_] & a.p[i_]) | (~m.p[i_] & b.p[i_]);
    return a;
}

V16_OP bool v16_any(v16_mask m)
{
    v16_i4 o = m.p[0] | m.p[1] | m.p[2] | m.p[3];
    return (o[0] | o[1] | o[2] | o[3]) != 0;
}

V16_OP v16 v16_max(v16 a, v16 b)
{
    return v16_select(v16_gt(a, b), a, b);
}

V16_OP v16 v16_min(v16 a, v16 b)
{
    return v16_select(v16_gt(b, a), a, b);
}

V16_OP v16 v16_of_i(v16i a)
{
    float lanes[16];
    V16_LANES lanes[l_] = (float)V16_AT(a);
    return v16_load(lanes);
}

V16_OP v16i v16i_shl(v16i a, int n)
{
    V16_EACH a.p[i_] = (v16_i4)((v16_u4)a.p[i_] << (uint32_t)n);
    return a;
}

V16_OP v16i v16i_shr(v16i a, int n)
{
    V16_EACH a.p[i_] = (v16_i4)((v16_u4)a.p[i_] >> (uint32_t)n);
    return a;
}

V16_OP v16i v16i_sar(v16i a, int n)
{
    V16_EACH a.p[i_] = a.p[i_] >> n;
    return a;
}

V16_OP v16 v16_load_bf16(const uint16_t *p)
{
    uint32_t lanes[16];
    V16_LANES lanes[l_] = (uint32_t)p[l_] << 16;
    return v16_of_bits(v16i_load(lanes));
}

V16_OP v16 v16_load_f16(const uint16_t *p)
{
    float lanes[16];
    V16_LANES lanes[l_] = half_from_f16(p[l_]);
    return v16_load(lanes);
}

V16_OP v16 v16_load_i8(const int8_t *p)
{
    float lanes[16];
    V16_LANES lanes[l_] = (float)p[l_];
    return v16_load(lanes);
}

/* 16 groups of 4: v[j] takes element j of each. */
V16_OP void v16_load_by4(const float *p, v16 v[4])
{
    for (int j = 0; j < 4; j++) {
        float lanes[16];
        V16_LANES lanes[l_] = p[4 * l_ + j];
        v[j] = v16_load(lanes);
    }
}

/* The low byte, or the low half, of each lane. */
V16_OP void v16i_store_i8(int8_t *p, v16i v)
{
    V16_LANES p[l_] = (int8_t)V16_AT(v);
}

V16_OP void v16i_store_i16(uint16_t *p, v16i v)
{
    V16_LANES p[l_] = (uint16_t)V16_AT(v);
}

/* Bytes of a table of 16, which stands in every quarter; indices below 16. */
V16_OP v16i v16i_look_up(v16i table, v16i index)
{
    uint8_t from[64], at[64];
    memcpy(from, &table, sizeof from);
    memcpy(at, &index, sizeof at);
    for (int i = 0; i < 64; i++) at[i] = from[at[i]];
    return v16i_load(at);
}

V16_OP float v16_hsum(v16 v)
{
    v16_f4 s = (v.p[0] + v.p[2]) + (v.p[1] + v.p[3]);
    return (s[0] + s[2]) + (s[1] + s[3]);
}

V16_OP v16 v16_hsum16(const v16 *v)
{
    float lanes[16];
    V16_LANES lanes[l_] = v16_hsum(v[l_]);
    return v16_load(lanes);
}

V16_OP float v16_hmax(v16 v)
{
    float m = v.p[0][0];
    V16_LANES m = V16_AT(v) > m ? V16_AT(v) : m;
    return m;
}

V16_OP int32_t v16i_hsum(v16i v)
{
    v16_i4 s = v.p[0] + v.p[1] + v.p[2] + v.p[3]; /* of bytes: nowhere near an overflow */
    return s[0] + s[1] + s[2] + s[3];
}

/* Sums of products of 4 unsigned and 4 signed bytes a lane. */
#define V16_DOTS_ARE_WIDE 1
typedef v16i v16_dots;

V16_OP v16i v16i_dot4(v16i acc, v16i w, v16i x)
{
    const v16i low = v16i_set1(0xff);
    for (int j = 0; j < 4; j++) {
        v16i b = v16i_and(v16i_shr(w, 8 * j), low);
        v16i s = v16i_sar(v16i_shl(x, 24 - 8 * j), 24);
        acc = v16i_add(acc, v16i_mul(b, s));
    }
    return acc;
}

V16_OP v16_dots v16_dots_add(v16_dots d, v16i w, v16i x)
{
    return v16i_dot4(d, w, x);
}

#endif
