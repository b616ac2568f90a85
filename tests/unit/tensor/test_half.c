#include "support/test.h"
#include "tensor/half.h"

/* IEEE binary16 by its definition, in double. */
static double slow_f16(unsigned h)
{
    int sign = h >> 15, exponent = h >> 10 & 31, fraction = h & 1023;
    double v;
    if (exponent == 31)
        v = fraction ? NAN : INFINITY;
    else
        v = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return sign ? -v : v;
}

TEST(every_f16_has_its_value_and_comes_back)
{
    for (unsigned h = 0; h < 65536; h++) {
        float f = half_from_f16((uint16_t)h);
        double want = slow_f16(h);
        if (isnan(want)) {
            assert_true(isnan(f));
            assert_true(isnan(half_from_f16(half_to_f16(f))));
            continue;
        }
        assert_true((double)f == want && !signbit(f) == !signbit(want));
        assert_int_equal(half_to_f16(f), h);
    }
}

/* The nearest of two neighbours, the even one when both are as near. */
TEST(to_f16_takes_the_nearest_and_halves_to_even)
{
    for (unsigned h = 0; h < 0x7bff; h++) {
        double a = slow_f16(h), b = slow_f16(h + 1), mid = (a + b) / 2;
        assert_int_equal(half_to_f16((float)mid), h % 2 ? h + 1 : h);
        assert_int_equal(half_to_f16(nextafterf((float)mid, 0)), h);
        assert_int_equal(half_to_f16(nextafterf((float)mid, INFINITY)), h + 1);
        assert_int_equal(half_to_f16(-(float)mid), 0x8000 | (h % 2 ? h + 1 : h));
    }
    assert_int_equal(half_to_f16(65519.996f), 0x7bff);
    assert_int_equal(half_to_f16(65520), 0x7c00);
    assert_int_equal(half_to_f16(1e30f), 0x7c00);
    assert_int_equal(half_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(half_to_f16(1e-30f), 0);
}

TEST(bf16_is_the_upper_half_of_an_f32_rounded_to_even)
{
    for (unsigned h = 0; h < 65536; h++) {
        float f = half_from_bf16((uint16_t)h);
        uint32_t u;
        memcpy(&u, &f, 4);
        assert_int_equal(u, h << 16);
        if (isnan(f)) {
            assert_true(isnan(half_from_bf16(half_to_bf16(f))));
            continue;
        }
        assert_int_equal(half_to_bf16(f), h);
    }
    uint64_t seed = test_seed();
    for (int i = 0; i < 100000; i++) {
        uint32_t u = (uint32_t)test_random(&seed);
        float f, lo, hi;
        memcpy(&f, &u, 4);
        if (!isfinite(f)) continue;
        uint32_t down = u & 0xffff0000u, up = down + 0x10000u;
        memcpy(&lo, &down, 4);
        memcpy(&hi, &up, 4);
        uint32_t rest = u & 0xffffu;
        uint32_t want = rest > 0x8000u || (rest == 0x8000u && (down >> 16 & 1)) ? up : down;
        assert_int_equal(half_to_bf16(f), want >> 16);
    }
}

TEST(rows_convert_each_element)
{
    uint16_t in[77];
    float out[77];
    uint64_t seed = test_seed();
    for (int i = 0; i < 77; i++) in[i] = (uint16_t)(test_random(&seed) & 0xbfff); /* finite */
    half_row_from_f16(in, out, 77);
    for (int i = 0; i < 77; i++) assert_true(out[i] == half_from_f16(in[i]));
    half_row_from_bf16(in, out, 77);
    for (int i = 0; i < 77; i++) assert_true(out[i] == half_from_bf16(in[i]));
}
