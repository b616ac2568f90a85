/* small_float: modules of 4- and 8-bit floats as a type that weights.h promises.
 *
 *   mxfp4   MLX: u32 of eight E2M1, u8 E8M0 scales of groups of 32    -> blocks MXFP4, exact
 *   nvfp4   MLX: the same codes, u8 E4M3 scales of groups of 16       -> blocks NVFP4, exact
 *   mxfp8   MLX: u32 of four E4M3, u8 E8M0 scales of groups of 32     -> BF16, exact
 *   fp8     Hugging Face: E4M3 [N, K], F32 or BF16 `weight_scale_inv` of blocks of rows and columns
 *           -> BF16, the product rounded once, as those files are meant to be read
 *
 * The result is a copy: the files' pages are not needed behind it. */
#ifndef RIPTIDE_LOAD_SMALL_FLOAT_PRIV_H
#define RIPTIDE_LOAD_SMALL_FLOAT_PRIV_H

#include "load/arch_tensors_priv.h"
#include "load/checkpoint_priv.h"

typedef enum { SMALL_NONE, SMALL_MXFP4, SMALL_NVFP4, SMALL_MXFP8 } small_float;

/* The mode of that name in config.json, or NONE. */
small_float small_float_find(const char *mode);

/* A module of a mode. *out is in mem.
 * Returns  FORMAT (shapes, types, a scale that is no number), NOMEM */
status small_float_take(arena *mem, small_float mode, const checkpoint_item *weight,
                        const checkpoint_item *scales, const arch_tensor *want, tensor *out,
                        err *e);

/* A matrix of E4M3 with scales of blocks of `rows` rows and `columns` columns. */
status small_float_take_fp8(arena *mem, const checkpoint_item *weight,
                            const checkpoint_item *scales, int rows, int columns,
                            const arch_tensor *want, tensor *out, err *e);

#endif
