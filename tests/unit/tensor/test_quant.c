#include <stdlib.h>

#include "fixture_affine.h"
#include "support/guard.h"
#include "support/test.h"
#include "tensor/half.h"
#include "tensor/quant.h"

static const int all_bits[] = {2, 3, 4, 5, 6, 8}, all_groups[] = {32, 64, 128};
#define EACH_FORMAT(bits, group)                            \
    for (int b_ = 0; b_ < 6; b_++)                          \
        for (int g_ = 0, bits = all_bits[b_]; g_ < 3; g_++) \
            for (int group = all_groups[g_], once_ = 1; once_; once_ = 0)

TEST(only_the_formats_of_mlx_are_valid)
{
    for (int bits = -1; bits < 40; bits++)
        for (int group = 0; group < 300; group++) {
            bool has_bits = (bits >= 2 && bits <= 6) || bits == 8;
            bool has_group = group == 32 || group == 64 || group == 128;
            assert_int_equal(quant_affine_is_valid(bits, group), has_bits && has_group);
        }
}

/* Bit b of the little-endian bit string of a row. */
static unsigned bit_at(const uint8_t *row, int64_t b)
{
    return row[b / 8] >> (b % 8) & 1;
}

static unsigned slow_code(const uint8_t *row, int64_t i, int bits)
{
    unsigned v = 0;
    for (int b = 0; b < bits; b++) v |= bit_at(row, i * bits + b) << b;
    return v;
}

/* Model-spec 4.2 says it once more for widths that never straddle: word i div (32/bits), bit
 * (i mod (32/bits)) * bits. */
static unsigned word_code(const uint8_t *row, int64_t i, int bits)
{
    uint32_t word;
    memcpy(&word, row + i / (32 / bits) * 4, 4);
    return word >> (i % (32 / bits) * bits) & ((1u << bits) - 1);
}

TEST(a_code_is_its_bits_of_the_little_endian_string)
{
    uint64_t seed = test_seed();
    for (int b = 0; b < 6; b++) {
        int bits = all_bits[b];
        int64_t k = 256, n_bytes = quant_affine_row_bytes(k, bits);
        assert_int_equal(n_bytes, k * bits / 8);
        uint8_t bytes[256];
        for (int i = 0; i < 256; i++) bytes[i] = (uint8_t)test_random(&seed);
        uint8_t *row = guard_copy(bytes, (size_t)n_bytes);
        for (int64_t i = 0; i < k; i++) {
            assert_int_equal(quant_affine_code(row, i, bits), slow_code(row, i, bits));
            if (32 % bits == 0) assert_int_equal(slow_code(row, i, bits), word_code(row, i, bits));
        }
        guard_free(row, (size_t)n_bytes);
    }
}

static float scale_at(const void *p, int64_t i, dtype type)
{
    float f;
    uint16_t h;
    if (type == DTYPE_F32) {
        memcpy(&f, (const char *)p + 4 * i, 4);
        return f;
    }
    memcpy(&h, (const char *)p + 2 * i, 2);
    return type == DTYPE_F16 ? half_from_f16(h) : half_from_bf16(h);
}

TEST(decode_is_scale_times_code_plus_bias_for_every_format_and_scale_type)
{
    uint64_t seed = test_seed();
    static const dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    EACH_FORMAT(bits, group)
    for (int t = 0; t < 3; t++) {
        int64_t k = 384, n_groups = k / group, n_bytes = quant_affine_row_bytes(k, bits);
        size_t n_scale = (size_t)n_groups * (types[t] == DTYPE_F32 ? 4 : 2);
        uint8_t bytes[384], values[2][48];
        for (int i = 0; i < 384; i++) bytes[i] = (uint8_t)test_random(&seed);
        for (int s = 0; s < 2; s++)
            for (int i = 0; i < n_groups; i++) {
                float f = (float)test_normal(&seed);
                uint16_t h = types[t] == DTYPE_F16 ? half_to_f16(f) : half_to_bf16(f);
                if (types[t] == DTYPE_F32)
                    memcpy(values[s] + 4 * i, &f, 4);
                else
                    memcpy(values[s] + 2 * i, &h, 2);
            }
        uint8_t *row = guard_copy(bytes, (size_t)n_bytes);
        uint8_t *scales = guard_copy(values[0], n_scale), *biases = guard_copy(values[1], n_scale);
        float out[384];
        quant_affine_decode_row(row, scales, biases, types[t], bits, group, k, out);
        for (int64_t i = 0; i < k; i++) {
            volatile float product = scale_at(scales, i / group, types[t]) *
                                     (float)slow_code(row, i, bits);
            volatile float want = product + scale_at(biases, i / group, types[t]);
            assert_memory_equal(&out[i], (const void *)&want, 4);
        }
        guard_free(row, (size_t)n_bytes);
        guard_free(scales, n_scale);
        guard_free(biases, n_scale);
    }
}

