/* dequant: weights as the kernels keep them, and how a code becomes a bf16 value.
 *
 * LINEAR and EXPERTS weights are repacked at upload (cuda_weight.cu) into bricks of 16 outputs x
 * 64 K, the A operands of four k16 steps (mma.cuh). The bricks of 16 outputs follow one another
 * along K; N and K are padded with zero weights. A brick is
 *   bf16     4 fragments x 32 lanes x 16 bytes: a lane's a0..a3
 *   affine   128 b bytes of codes of b bits, in planes: main (4 bits wide for 4, 5, 6; 2 for 2, 3;
 *            8 for 8), then the rest of the code's high bits (6: 2, 5: 1, 3: 1). Of a plane W bits
 *            wide a lane owns W words (8: 4 words, and 4 in a second half of the plane); a word
 *            holds 16 / W register pairs, pair p its low code at bit W p and its high code at bit
 *            16 + W p. Pair 4 f + j is register a_j of fragment f.
 *            Then 64 bytes of scales and biases: row r and row r + 8, each (scale, bias) in bf16,
 *            r = 0..7; for groups of 32 once for each half of K. (A group of 128 stands in both
 *            its bricks: a brick is read in one piece.)
 *
 * Value = bf16(scale * code + bias), one rounding, in every kernel; scale and bias are rounded to
 * bf16 if they were not. The bf16 patterns 0..255 are the numbers 0..255 times 2^-133 (the
 * subnormals, and the first normals behind them at the same distance), so a code is masked out of
 * its word and multiplied as it stands by a scale that was made 2^133 times larger at upload, or
 * 2^(133 - a) for rows r + 8, whose codes stay at bit a = dequant_odd_at of their half. To keep
 * such scales finite, scales and biases of a weight are made 2^k times smaller, k = 0 for all but
 * odd weights (dev_weight.layout), and sums 2^k times larger in the end: all of it is exact.
 *
 * TABLE weights stay as in the file, with scales and biases in f32 (dequant_table). */
#ifndef RIPTIDE_BACKEND_CUDA_DEQUANT_CUH
#define RIPTIDE_BACKEND_CUDA_DEQUANT_CUH

#include "backend/cuda/cuda_pick_priv.h"
#include "backend/cuda/cuda_priv.h"

enum { DEQUANT_BF16 = 16, DEQUANT_SCALE_BYTES = 64 };

/* Bits of a code that stand in the main plane. */
__host__ __device__ constexpr int dequant_main_bits(int bits)
{
    return bits == 8 ? 8 : bits >= 4 ? 4 : 2;
}
/* The bit at which codes of rows r + 8 are left, so that one shift serves two pairs; 0 where a
 * code would reach beyond bit 7. */
__host__ __device__ constexpr int dequant_odd_at(int bits)
{
    return bits == 4 ? 4 : bits <= 3 ? 2 : 0;
}
enum {
    DEQUANT_CODE_EXPONENT = 133, /* bf16 pattern u < 256 is u * 2^-133 */
    DEQUANT_SCALE_EXPONENT = -5, /* scales stay below 2^-5: 2^133 times that is 2^128 */
};
/* Bytes of a brick's codes; bits is 2, 3, 4, 5, 6, 8, or 16 for bf16. */
__host__ __device__ constexpr int dequant_code_bytes(int bits)
{
    return 128 * bits;
}
/* Bytes of a brick. */
__host__ __device__ constexpr int dequant_brick_bytes(int bits, bool has_two_groups)
{
    int n_groups = bits == DEQUANT_BF16 ? 0 : has_two_groups ? 2 : 1;
    return dequant_code_bytes(bits) + n_groups * DEQUANT_SCALE_BYTES;
}

/* A lane's share of a brick's codes: the words of the main plane (of its first half for 8 bits),
 * then the rest. */
template <int BITS> struct lane_codes {
    static constexpr int MAIN = BITS == 8 ? 4 : dequant_main_bits(BITS), EXT = BITS - MAIN;
    uint32_t main[MAIN];
    uint32_t ext[EXT > 0 ? EXT : 1];
};

template <int WORDS> __device__ static inline void load_words(uint32_t *w, const uint8_t *p)
{
    if constexpr (WORDS == 4) {
        uint4 v = *reinterpret_cast<const uint4 *>(p);
        w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
    } else if constexpr (WORDS == 2) {
        uint2 v = *reinterpret_cast<const uint2 *>(p);
        w[0] = v.x, w[1] = v.y;
    } else {
        w[0] = *reinterpret_cast<const uint32_t *>(p);
    }
}

template <int BITS>
__device__ static inline lane_codes<BITS> dequant_load(const uint8_t *brick, int lane)
{
    constexpr int MAIN = lane_codes<BITS>::MAIN, EXT = lane_codes<BITS>::EXT;
    lane_codes<BITS> c;
    load_words<MAIN>(c.main, brick + lane * 4 * MAIN);
    if constexpr (EXT > 0) load_words<EXT>(c.ext, brick + 128 * MAIN + lane * 4 * EXT);
    return c;
}

