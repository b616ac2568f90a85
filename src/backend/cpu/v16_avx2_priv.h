/* v16_avx2: 16 lanes as two AVX2 registers. Included by v16_priv.h. */
#ifndef RIPTIDE_BACKEND_CPU_V16_AVX2_PRIV_H
#define RIPTIDE_BACKEND_CPU_V16_AVX2_PRIV_H

#include <immintrin.h>

typedef struct {
    __m256 a, b; /* lanes 0 to 7, 8 to 15 */
} v16;
typedef struct {
    __m256i a, b;
} v16i;

V16_FN v16 v16_load(const float *p)
{
    return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

V16_FN void v16_store(float *p, v16 v)
{
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
}

/* 4 values, 4 times; and lanes 4 q .. 4 q + 3. */
V16_FN v16 v16_load_4times(const float *p)
{
    __m256 x = _mm256_broadcast_ps((const __m128 *)(const void *)p);
    return (v16){x, x};
}

V16_FN void v16_store_quarter(float *p, v16 v, int q)
{
    __m256 half = q < 2 ? v.a : v.b;
    _mm_storeu_ps(p, q % 2 ? _mm256_extractf128_ps(half, 1) : _mm256_castps256_ps128(half));
}

V16_FN v16i v16i_load(const void *p)
{
    const __m256i *q = p;
    return (v16i){_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}

V16_FN void v16i_store(void *p, v16i v)
{
    __m256i *q = p;
    _mm256_storeu_si256(q, v.a);
    _mm256_storeu_si256(q + 1, v.b);
}

V16_FN v16 v16_set1(float x)
{
    __m256 v = _mm256_set1_ps(x);
    return (v16){v, v};
}

V16_FN v16i v16i_set1(int32_t x)
{
    __m256i v = _mm256_set1_epi32(x);
    return (v16i){v, v};
}

#define V16_BINARY(name, type, op)                 \
    V16_FN type name(type x, type y)               \
    {                                              \
        return (type){op(x.a, y.a), op(x.b, y.b)}; \
    }
V16_BINARY(v16_add, v16, _mm256_add_ps)
V16_BINARY(v16_sub, v16, _mm256_sub_ps)
V16_BINARY(v16_mul, v16, _mm256_mul_ps)
V16_BINARY(v16_div, v16, _mm256_div_ps)
V16_BINARY(v16_max, v16, _mm256_max_ps)
V16_BINARY(v16_min, v16, _mm256_min_ps)
V16_BINARY(v16i_add, v16i, _mm256_add_epi32)
V16_BINARY(v16i_sub, v16i, _mm256_sub_epi32)
V16_BINARY(v16i_mul, v16i, _mm256_mullo_epi32)
V16_BINARY(v16i_and, v16i, _mm256_and_si256)
V16_BINARY(v16i_or, v16i, _mm256_or_si256)
V16_BINARY(v16i_xor, v16i, _mm256_xor_si256)

V16_FN v16 v16_fma(v16 x, v16 y, v16 z)
{
    return (v16){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}

V16_FN v16 v16_sqrt(v16 x)
{
    return (v16){_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)};
}

V16_FN v16i v16i_of_bits(v16 x)
{
    return (v16i){_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)};
}

V16_FN v16 v16_of_bits(v16i x)
{
    return (v16){_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)};
}

/* A mask is all ones in the lanes where it holds. */
typedef v16i v16_mask;

V16_FN v16_mask v16_gt(v16 x, v16 y)
{
    v16 m = {_mm256_cmp_ps(x.a, y.a, _CMP_GT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_GT_OQ)};
    return v16i_of_bits(m);
}

V16_FN v16_mask v16i_gt(v16i x, v16i y)
{
    return (v16i){_mm256_cmpgt_epi32(x.a, y.a), _mm256_cmpgt_epi32(x.b, y.b)};
}

V16_FN v16i v16i_select(v16_mask m, v16i x, v16i y)
{
    return (v16i){_mm256_blendv_epi8(y.a, x.a, m.a), _mm256_blendv_epi8(y.b, x.b, m.b)};
}

