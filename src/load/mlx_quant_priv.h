/* mlx_quant: which bits and group a quantised module of an MLX checkpoint has.
 *
 * config.json's "quantization" (or "quantization_config") holds the usual {group_size, bits,
 * mode}, and overrides keyed by module path: an object of the same keys, or a boolean, where
 * false says that the module is not quantised. Other modes than affine are in small_float_priv.h.
 * The same place says in Hugging Face's FP8 files how many rows and columns share a scale. */
#ifndef RIPTIDE_LOAD_MLX_QUANT_PRIV_H
#define RIPTIDE_LOAD_MLX_QUANT_PRIV_H

#include "base/arena.h"
#include "base/json.h"

typedef struct {
    const char *module; /* canonical path as in weights.h; NULL for the usual one */
    bool is_off;        /* the override false */
    bool has_mode;      /* another mode than affine: named in `mode`, bits and group unread */
    char mode[16];
    int bits, group;
} mlx_quant_row;

typedef struct {
    bool is_present;
    mlx_quant_row usual;
    const mlx_quant_row *rows; /* sorted by module */
    int n;
    int fp8_rows, fp8_columns; /* of a block; 0 when these are no FP8 files; is_present is false */
} mlx_quant;

/* Read the table of a config's root, of which q stays empty when it has none.
 *
 * Returns  FORMAT, UNSUPPORTED (another quantisation method), NOMEM
 * Borrows  names from mem */
status mlx_quant_parse(mlx_quant *q, arena *mem, const json *root, const char *file, err *e);

/* The row that holds for a canonical module path. Never NULL. */
const mlx_quant_row *mlx_quant_find(const mlx_quant *q, const char *module);

#endif