TEST(encode_then_decode_is_within_half_a_step)
{
    uint64_t seed = test_seed();
    EACH_FORMAT(bits, group)
    for (int round = 0; round < 20; round++) {
        float in[256], out[256];
        uint8_t row[256];
        uint16_t scales[8], biases[8];
        double size = exp(4 * test_normal(&seed)), shift = 2 * test_normal(&seed);
        for (int i = 0; i < 256; i++) in[i] = (float)(size * (test_normal(&seed) + shift));
        quant_affine_encode_row(in, 256, bits, group, row, scales, biases);
        quant_affine_decode_row(row, scales, biases, DTYPE_BF16, bits, group, 256, out);
        int top = (1 << bits) - 1;
        for (int i = 0; i < 256; i++) {
            /* Scale and bias are bf16: the bias may be off by 2^-9 of itself, the far end of the
             * range by 2^-9 of it more; moving the scale so that zero is a code costs up to one
             * step at the far end. */
            double scale = fabs(half_from_bf16(scales[i / group]));
            double edge = fabs(half_from_bf16(biases[i / group]));
            double far = quant_affine_code(row, i, bits) == (uint32_t)top ? 1.01 : 0.51;
            assert_true(fabs((double)out[i] - in[i]) <= far * scale + (edge + top * scale) / 256);
        }
    }
}

TEST(the_edge_of_larger_magnitude_is_code_0_and_zero_is_exact)
{
    float in[32], out[32];
    uint8_t row[32];
    uint16_t scale, bias;
    for (int b = 0; b < 6; b++) {
        int bits = all_bits[b];
        for (int sign = -1; sign <= 1; sign += 2) {
            for (int i = 0; i < 32; i++) in[i] = (float)sign * (float)(i - 8) / 4;
            in[8] = 0;
            quant_affine_encode_row(in, 32, bits, 32, row, &scale, &bias);
            quant_affine_decode_row(row, &scale, &bias, DTYPE_BF16, bits, 32, 32, out);
            assert_true(half_from_bf16(bias) == in[31] && out[31] == in[31]);
            assert_int_equal(quant_affine_code(row, 31, bits), 0);
            if (bits >= 3) assert_true(fabsf(out[8]) <= 0.01f * fabsf(in[31]));
        }
    }
}

/* The rows of inputs() in tools/make_fixture_affine.py. */
static void fixture_inputs(float x[FIXTURE_ROWS][FIXTURE_COLS])
{
    uint32_t state = 12345;
    for (int r = 0; r < FIXTURE_ROWS; r++)
        for (int c = 0; c < FIXTURE_COLS; c++) {
            state = state * 1664525u + 1013904223u;
            x[r][c] = (float)(state >> 8) / 16777216.0f;
        }
    for (int r = 0; r < FIXTURE_ROWS; r++)
        for (int c = 0; c < FIXTURE_COLS; c++) {
            float scale = ldexpf(1, r - 8);
            x[r][c] = (x[r][c] - 0.5f) * scale + scale * 0.375f;
            if (r == 3) x[r][c] = fabsf(x[r][c]);
            if (r == 4) x[r][c] = -fabsf(x[r][c]);
            if (r == 5) x[r][c] = 0;
            if (r == 6) x[r][c] = 0.75f;
            if (r == 7 && c % 2 == 0) x[r][c] = 0;
        }
}

static uint64_t fnv(uint64_t h, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    return h;
}

