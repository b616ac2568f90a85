#include <stdlib.h>

#include "support/guard.h"
#include "support/test.h"
#include "tensor/block.h"
#include "tensor/block_encode.h"

/* Largest relative error (norm of the difference over norm) on normal values. The best possible
 * uniform quantiser of 2^b levels has about 0.117 at 4 bits; what is asked leaves room for scales
 * in small numbers, and for any seed. */
static const struct {
    dtype type;
    double bound;
} rows[] = {
    {DTYPE_F32, 0},     {DTYPE_F16, 4e-4},    {DTYPE_BF16, 3e-3},   {DTYPE_Q4_0, 0.18},
    {DTYPE_Q4_1, 0.17}, {DTYPE_Q5_0, 0.1},    {DTYPE_Q5_1, 0.09},   {DTYPE_Q8_0, 0.015},
    {DTYPE_Q2_K, 0.6},  {DTYPE_Q3_K, 0.4},    {DTYPE_Q4_K, 0.18},   {DTYPE_Q5_K, 0.1},
    {DTYPE_Q6_K, 0.06}, {DTYPE_IQ4_NL, 0.17}, {DTYPE_IQ4_XS, 0.18}, {DTYPE_MXFP4, 0.24},
    {DTYPE_NVFP4, 0.2},
};
enum { N_ROWS = sizeof rows / sizeof *rows, K = 512 };

static void decode(dtype t, const void *bytes, float *out)
{
    for (int i = 0; i < K && !dtype_is_block(t); i++) {
        uint16_t h = 0;
        uint32_t u;
        memcpy(&h, (const uint8_t *)bytes + 2 * i, 2);
        if (t == DTYPE_F32) memcpy(&out[i], (const uint8_t *)bytes + 4 * i, 4);
        if (t == DTYPE_F16) { /* by the definition, for normal numbers */
            double v = (h & 0x7c00) ? ldexp(1024 + (h & 1023), (h >> 10 & 31) - 25)
                                    : ldexp(h & 1023, -24);
            out[i] = (float)(h & 0x8000 ? -v : v);
        }
        u = (uint32_t)h << 16;
        if (t == DTYPE_BF16) memcpy(&out[i], &u, 4);
    }
    if (dtype_is_block(t)) block_decode_row(t, bytes, K, out);
}

static double error_of(dtype t, const float *x, uint8_t *bytes)
{
    float back[K];
    double diff = 0, norm = 1e-30;
    size_t n = (size_t)block_row_bytes(t, K);
    uint8_t *guarded = guard_copy(bytes, n);
    block_encode_row(t, x, K, guarded);
    memcpy(bytes, guarded, n);
    guard_free(guarded, n);
    decode(t, bytes, back);
    for (int i = 0; i < K; i++) {
        double d = (double)back[i] - (double)x[i];
        diff += d * d;
        norm += (double)x[i] * (double)x[i];
    }
    return sqrt(diff / norm);
}

TEST(normal_values_come_back_within_the_error_of_their_bits)
{
    uint64_t seed = test_seed();
    float x[K];
    uint8_t bytes[K * 4];
    for (int r = 0; r < N_ROWS; r++) {
        assert_true(block_can_encode(rows[r].type));
        for (int round = 0; round < 20; round++) {
            for (int i = 0; i < K; i++) x[i] = 0.02f * (float)test_normal(&seed);
            double got = error_of(rows[r].type, x, bytes);
            if (!(got <= rows[r].bound))
                fail_msg("%s: %g, at most %g", dtype_name(rows[r].type), got, rows[r].bound);
        }
    }
}

TEST(zeros_constants_and_lone_values_come_back)
{
    float x[K] = {0};
    uint8_t bytes[K * 4];
    for (int r = 0; r < N_ROWS; r++) {
        memset(x, 0, sizeof x);
        assert_true(error_of(rows[r].type, x, bytes) < 1e-3);
        for (int i = 0; i < K; i++) x[i] = -0.75f;
        if (!(error_of(rows[r].type, x, bytes) < 0.1)) fail_msg("%s", dtype_name(rows[r].type));
        memset(x, 0, sizeof x);
        x[37] = 3;
        if (!(error_of(rows[r].type, x, bytes) < 0.1)) fail_msg("%s", dtype_name(rows[r].type));
    }
}

/* What decodes from codes is hit again: a second pass changes little or nothing. */
TEST(values_that_a_type_can_hold_stay)
{
    uint64_t seed = test_seed();
    float x[K], y[K];
    uint8_t first[K * 4], second[K * 4];
    static const dtype types[] = {DTYPE_Q8_0, DTYPE_BF16, DTYPE_F16, DTYPE_F32};
    for (int r = 0; r < 4; r++) {
        for (int i = 0; i < K; i++) x[i] = (float)test_normal(&seed);
        error_of(types[r], x, first);
        decode(types[r], first, y);
        assert_true(error_of(types[r], y, second) < 3e-4);
    }
}

TEST(codebook_types_are_only_read)
{
    static const dtype types[] = {DTYPE_IQ1_S, DTYPE_IQ1_M,   DTYPE_IQ2_XXS, DTYPE_IQ2_XS,
                                  DTYPE_IQ2_S, DTYPE_IQ3_XXS, DTYPE_IQ3_S,   DTYPE_AFFINE,
                                  DTYPE_NONE,  DTYPE_I8,      DTYPE_COUNT};
    for (int i = 0; i < 11; i++) assert_false(block_can_encode(types[i]));
}
