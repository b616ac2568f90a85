#include "support/guard.h"
#include "support/test.h"
#include "tensor/half.h"
#include "tensor/quant.h"
#include "tensor/tensor.h"

TEST(count_is_the_product_or_false)
{
    int64_t n = -1;
    tensor t = {.n_dims = 3, .shape = {2, 3, 5}};
    assert_true(tensor_count(&t, &n));
    assert_int_equal(n, 30);
    t.n_dims = 0;
    assert_true(tensor_count(&t, &n));
    assert_int_equal(n, 1);
    t = (tensor){.n_dims = 2, .shape = {1ll << 32, 1ll << 31}};
    n = 7;
    assert_false(tensor_count(&t, &n));
    t.shape[1] = -1;
    assert_false(tensor_count(&t, &n));
    assert_int_equal(n, 7);
}

TEST(format_names_shape_type_and_bits)
{
    char out[64];
    tensor t = {.type = DTYPE_AFFINE, .n_dims = 2, .shape = {3072, 384}, .bits = 4, .group = 64};
    assert_string_equal(tensor_format(&t, out, sizeof out), "[3072, 384] AFFINE4/64");
    t = (tensor){.type = DTYPE_BF16, .n_dims = 1, .shape = {5}};
    assert_string_equal(tensor_format(&t, out, sizeof out), "[5] BF16");
    t.n_dims = 0;
    assert_string_equal(tensor_format(&t, out, sizeof out), "[] BF16");
    for (int cap = 1; cap < 12; cap++) {
        memset(out, 'x', sizeof out);
        t = (tensor){.type = DTYPE_F32, .n_dims = 2, .shape = {10, 20}};
        tensor_format(&t, out, cap);
        assert_true(strlen(out) < (size_t)cap && out[cap] == 'x');
    }
}

static void check_row(dtype type, const void *bytes, size_t n_bytes, int n, const float *want)
{
    /* Also at an odd address: files are mapped as they are. */
    for (int shift = 0; shift < 2; shift++) {
        uint8_t moved[256];
        memcpy(moved + shift, bytes, n_bytes);
        tensor t = {.type = type, .n_dims = 1, .shape = {n}, .data = moved + shift};
        float out[16] = {0};
        tensor_row_f32(&t, 0, out);
        for (int i = 0; i < n; i++)
            if (!(out[i] == want[i] || (isnan(out[i]) && isnan(want[i]))))
                fail_msg("%s element %d is %g, want %g", dtype_name(type), i, (double)out[i],
                         (double)want[i]);
    }
}

#define CHECK_ROW(dtype_value, c_type, ...)                         \
    do {                                                            \
        static const c_type in_[] = {__VA_ARGS__};                  \
        float want_[16];                                            \
        int n_ = (int)(sizeof in_ / sizeof in_[0]);                 \
        for (int i_ = 0; i_ < n_; i_++) want_[i_] = (float)in_[i_]; \
        check_row(dtype_value, in_, sizeof in_, n_, want_);         \
    } while (0)

TEST(a_row_of_any_plain_type_has_its_values)
{
    CHECK_ROW(DTYPE_F32, float, 0, -1.5f, 3e38f, 1e-40f);
    CHECK_ROW(DTYPE_F64, double, 0, -1.5, 0.1, 1e-300);
    CHECK_ROW(DTYPE_I8, int8_t, -128, -1, 0, 127);
    CHECK_ROW(DTYPE_U8, uint8_t, 0, 1, 128, 255);
    CHECK_ROW(DTYPE_I16, int16_t, -32768, 32767);
    CHECK_ROW(DTYPE_U16, uint16_t, 0, 65535);
    CHECK_ROW(DTYPE_I32, int32_t, INT32_MIN, INT32_MAX, -7);
    CHECK_ROW(DTYPE_U32, uint32_t, 0, UINT32_MAX);
    CHECK_ROW(DTYPE_I64, int64_t, INT64_MIN, 5);
    CHECK_ROW(DTYPE_U64, uint64_t, UINT64_MAX, 5);
    static const uint8_t flags[] = {0, 1, 255};
    check_row(DTYPE_BOOL, flags, 3, 3, (float[]){0, 1, 1});
    static const uint16_t f16[] = {0x3c00, 0xc000, 0x7c00, 1};
    check_row(DTYPE_F16, f16, 8, 4, (float[]){1, -2, INFINITY, 0x1p-24f});
    static const uint16_t bf16[] = {0x3f80, 0xc000, 0x7fc0};
    check_row(DTYPE_BF16, bf16, 6, 3, (float[]){1, -2, NAN});
    /* E4M3: 0x38 is 1, 0x7e the largest, 0x01 the least, 0x07 and 0x08 lie round 2^-6. */
    static const uint8_t e4m3[] = {0x38, 0xb8, 0x7e, 0x01, 0x07, 0x08, 0x7f, 0x00, 0x39};
    check_row(DTYPE_F8_E4M3, e4m3, 9, 9,
              (float[]){1, -1, 448, 0x1p-9f, 7 * 0x1p-9f, 0x1p-6f, NAN, 0, 1.125f});
    static const uint8_t e5m2[] = {0x3c, 0xbd, 0x7b, 0x7c, 0x01};
    check_row(DTYPE_F8_E5M2, e5m2, 5, 5, (float[]){1, -1.25f, 57344, INFINITY, 0x1p-16f});
}

