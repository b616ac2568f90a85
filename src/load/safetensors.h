/* safetensors: one file of named tensors, read in place or written.
 *
 * A file is an 8-byte little-endian header length, a JSON header (name -> dtype, shape,
 * data_offsets) and the data. A model of several files is put together in weights.c.
 * Nothing is trusted: the header is at most 100 MB, its tensors must cover the data exactly and
 * without overlap, no name may stand twice, and every type must be known.
 * Thread: open and close on one thread; the content is read-only. */
#ifndef RIPTIDE_LOAD_SAFETENSORS_H
#define RIPTIDE_LOAD_SAFETENSORS_H

#include "tensor/tensor.h"

typedef struct safetensors safetensors;

/* Map `path` and read its header.
 *
 * Returns  IO; FORMAT with where = path and the tensor and the reason in msg; NOMEM
 * Owns     the caller closes *s; tensors and names are borrowed from it
 * Cost     O(n log n) of the tensor count; no data is touched */
status safetensors_open(safetensors **s, const char *path, err *e);
void safetensors_close(safetensors *s); /* NULL is fine */

/* NULL when there is no such tensor. A tensor of more than TENSOR_DIMS_MAX dimensions is shown
 * with the last ones multiplied into one. */
const tensor *safetensors_find(const safetensors *s, const char *name);

/* Iterate in the order of the data: i in [0, safetensors_count); the name is terminated. */
int safetensors_count(const safetensors *s);
const char *safetensors_name(const safetensors *s, int i, const tensor **t);

typedef struct {
    const char *name;
    tensor t; /* dense; any type but AFFINE; n_bytes is not read */
} safetensors_entry;

/* Write the tensors in the order given, beside the target first and then renamed, so that a
 * reader sees the old file or the whole new one.
 *
 * Returns  IO; INVALID for a tensor that the format cannot hold or a name given twice; NOMEM */
status safetensors_write(const char *path, const safetensors_entry *list, int n, err *e);

#endif
