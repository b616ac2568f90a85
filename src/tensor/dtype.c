#include "tensor/dtype.h"

#include <string.h>

static const struct {
    const char *name;
    int block, n_bytes; /* elements and bytes of the smallest piece */
} rows[DTYPE_COUNT] = {
    [DTYPE_NONE] = {"NONE", 0, 0},
    [DTYPE_F32] = {"F32", 1, 4},
    [DTYPE_F16] = {"F16", 1, 2},
    [DTYPE_BF16] = {"BF16", 1, 2},
    [DTYPE_F64] = {"F64", 1, 8},
    [DTYPE_I8] = {"I8", 1, 1},
    [DTYPE_U8] = {"U8", 1, 1},
    [DTYPE_I16] = {"I16", 1, 2},
    [DTYPE_U16] = {"U16", 1, 2},
    [DTYPE_I32] = {"I32", 1, 4},
    [DTYPE_U32] = {"U32", 1, 4},
    [DTYPE_I64] = {"I64", 1, 8},
    [DTYPE_U64] = {"U64", 1, 8},
    [DTYPE_BOOL] = {"BOOL", 1, 1},
    [DTYPE_F8_E4M3] = {"F8_E4M3", 1, 1},
    [DTYPE_F8_E5M2] = {"F8_E5M2", 1, 1},
    [DTYPE_AFFINE] = {"AFFINE", 0, 0},
    [DTYPE_Q4_0] = {"Q4_0", 32, 18},
    [DTYPE_Q4_1] = {"Q4_1", 32, 20},
    [DTYPE_Q5_0] = {"Q5_0", 32, 22},
    [DTYPE_Q5_1] = {"Q5_1", 32, 24},
    [DTYPE_Q8_0] = {"Q8_0", 32, 34},
    [DTYPE_Q2_K] = {"Q2_K", 256, 84},
    [DTYPE_Q3_K] = {"Q3_K", 256, 110},
    [DTYPE_Q4_K] = {"Q4_K", 256, 144},
    [DTYPE_Q5_K] = {"Q5_K", 256, 176},
    [DTYPE_Q6_K] = {"Q6_K", 256, 210},
    [DTYPE_IQ1_S] = {"IQ1_S", 256, 50},
    [DTYPE_IQ1_M] = {"IQ1_M", 256, 56},
    [DTYPE_IQ2_XXS] = {"IQ2_XXS", 256, 66},
    [DTYPE_IQ2_XS] = {"IQ2_XS", 256, 74},
    [DTYPE_IQ2_S] = {"IQ2_S", 256, 82},
    [DTYPE_IQ3_XXS] = {"IQ3_XXS", 256, 98},
    [DTYPE_IQ3_S] = {"IQ3_S", 256, 110},
    [DTYPE_IQ4_NL] = {"IQ4_NL", 32, 18},
    [DTYPE_IQ4_XS] = {"IQ4_XS", 256, 136},
    [DTYPE_MXFP4] = {"MXFP4", 32, 17},
    [DTYPE_NVFP4] = {"NVFP4", 64, 36},
};

const char *dtype_name(dtype t)
{
    return (unsigned)t < DTYPE_COUNT ? rows[t].name : "NONE";
}

int dtype_bits(dtype t)
{
    return dtype_block(t) == 1 ? 8 * rows[t].n_bytes : 0;
}

int dtype_block(dtype t)
{
    return (unsigned)t < DTYPE_COUNT ? rows[t].block : 0;
}

int dtype_block_bytes(dtype t)
{
    return (unsigned)t < DTYPE_COUNT ? rows[t].n_bytes : 0;
}

dtype dtype_find(const char *name, size_t len)
{
    for (int t = DTYPE_NONE + 1; t < DTYPE_AFFINE; t++)
        if (strlen(rows[t].name) == len && memcmp(rows[t].name, name, len) == 0) return (dtype)t;
    return DTYPE_NONE;
}
