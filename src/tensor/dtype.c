#include "tensor/dtype.h"

#include <string.h>

static const struct {
    const char *name;
    int bits;
} rows[DTYPE_COUNT] = {
    [DTYPE_NONE] = {"NONE", 0},       [DTYPE_F32] = {"F32", 32},
    [DTYPE_F16] = {"F16", 16},        [DTYPE_BF16] = {"BF16", 16},
    [DTYPE_F64] = {"F64", 64},        [DTYPE_I8] = {"I8", 8},
    [DTYPE_U8] = {"U8", 8},           [DTYPE_I16] = {"I16", 16},
    [DTYPE_U16] = {"U16", 16},        [DTYPE_I32] = {"I32", 32},
    [DTYPE_U32] = {"U32", 32},        [DTYPE_I64] = {"I64", 64},
    [DTYPE_U64] = {"U64", 64},        [DTYPE_BOOL] = {"BOOL", 8},
    [DTYPE_F8_E4M3] = {"F8_E4M3", 8}, [DTYPE_F8_E5M2] = {"F8_E5M2", 8},
    [DTYPE_AFFINE] = {"AFFINE", 0},
};

const char *dtype_name(dtype t)
{
    return (unsigned)t < DTYPE_COUNT ? rows[t].name : "NONE";
}

int dtype_bits(dtype t)
{
    return (unsigned)t < DTYPE_COUNT ? rows[t].bits : 0;
}

dtype dtype_find(const char *name, size_t len)
{
    for (int t = DTYPE_NONE + 1; t < DTYPE_AFFINE; t++)
        if (strlen(rows[t].name) == len && memcmp(rows[t].name, name, len) == 0) return (dtype)t;
    return DTYPE_NONE;
}