typedef struct {
    uint8_t codes[3 * 4 * 64 * 4];
    uint16_t scales[3 * 4 * 2], biases[3 * 4 * 2];
    tensor t;
} experts;

/* [3, 4, 64] in 6 bits and groups of 32. */
static void make_experts(experts *x)
{
    uint64_t seed = test_seed();
    for (size_t i = 0; i < sizeof x->codes; i++) x->codes[i] = (uint8_t)test_random(&seed);
    for (int i = 0; i < 24; i++) {
        x->scales[i] = half_to_bf16((float)test_normal(&seed));
        x->biases[i] = half_to_bf16((float)test_normal(&seed));
    }
    x->t = (tensor){.type = DTYPE_AFFINE,
                    .n_dims = 3,
                    .shape = {3, 4, 64},
                    .data = x->codes,
                    .n_bytes = 3 * 4 * 48,
                    .scales = x->scales,
                    .biases = x->biases,
                    .scale_type = DTYPE_BF16,
                    .bits = 6,
                    .group = 32};
}

static void check_affine_row(const experts *x, const tensor *t, int row, int64_t flat_row)
{
    float out[64];
    tensor_row_f32(t, row, out);
    for (int k = 0; k < 64; k++) {
        int64_t g = flat_row * 2 + k / 32;
        volatile float product = half_from_bf16(x->scales[g]) *
                                 (float)quant_affine_code(x->codes + flat_row * 48, k, 6);
        assert_true(out[k] == product + half_from_bf16(x->biases[g]));
    }
}

TEST(slices_and_rows_of_affine_move_codes_scales_and_biases_together)
{
    experts x;
    make_experts(&x);
    for (int i = 0; i < 3; i++) {
        tensor s = tensor_slice(&x.t, i);
        assert_int_equal(s.n_dims, 2);
        assert_int_equal(s.n_bytes, 4 * 48);
        for (int r = 0; r < 4; r++) check_affine_row(&x, &s, r, i * 4 + r);
        tensor part = tensor_rows(&s, 1, 3);
        assert_int_equal(part.shape[0], 2);
        assert_int_equal(part.n_bytes, 2 * 48);
        for (int r = 0; r < 2; r++) check_affine_row(&x, &part, r, i * 4 + 1 + r);
    }
}

TEST(half_of_the_rows_of_every_slice_is_a_strided_view)
{
    experts x;
    make_experts(&x);
    tensor up = tensor_slice_rows(&x.t, 2, 4);
    assert_int_equal(up.shape[1], 2);
    assert_int_equal(up.slice_stride, 4 * 64);
    assert_int_equal(up.n_bytes, 3 * 2 * 48);
    for (int i = 0; i < 3; i++) {
        tensor s = tensor_slice(&up, i);
        assert_int_equal(s.slice_stride, 0);
        assert_int_equal(s.n_bytes, 2 * 48);
        for (int r = 0; r < 2; r++) check_affine_row(&x, &s, r, i * 4 + 2 + r);
    }
}

TEST(slices_of_plain_types_step_by_their_size)
{
    uint16_t data[2 * 3 * 4];
    for (int i = 0; i < 24; i++) data[i] = half_to_bf16((float)i);
    tensor t = {.type = DTYPE_BF16, .n_dims = 3, .shape = {2, 3, 4}, .data = data, .n_bytes = 48};
    tensor up = tensor_slice_rows(&t, 1, 3), s = tensor_slice(&up, 1), r = tensor_rows(&s, 1, 2);
    float out[4];
    tensor_row_f32(&r, 0, out);
    for (int i = 0; i < 4; i++) assert_true(out[i] == (float)(12 + 8 + i));
    tensor empty = tensor_rows(&s, 2, 2);
    assert_int_equal(empty.shape[0], 0);
    assert_int_equal(empty.n_bytes, 0);
}
