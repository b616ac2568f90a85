/* v16_avx512: 16 lanes as one AVX-512 register. Included by v16_priv.h. */
#ifndef RIPTIDE_BACKEND_CPU_V16_AVX512_PRIV_H
#define RIPTIDE_BACKEND_CPU_V16_AVX512_PRIV_H

#include <immintrin.h>

typedef __m512 v16;
typedef __m512i v16i;
typedef __mmask16 v16_mask;

V16_FN v16 v16_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

V16_FN void v16_store(float *p, v16 v)
{
    _mm512_storeu_ps(p, v);
}

/* 4 values, 4 times; and lanes 4 q .. 4 q + 3. */
V16_FN v16 v16_load_4times(const float *p)
{
    return _mm512_broadcast_f32x4(_mm_loadu_ps(p));
}

V16_FN void v16_store_quarter(float *p, v16 v, int q)
{
    __m256 half = q < 2 ? _mm512_castps512_ps256(v) : _mm512_extractf32x8_ps(v, 1);
    _mm_storeu_ps(p, q % 2 ? _mm256_extractf128_ps(half, 1) : _mm256_castps256_ps128(half));
}

V16_FN v16i v16i_load(const void *p)
{
    return _mm512_loadu_si512(p);
}

V16_FN void v16i_store(void *p, v16i v)
{
    _mm512_storeu_si512(p, v);
}

V16_FN v16 v16_set1(float x)
{
    return _mm512_set1_ps(x);
}

V16_FN v16i v16i_set1(int32_t x)
{
    return _mm512_set1_epi32(x);
}

#define V16_BINARY(name, type, op)   \
    V16_FN type name(type x, type y) \
    {                                \
        return op(x, y);             \
    }
V16_BINARY(v16_add, v16, _mm512_add_ps)
V16_BINARY(v16_sub, v16, _mm512_sub_ps)
V16_BINARY(v16_mul, v16, _mm512_mul_ps)
V16_BINARY(v16_div, v16, _mm512_div_ps)
V16_BINARY(v16_max, v16, _mm512_max_ps)
V16_BINARY(v16_min, v16, _mm512_min_ps)
V16_BINARY(v16i_add, v16i, _mm512_add_epi32)
V16_BINARY(v16i_sub, v16i, _mm512_sub_epi32)
V16_BINARY(v16i_mul, v16i, _mm512_mullo_epi32)
V16_BINARY(v16i_and, v16i, _mm512_and_si512)
V16_BINARY(v16i_or, v16i, _mm512_or_si512)
V16_BINARY(v16i_xor, v16i, _mm512_xor_si512)

V16_FN v16 v16_fma(v16 x, v16 y, v16 z)
{
    return _mm512_fmadd_ps(x, y, z);
}

V16_FN v16 v16_sqrt(v16 x)
{
    return _mm512_sqrt_ps(x);
}

V16_FN v16i v16i_of_bits(v16 x)
{
    return _mm512_castps_si512(x);
}

V16_FN v16 v16_of_bits(v16i x)
{
    return _mm512_castsi512_ps(x);
}

V16_FN v16_mask v16_gt(v16 x, v16 y)
{
    return _mm512_cmp_ps_mask(x, y, _CMP_GT_OQ);
}

V16_FN v16_mask v16i_gt(v16i x, v16i y)
{
    return _mm512_cmpgt_epi32_mask(x, y);
}

V16_FN v16 v16_select(v16_mask m, v16 x, v16 y)
{
    return _mm512_mask_blend_ps(m, y, x);
}

V16_FN v16i v16i_select(v16_mask m, v16i x, v16i y)
{
    return _mm512_mask_blend_epi32(m, y, x);
}

V16_FN bool v16_any(v16_mask m)
{
    return m != 0;
}

V16_FN v16 v16_of_i(v16i x)
{
    return _mm512_cvtepi32_ps(x);
}

V16_FN v16i v16i_shl(v16i x, int n)
{
    return _mm512_slli_epi32(x, (unsigned)n);
}

V16_FN v16i v16i_shr(v16i x, int n)
{
    return _mm512_srli_epi32(x, (unsigned)n);
}

V16_FN v16i v16i_sar(v16i x, int n)
{
    return _mm512_srai_epi32(x, (unsigned)n);
}

V16_FN v16 v16_load_bf16(const uint16_t *p)
{
    __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return v16_of_bits(v16i_shl(_mm512_cvtepu16_epi32(h), 16));
}

V16_FN v16 v16_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

