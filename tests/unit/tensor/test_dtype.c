#include "support/test.h"
#include "tensor/dtype.h"

TEST(every_file_type_is_found_by_its_name_and_no_other)
{
    for (int t = DTYPE_NONE + 1; t < DTYPE_AFFINE; t++) {
        const char *name = dtype_name((dtype)t);
        assert_int_equal(dtype_find(name, strlen(name)), t);
        assert_true(dtype_bits((dtype)t) % 8 == 0 && dtype_bits((dtype)t) > 0);
        assert_int_equal(dtype_find(name, strlen(name) - 1), DTYPE_NONE);
    }
    static const char *const unknown[] = {"", "f32", "F4", "F8_E8M0", "AFFINE", "NONE", "C64"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        assert_int_equal(dtype_find(unknown[i], strlen(unknown[i])), DTYPE_NONE);
}

TEST(sizes_are_those_of_the_format)
{
    assert_int_equal(dtype_bits(DTYPE_F64), 64);
    assert_int_equal(dtype_bits(DTYPE_F32), 32);
    assert_int_equal(dtype_bits(DTYPE_BF16), 16);
    assert_int_equal(dtype_bits(DTYPE_F8_E4M3), 8);
    assert_int_equal(dtype_bits(DTYPE_BOOL), 8);
    assert_int_equal(dtype_bits(DTYPE_AFFINE), 0);
    assert_int_equal(dtype_bits(DTYPE_NONE), 0);
    assert_string_equal(dtype_name((dtype)99), "NONE");
}