V16_FN v16 v16_select(v16_mask m, v16 x, v16 y)
{
    return v16_of_bits(v16i_select(m, v16i_of_bits(x), v16i_of_bits(y)));
}

V16_FN bool v16_any(v16_mask m)
{
    return !_mm256_testz_si256(_mm256_or_si256(m.a, m.b), _mm256_set1_epi32(-1));
}

V16_FN v16 v16_of_i(v16i x)
{
    return (v16){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}

V16_FN v16i v16i_shl(v16i x, int n)
{
    return (v16i){_mm256_slli_epi32(x.a, n), _mm256_slli_epi32(x.b, n)};
}

V16_FN v16i v16i_shr(v16i x, int n)
{
    return (v16i){_mm256_srli_epi32(x.a, n), _mm256_srli_epi32(x.b, n)};
}

V16_FN v16i v16i_sar(v16i x, int n)
{
    return (v16i){_mm256_srai_epi32(x.a, n), _mm256_srai_epi32(x.b, n)};
}

V16_FN v16 v16_load_bf16(const uint16_t *p)
{
    const __m128i *q = (const __m128i *)(const void *)p;
    v16i v = {_mm256_cvtepu16_epi32(_mm_loadu_si128(q)),
              _mm256_cvtepu16_epi32(_mm_loadu_si128(q + 1))};
    return v16_of_bits(v16i_shl(v, 16));
}

V16_FN v16 v16_load_f16(const uint16_t *p)
{
    const __m128i *q = (const __m128i *)(const void *)p;
    return (v16){_mm256_cvtph_ps(_mm_loadu_si128(q)), _mm256_cvtph_ps(_mm_loadu_si128(q + 1))};
}

V16_FN v16 v16_load_i8(const int8_t *p)
{
    __m128i q = _mm_loadu_si128((const __m128i *)(const void *)p);
    v16i v = {_mm256_cvtepi8_epi32(q), _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(q, q))};
    return v16_of_i(v);
}

/* 8 groups of 4. */
V16_FN void v16_load_8by4(const float *p, __m256 v[4])
{
    __m256 r[4], t[4];
    for (int i = 0; i < 4; i++) /* groups i and i + 4 */
        r[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p + 4 * i)),
                                    _mm_loadu_ps(p + 4 * i + 16), 1);
    t[0] = _mm256_unpacklo_ps(r[0], r[1]);
    t[1] = _mm256_unpackhi_ps(r[0], r[1]);
    t[2] = _mm256_unpacklo_ps(r[2], r[3]);
    t[3] = _mm256_unpackhi_ps(r[2], r[3]);
    v[0] = _mm256_shuffle_ps(t[0], t[2], 0x44);
    v[1] = _mm256_shuffle_ps(t[0], t[2], 0xee);
    v[2] = _mm256_shuffle_ps(t[1], t[3], 0x44);
    v[3] = _mm256_shuffle_ps(t[1], t[3], 0xee);
}

/* 16 groups of 4: v[j] takes element j of each. */
V16_FN void v16_load_by4(const float *p, v16 v[4])
{
    __m256 a[4], b[4];
    v16_load_8by4(p, a);
    v16_load_8by4(p + 32, b);
    for (int j = 0; j < 4; j++) v[j] = (v16){a[j], b[j]};
}

/* The low half of each lane as 16 halves in order. */
V16_FN __m256i v16i_halves(v16i v)
{
    v = v16i_sar(v16i_shl(v, 16), 16); /* so that the pack below does not saturate */
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(v.a, v.b), 0xd8);
}

/* The low byte, or the low half, of each lane. */
V16_FN void v16i_store_i8(int8_t *p, v16i v)
{
    __m256i h = v16i_halves(v16i_sar(v16i_shl(v, 24), 24));
    __m128i q = _mm_packs_epi16(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
    _mm_storeu_si128((__m128i *)(void *)p, q);
}

V16_FN void v16i_store_i16(uint16_t *p, v16i v)
{
    _mm256_storeu_si256((__m256i *)(void *)p, v16i_halves(v));
}

/* Bytes of a table of 16, which stands in every quarter; indices below 16. */
V16_FN v16i v16i_look_up(v16i table, v16i index)
{
    return (v16i){_mm256_shuffle_epi8(table.a, index.a), _mm256_shuffle_epi8(table.b, index.b)};
}

V16_FN float v16_hsum8(__m256 x)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}

