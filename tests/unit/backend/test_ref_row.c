#include "backend/ref/ref_priv.h"
#include "support/test.h"
#include "tensor/half.h"
#include "tensor/quant.h"

enum { K = 384, N = 3 };

/* ref's fast way must be the definition, bit for bit, at any address. */
TEST(a_decoded_row_is_tensor_row_f32_bit_for_bit)
{
    static const int bits[] = {2, 3, 4, 5, 6, 8}, groups[] = {32, 64, 128};
    static const dtype types[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32};
    static uint8_t codes[N * K + 1], scales[N * K * 4 + 1], biases[N * K * 4 + 1];
    uint64_t s = test_seed();
    for (int i = 0; i < 6 * 3 * 3 * 2; i++) {
        tensor t = {.type = DTYPE_AFFINE,
                    .n_dims = 2,
                    .shape = {N, K},
                    .data = codes + i % 2,
                    .scales = scales + i % 2,
                    .biases = biases + i % 2,
                    .bits = bits[i / 2 % 6],
                    .group = groups[i / 12 % 3],
                    .scale_type = types[i / 36]};
        for (size_t k = 0; k < sizeof codes; k++) codes[k] = (uint8_t)test_random(&s);
        int size = dtype_bits(t.scale_type) / 8;
        for (int k = 0; k < N * K / t.group; k++) {
            float a = (float)test_normal(&s), b = (float)test_normal(&s);
            uint16_t ha = t.scale_type == DTYPE_F16 ? half_to_f16(a) : half_to_bf16(a);
            uint16_t hb = t.scale_type == DTYPE_F16 ? half_to_f16(b) : half_to_bf16(b);
            const void *pa = size == 4 ? (const void *)&a : &ha;
            const void *pb = size == 4 ? (const void *)&b : &hb;
            memcpy(scales + i % 2 + k * size, pa, (size_t)size);
            memcpy(biases + i % 2 + k * size, pb, (size_t)size);
        }
        for (int row = 0; row < N; row++) {
            float got[K], want[K];
            ref_row_decode(&t, row, got);
            tensor_row_f32(&t, row, want);
            assert_memory_equal(got, want, sizeof got);
        }
    }
}

TEST(a_dot_product_of_any_length_is_near_the_exact_one)
{
    static float a[5000], b[5000];
    uint64_t s = test_seed();
    for (int i = 0; i < 5000; i++) {
        a[i] = (float)test_normal(&s);
        b[i] = (float)test_normal(&s);
    }
    for (int n = 0; n <= 5000; n += n < 600 ? 1 : 199) {
        long double exact = 0, size = 0;
        for (int i = 0; i < n; i++) {
            exact += (long double)a[i] * (long double)b[i];
            size += (long double)a[i] * a[i] * (long double)b[i] * b[i];
        }
        double scale = sqrt((double)size); /* what the sum's size would be by chance */
        assert_true(fabs(ref_row_dot(a, b, n) - (double)exact) <= 6e-7 * scale);
        assert_true(fabs(ref_row_dot_double(a, b, n) - (double)exact) <= 1e-13 * scale);
    }
}

TEST(nothing_behind_the_row_is_read)
{
    float a[40], b[40];
    for (int i = 0; i < 40; i++) a[i] = b[i] = i < 37 ? 1.0f : NAN;
    assert_true(ref_row_dot(a, b, 37) == 37);
    assert_true(ref_row_dot_double(a, b, 37) == 37);
    assert_true(ref_row_dot(a, b, 0) == 0);
}
