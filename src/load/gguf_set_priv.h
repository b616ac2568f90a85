/* gguf_set: the files of one model: one, or the parts NAME-00001-of-0000N.gguf of a split one.
 *
 * Keys are those of the first part; each part has its own table of tensors. */
#ifndef RIPTIDE_LOAD_GGUF_SET_PRIV_H
#define RIPTIDE_LOAD_GGUF_SET_PRIV_H

#include "load/gguf_priv.h"

enum { GGUF_PARTS_MOST = 1024 };

typedef struct {
    arena mem;
    gguf **files;
    int n;
    bool is_head; /* only the first file's head is here, not its data or other parts */
} gguf_set;

/* Open `path` and, when it is a part of several (any of them), all parts.
 *
 * Returns  IO; FORMAT naming the part, key and reason; UNSUPPORTED; NOMEM
 * Owns     the caller closes *s; on failure it is closed */
status gguf_set_open(gguf_set *s, const char *path, err *e);
/* The head of one file alone, which may be a part: gguf_open_head. */
status gguf_set_open_head(gguf_set *s, const char *name, const uint8_t *bytes, int64_t n_bytes,
                          int64_t n_file, bool *is_short, err *e);
void gguf_set_close(gguf_set *s); /* twice is harmless */

/* The tensor of that name and the file it lies in, or NULL. */
const gguf_item *gguf_set_find(const gguf_set *s, const char *name, const gguf **file);
/* Drop [p, p + n_bytes) from memory when it lies in one of the mappings. */
bool gguf_set_forget(const gguf_set *s, const void *p, int64_t n_bytes);

#endif
