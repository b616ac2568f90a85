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
    DTYPE_COUNT
} dtype;

/* "F32", "BF16", … as safetensors spells them; "AFFINE". Never NULL. */
const char *dtype_name(dtype t);
/* Bits of one element; 0 for NONE and AFFINE. */
int dtype_bits(dtype t);
/* The type that safetensors calls `name` (len bytes); NONE when unknown. No file says AFFINE. */
dtype dtype_find(const char *name, size_t len);
/* F32, F16, BF16: what a weight or a scale may be stored as. */
static inline bool dtype_is_float(dtype t)
{
    return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16;
}

#endif
