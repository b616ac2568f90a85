/* dtype: what a number is. */
#ifndef RIPTIDE_TENSOR_DTYPE_H
#define RIPTIDE_TENSOR_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    DTYPE_NONE = 0,
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_F64,
    DTYPE_I8,
    DTYPE_U8,
    DTYPE_I16,
    DTYPE_U16,
    DTYPE_I32,
    DTYPE_U32,
    DTYPE_I64,
    DTYPE_U64,
    DTYPE_BOOL,
    DTYPE_F8_E4M3,
    DTYPE_F8_E5M2,
    DTYPE_AFFINE, /* MLX affine groups: see quant.h; bits and group stand in the tensor */
    /* Blocks of GGUF files: a row is whole blocks, each with its own scales; see block.h. */
    DTYPE_Q4_0,
    DTYPE_Q4_1,
    DTYPE_Q5_0,
    DTYPE_Q5_1,
    DTYPE_Q8_0,
    DTYPE_Q2_K,
    DTYPE_Q3_K,
    DTYPE_Q4_K,
    DTYPE_Q5_K,
    DTYPE_Q6_K,
    DTYPE_IQ1_S,
    DTYPE_IQ1_M,
    DTYPE_IQ2_XXS,
    DTYPE_IQ2_XS,
    DTYPE_IQ2_S,
    DTYPE_IQ3_XXS,
    DTYPE_IQ3_S,
    DTYPE_IQ4_NL,
    DTYPE_IQ4_XS,
    DTYPE_MXFP4,
    DTYPE_NVFP4,
    DTYPE_COUNT
} dtype;

/* "F32", "BF16", … as safetensors spells them; "AFFINE". Never NULL. */
const char *dtype_name(dtype t);
/* Bits of one element; 0 for NONE, AFFINE and the block types. */
int dtype_bits(dtype t);
/* Elements of a block, and its bytes: 1 and the element's for plain types; 0 for NONE, AFFINE. */
int dtype_block(dtype t);
int dtype_block_bytes(dtype t);
static inline bool dtype_is_block(dtype t)
{
    return t >= DTYPE_Q4_0 && t < DTYPE_COUNT;
}
/* The type that safetensors calls `name` (len bytes); NONE when unknown. No file says AFFINE or a
 * block type. */
dtype dtype_find(const char *name, size_t len);
/* F32, F16, BF16: what a weight or a scale may be stored as. */
static inline bool dtype_is_float(dtype t)
{
    return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16;
}

#endif