/* Expected: an implementation of MLX's rule in numpy that shares no code with quant.c. */
TEST(encode_makes_the_same_bits_as_numpy)
{
    static float x[FIXTURE_ROWS][FIXTURE_COLS];
    fixture_inputs(x);
    for (size_t f = 0; f < sizeof fixture_affine / sizeof fixture_affine[0]; f++) {
        int bits = fixture_affine[f].bits, group = fixture_affine[f].group;
        uint64_t h[3] = {0xcbf29ce484222325u, 0xcbf29ce484222325u, 0xcbf29ce484222325u};
        for (int r = 0; r < FIXTURE_ROWS; r++) {
            uint8_t row[FIXTURE_COLS];
            uint16_t scales[8], biases[8];
            quant_affine_encode_row(x[r], FIXTURE_COLS, bits, group, row, scales, biases);
            h[0] = fnv(h[0], row, (size_t)quant_affine_row_bytes(FIXTURE_COLS, bits));
            h[1] = fnv(h[1], scales, (size_t)(FIXTURE_COLS / group) * 2);
            h[2] = fnv(h[2], biases, (size_t)(FIXTURE_COLS / group) * 2);
        }
        for (int i = 0; i < 3; i++)
            if (h[i] != fixture_affine[f].digest[i])
                fail_msg("%d bits, groups of %d: digest %d differs", bits, group, i);
    }
}

TEST(encode_takes_any_floats_without_a_trap)
{
    float in[32];
    uint8_t row[32];
    uint16_t scale, bias;
    for (int bad = 0; bad < 4; bad++) {
        for (int i = 0; i < 32; i++) in[i] = (float)i;
        in[5] = bad == 0 ? NAN : bad == 1 ? INFINITY : bad == 2 ? -INFINITY : 1e-45f;
        quant_affine_encode_row(in, 32, 4, 32, row, &scale, &bias);
        for (int i = 0; i < 32; i++) assert_true(quant_affine_code(row, i, 4) < 16);
    }
}

TEST(kv_codes_are_the_nearest_of_255_and_never_far)
{
    uint64_t seed = test_seed();
    for (int round = 0; round < 200; round++) {
        float in[256];
        int8_t q[256];
        double size = exp(10 * test_normal(&seed));
        float most = 0;
        for (int i = 0; i < 256; i++) {
            in[i] = (float)(size * test_normal(&seed));
            if (fabsf(in[i]) > most) most = fabsf(in[i]);
        }
        float scale = quant_kv_encode(in, 256, q);
        assert_true(scale == most / 127);
        for (int i = 0; i < 256; i++) {
            assert_int_equal(q[i], (int)rintf(in[i] / scale));
            assert_true(fabs((double)scale * q[i] - in[i]) <= 0.5001 * scale);
            if (fabsf(in[i]) == most) assert_int_equal(abs(q[i]), 127);
        }
    }
}

TEST(kv_halves_round_to_even)
{
    float in[5] = {127, 0.5f, 1.5f, 2.5f, -3.5f};
    int8_t q[5];
    assert_true(quant_kv_encode(in, 5, q) == 1);
    static const int8_t want[5] = {127, 0, 2, 2, -4};
    assert_memory_equal(q, want, 5);
}

TEST(kv_of_zero_tiny_and_broken_vectors_is_defined)
{
    float in[4] = {0, -0.0f, 0, 0};
    int8_t q[4] = {1, 1, 1, 1};
    static const int8_t zero[4] = {0};
    assert_true(quant_kv_encode(in, 4, q) == 0);
    assert_memory_equal(q, zero, 4);
    in[1] = -1e-45f; /* the scale rounds to zero */
    assert_true(quant_kv_encode(in, 4, q) == 0);
    assert_memory_equal(q, zero, 4);
    in[1] = 190 * 1e-45f; /* the scale rounds to the smallest float, and the quotient to 190 */
    quant_kv_encode(in, 4, q);
    assert_int_equal(q[1], 127);
    in[0] = 5;
    in[1] = NAN;
    assert_true(isnan(quant_kv_encode(in, 4, q)));
    in[1] = INFINITY;
    assert_true(isinf(quant_kv_encode(in, 4, q)));
}
