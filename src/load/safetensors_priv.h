/* safetensors_priv: a file already in memory, and giving its pages back. */
#ifndef RIPTIDE_LOAD_SAFETENSORS_PRIV_H
#define RIPTIDE_LOAD_SAFETENSORS_PRIV_H

#include "base/arena.h"
#include "base/str.h"
#include "load/safetensors.h"

/* As safetensors_open for n bytes that outlive *s; `name` for messages. */
status safetensors_open_bytes(safetensors **s, const uint8_t *bytes, int64_t n_bytes,
                              const char *name, err *e);

/* The path or name given at open. */
const char *safetensors_path(const safetensors *s);

/* Drop [p, p + n_bytes) from memory when it lies in this file's mapping; false when it does not. */
bool safetensors_forget(const safetensors *s, const void *p, int64_t n_bytes);

/* The end of a path that is too long for err.where: the file's name says more than the root's. */
const char *safetensors_where(const char *path);

/* One tensor of a header, before it is known where the data lies. */
typedef struct {
    const char *name; /* terminated, in the arena */
    dtype type;
    int n_dims;
    int64_t shape[TENSOR_DIMS_MAX];
    int64_t begin, end; /* bytes within the data section */
} safetensors_row;

/* Read the header's text (without the length in front of it). The rows are in header order and
 * each is checked by itself: type, shape and size agree; neither order, overlap nor names are.
 *
 * rows     out, [*n], from mem_new: the caller frees it
 * Returns  FORMAT with pos = offset in the file; NOMEM */
status safetensors_parse_header(arena *mem, str text, const char *where, safetensors_row **rows,
                                int *n, err *e);

#endif