/* Pair p of a plane W bits wide, its codes moved to bit AT of each half. */
template <int W, int AT> __device__ static inline uint32_t plane_pair(const uint32_t *w, int p)
{
    constexpr uint32_t MASK = (((1u << W) - 1) * 0x00010001u) << AT;
    uint32_t word = w[p / (16 / W)];
    int from = p % (16 / W) * W;
    return (from >= AT ? word >> (from - AT) : word << (AT - from)) & MASK;
}

__device__ static inline __nv_bfloat162 as_pair(uint32_t u)
{
    __nv_bfloat162 v;
    memcpy(&v, &u, 4);
    return v;
}
__device__ static inline uint32_t as_bits(__nv_bfloat162 v)
{
    uint32_t u;
    memcpy(&u, &v, 4);
    return u;
}

/* Register pair p (0..15) of a lane's brick: bf16(scale * code + bias), two at a time. */
template <int BITS>
__device__ static inline uint32_t dequant_pair(const lane_codes<BITS> &c, int p,
                                               __nv_bfloat162 scale, __nv_bfloat162 bias)
{
    constexpr int MAIN = dequant_main_bits(BITS), EXT = BITS - MAIN, ODD = dequant_odd_at(BITS);
    uint32_t u;
    if constexpr (BITS == 8) {
        u = plane_pair<8, 0>(p < 8 ? c.main : c.ext, p & 7);
    } else if (p & 1) {
        u = plane_pair<MAIN, ODD>(c.main, p);
        if constexpr (EXT > 0) u |= plane_pair<EXT, ODD + MAIN>(c.ext, p);
    } else {
        u = plane_pair<MAIN, 0>(c.main, p);
        if constexpr (EXT > 0) u |= plane_pair<EXT, MAIN>(c.ext, p);
    }
    return as_bits(__hfma2(as_pair(u), scale, bias));
}

/* The scales and biases of a lane's two rows, each twice in a register. */
struct lane_scales {
    __nv_bfloat162 scale[2], bias[2];
};
__device__ static inline lane_scales dequant_scales(uint2 v)
{
    return {{as_pair(__byte_perm(v.x, 0, 0x1010)), as_pair(__byte_perm(v.y, 0, 0x1010))},
            {as_pair(__byte_perm(v.x, 0, 0x3232)), as_pair(__byte_perm(v.y, 0, 0x3232))}};
}

/* ---- tables ------------------------------------------------------------------------------- */

/* A TABLE weight [V, K] as kernels take it, by value. */
typedef struct {
    const uint8_t *data;
    const float *scales, *biases; /* AFFINE: f32 [V, K / group] */
    int64_t K, row_bytes;
    dtype type;
    int bits, group;
} dequant_table;

static inline dequant_table dequant_table_of(const dev_weight *w)
{
    dequant_table t = {};
    t.data = buf_of<uint8_t>(w->data);
    t.scales = buf_of<float>(w->scales);
    t.biases = buf_of<float>(w->biases);
    t.K = w->K;
    t.type = w->type;
    t.bits = w->bits;
    t.group = w->group;
    t.row_bytes = w->type == DTYPE_AFFINE ? w->K / 32 * 4 * w->bits
                                          : w->K * (w->type == DTYPE_F32 ? 4 : 2);
    return t;
}

/* The code at element i of a row that starts on 4 bytes. */
__device__ static inline uint32_t dequant_code(const uint8_t *row, int64_t i, int bits)
{
    int64_t bit = i * bits;
    const uint8_t *p = row + (bit >> 3);
    int shift = static_cast<int>(bit & 7);
    uint32_t v = p[0];
    if (shift + bits > 8) v |= static_cast<uint32_t>(p[1]) << 8;
    return (v >> shift) & ((1u << bits) - 1);
}

/* Element i of row `row`, exactly as quant.h defines it. */
__device__ static inline float dequant_table_at(const dequant_table &t, int64_t row, int64_t i)
{
    const uint8_t *p = t.data + row * t.row_bytes;
    switch (t.type) {
    case DTYPE_F32: return reinterpret_cast<const float *>(p)[i];
    case DTYPE_BF16: return __bfloat162float(reinterpret_cast<const bf16 *>(p)[i]);
    case DTYPE_F16: return __half2float(reinterpret_cast<const __half *>(p)[i]);
    default: break;
    }
    int64_t g = row * (t.K / t.group) + i / t.group;
    float q = static_cast<float>(dequant_code(p, i, t.bits));
    return __fadd_rn(__fmul_rn(t.scales[g], q), t.biases[g]);
}

#endif