V16_FN v16 v16_load_i8(const int8_t *p)
{
    return v16_of_i(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}

/* 16 groups of 4: v[j] takes element j of each. */
V16_FN void v16_load_by4(const float *p, v16 v[4])
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    v16 r[4], t[4];
    for (int i = 0; i < 4; i++)
        r[i] = v16_load(p + 16 * i); /* groups 4 i .. in blocks of 128 bits */
    t[0] = _mm512_unpacklo_ps(r[0], r[1]);
    t[1] = _mm512_unpackhi_ps(r[0], r[1]);
    t[2] = _mm512_unpacklo_ps(r[2], r[3]);
    t[3] = _mm512_unpackhi_ps(r[2], r[3]);
    v[0] = _mm512_shuffle_ps(t[0], t[2], 0x44);
    v[1] = _mm512_shuffle_ps(t[0], t[2], 0xee);
    v[2] = _mm512_shuffle_ps(t[1], t[3], 0x44);
    v[3] = _mm512_shuffle_ps(t[1], t[3], 0xee);
    /* block b holds groups b, b + 4, b + 8, b + 12 */
    for (int j = 0; j < 4; j++) v[j] = _mm512_permutexvar_ps(order, v[j]);
}

/* The low byte, or the low half, of each lane. */
V16_FN void v16i_store_i8(int8_t *p, v16i v)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8(v));
}

V16_FN void v16i_store_i16(uint16_t *p, v16i v)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(v));
}

/* Bytes of a table of 16, which stands in every quarter; indices below 16. */
V16_FN v16i v16i_look_up(v16i table, v16i index)
{
    return _mm512_shuffle_epi8(table, index);
}

V16_FN __m256 v16_high(v16 v)
{
    return _mm512_extractf32x8_ps(v, 1);
}

V16_FN float v16_hsum(v16 v)
{
    __m256 x = _mm256_add_ps(_mm512_castps512_ps256(v), v16_high(v));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}

/* Halve the width and pair two vectors at each step; the order of each sum is v16_hsum's. The
 * pairs (i, i + 8), (i, i + 4) land in blocks of 128 bits, the pairs (i, i + 2), (i, i + 1)
 * inside them; the inputs are paired so that vector i ends in lane i. */
V16_FN v16 v16_hsum16(const v16 *v)
{
    v16 a[8], b[4], c[2];
    for (int i = 0; i < 8; i++) {
        v16 x = v[i / 4 * 8 + i % 4], y = v[i / 4 * 8 + 4 + i % 4];
        a[i] = v16_add(_mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xee));
    }
    for (int i = 0; i < 4; i++) {
        v16 x = a[i], y = a[i + 4];
        b[i] = v16_add(_mm512_shuffle_f32x4(x, y, 0x88), _mm512_shuffle_f32x4(x, y, 0xdd));
    }
    for (int i = 0; i < 2; i++) {
        v16 x = b[i], y = b[i + 2];
        c[i] = v16_add(_mm512_shuffle_ps(x, y, 0x44), _mm512_shuffle_ps(x, y, 0xee));
    }
    v16 s = v16_add(_mm512_shuffle_ps(c[0], c[1], 0x88), _mm512_shuffle_ps(c[0], c[1], 0xdd));
    return _mm512_shuffle_ps(s, s, 0xd8);
}

V16_FN float v16_hmax(v16 v)
{
    __m256 x = _mm256_max_ps(_mm512_castps512_ps256(v), v16_high(v));
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}

V16_FN int32_t v16i_hsum(v16i v)
{
    return _mm512_reduce_add_epi32(v);
}

typedef v16i v16_dots;

#ifdef __AVX512VNNI__
#define V16_DOTS_ARE_WIDE 1

/* acc + products of 4 unsigned and 4 signed bytes a lane. */
V16_FN v16i v16i_dot4(v16i acc, v16i w, v16i x)
{
    return _mm512_dpbusd_epi32(acc, w, x);
}

V16_FN v16_dots v16_dots_add(v16_dots d, v16i w, v16i x)
{
    return _mm512_dpbusd_epi32(d, w, x);
}

#else
#define V16_DOTS_ARE_WIDE 0

V16_FN v16_dots v16_dots_zero(void)
{
    return _mm512_setzero_si512();
}

V16_FN v16i v16i_dot4(v16i acc, v16i w, v16i x)
{
    v16i w_even = _mm512_and_si512(w, _mm512_set1_epi16(0xff)), w_odd = _mm512_srli_epi16(w, 8);
    v16i x_even = _mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8), x_odd = _mm512_srai_epi16(x, 8);
    acc = v16i_add(acc, _mm512_madd_epi16(w_even, x_even));
    return v16i_add(acc, _mm512_madd_epi16(w_odd, x_odd));
}

/* Bytes w <= 15: see v16_avx2_priv.h. */
V16_FN v16_dots v16_dots_add(v16_dots d, v16i w, v16i x)
{
    return _mm512_add_epi16(d, _mm512_maddubs_epi16(w, x));
}

V16_FN v16i v16_dots_sum(v16_dots d)
{
    return _mm512_madd_epi16(d, _mm512_set1_epi16(1));
}

#endif

#endif
