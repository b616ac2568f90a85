/* checkpoint: the safetensors files of a directory and one table of their tensors. */
#ifndef RIPTIDE_LOAD_CHECKPOINT_PRIV_H
#define RIPTIDE_LOAD_CHECKPOINT_PRIV_H

#include "base/arena.h"
#include "load/safetensors_priv.h"

typedef struct {
    const char *canonical; /* see names.h; borrowed from the file */
    const char *name;      /* as in the file */
    const safetensors *file;
    tensor t;
} checkpoint_item;

typedef struct {
    arena mem; /* the list of files, and stacked copies of weights.c */
    const char *dir;
    safetensors **files;
    int n_files;
    int64_t n_tensors;      /* of all files */
    checkpoint_item *items; /* sorted by canonical name, without vision and multi-token head */
    int n;
} checkpoint;

/* Open the files that `dir`/model.safetensors.index.json names, or `dir`/model.safetensors.
 *
 * Returns  IO, FORMAT, NOMEM; on failure *c is closed */
status checkpoint_open(checkpoint *c, const char *dir, err *e);
void checkpoint_close(checkpoint *c);

const checkpoint_item *checkpoint_find(const checkpoint *c, const char *canonical);

#endif