V16_FN float v16_hsum(v16 v)
{
    return v16_hsum8(_mm256_add_ps(v.a, v.b));
}

/* Sums of 8 vectors, each already folded to 8 lanes, in the order of v16_hsum. */
V16_FN __m256 v16_hsum_8of8(const __m256 *f)
{
    __m256 q[4], h[2];
    for (int i = 0; i < 4; i++) /* [f_i | f_i+4], 4 lanes each */
        q[i] = _mm256_add_ps(_mm256_permute2f128_ps(f[i], f[i + 4], 0x20),
                             _mm256_permute2f128_ps(f[i], f[i + 4], 0x31));
    for (int i = 0; i < 2; i++)
        h[i] = _mm256_add_ps(_mm256_shuffle_ps(q[i], q[i + 2], 0x44),
                             _mm256_shuffle_ps(q[i], q[i + 2], 0xee));
    /* h[i]: lanes (i, i, i+2, i+2 | the same + 4); two shuffles bring 0, 2, 1, 3: reorder */
    __m256 s = _mm256_add_ps(_mm256_shuffle_ps(h[0], h[1], 0x88),
                             _mm256_shuffle_ps(h[0], h[1], 0xdd));
    return _mm256_shuffle_ps(s, s, 0xd8);
}

V16_FN v16 v16_hsum16(const v16 *v)
{
    __m256 f[16];
    for (int i = 0; i < 16; i++) f[i] = _mm256_add_ps(v[i].a, v[i].b);
    return (v16){v16_hsum_8of8(f), v16_hsum_8of8(f + 8)};
}

V16_FN float v16_hmax(v16 v)
{
    __m256 x = _mm256_max_ps(v.a, v.b);
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}

V16_FN int32_t v16i_hsum(v16i v)
{
    __m256i x = _mm256_add_epi32(v.a, v.b);
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    s = _mm_add_epi32(s, _mm_unpackhi_epi64(s, s));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 1)));
}

V16_FN __m256i v16_dot4_wide(__m256i acc, __m256i w, __m256i x)
{
    __m256i w_even = _mm256_and_si256(w, _mm256_set1_epi16(0xff)), w_odd = _mm256_srli_epi16(w, 8);
    __m256i x_even = _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8), x_odd = _mm256_srai_epi16(x, 8);
    acc = _mm256_add_epi32(acc, _mm256_madd_epi16(w_even, x_even));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(w_odd, x_odd));
}

/* acc + products of 4 unsigned and 4 signed bytes a lane, for any bytes. */
V16_FN v16i v16i_dot4(v16i acc, v16i w, v16i x)
{
    return (v16i){v16_dot4_wide(acc.a, w.a, x.a), v16_dot4_wide(acc.b, w.b, x.b)};
}

/* Running sums for bytes w <= 15 in 16-bit halves: 8 additions of two products of at most
 * 15 * 127 stay below 2^15. */
#define V16_DOTS_ARE_WIDE 0
typedef v16i v16_dots;

V16_FN v16_dots v16_dots_zero(void)
{
    return v16i_set1(0);
}

V16_FN v16_dots v16_dots_add(v16_dots d, v16i w, v16i x)
{
    return (v16i){_mm256_add_epi16(d.a, _mm256_maddubs_epi16(w.a, x.a)),
                  _mm256_add_epi16(d.b, _mm256_maddubs_epi16(w.b, x.b))};
}

V16_FN v16i v16_dots_sum(v16_dots d)
{
    const __m256i one = _mm256_set1_epi16(1);
    return (v16i){_mm256_madd_epi16(d.a, one), _mm256_madd_epi16(d.b, one)};
}

#endif
