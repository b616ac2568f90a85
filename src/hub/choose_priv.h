/* choose: which files of a repository make the model that is meant.
 *
 * A GGUF file when a variant is named or nothing else is there; else config.json, the tokenizer's
 * files and the safetensors files that the index names. Vision towers (mmproj) and importance
 * matrices are no models. */
#ifndef RIPTIDE_HUB_CHOOSE_PRIV_H
#define RIPTIDE_HUB_CHOOSE_PRIV_H

#include "hub/listing_priv.h"

typedef struct {
    bool is_gguf;
    int *small; /* [n_small] files of a few kilobytes to megabytes, fetched and looked at first */
    int n_small;
    int *weights; /* [n_weights] in the order of their parts */
    int n_weights;
    int index; /* model.safetensors.index.json, or -1; then weights come by choose_shards */
} choice;

/* Arrays are in the arena; numbers are indices of l->files.
 * Returns  INVALID when nothing fits (msg lists what there is), IO when a part is missing, NOMEM */
status choose_files(choice *c, arena *a, const listing *l, const char *variant, const char *where,
                    err *e);

/* The weights that an index names. FORMAT when it is none, IO when a shard is not there. */
status choose_shards(choice *c, arena *a, const listing *l, str index, const char *where, err *e);

#endif
