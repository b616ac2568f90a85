/* weights_priv: the table of weights.h and how it is made from a checkpoint's files. */
#ifndef RIPTIDE_LOAD_WEIGHTS_PRIV_H
#define RIPTIDE_LOAD_WEIGHTS_PRIV_H

#include "load/arch_tensors_priv.h"
#include "load/checkpoint_priv.h"
#include "load/gguf_config_priv.h"
#include "load/hf_config_priv.h"
#include "load/weights.h"

typedef struct {
    const char *name; /* canonical, in the checkpoint's arena */
    const char *path; /* of its file */
    tensor t;
} weights_item;

/* How conv1d lies in the files: it tells an MLX conversion from a raw Hugging Face file. */
typedef enum {
    WEIGHTS_LAYOUT_NONE,
    WEIGHTS_LAYOUT_MLX,
    WEIGHTS_LAYOUT_HF,
    WEIGHTS_LAYOUT_GGUF
} weights_layout;

struct weights {
    checkpoint files;             /* of a GGUF file: only its arena and, as `dir`, the path */
    gguf_set parts;               /* of a GGUF file */
    weights_item *items;          /* in the order of arch_tensors */
    const weights_item **by_name; /* sorted */
    int n, cap;
    int64_t n_bytes;
    weights_layout layout;
};

/* Open the files of `dir` and find every tensor that c's architecture needs, each with its shape.
 * c->target.is_tied is settled when the configuration left it open.
 *
 * Returns  IO, FORMAT, UNSUPPORTED, NOMEM
 * Owns     the caller closes *w */
status weights_open(weights **w, const char *dir, hf_config *c, err *e);
void weights_close(weights *w); /* NULL is fine */

/* gguf_weights.c: the same for GGUF files, which it takes over, also on failure. */
status gguf_weights_open(weights **w, gguf_set *parts, const gguf_config *c, err *e);

/* How value heads lie in a GGUF file's tensor of that canonical name; n is 0 when it has none or
 * both orders agree. In a vector the heads are counted as rows. */
tensor_heads gguf_heads_of(const arch_target *a, const char *name);

/* Visit every tensor of a target, or of a draft when t is NULL, then sort the table. */
status weights_build_all(weights *w, const arch_target *t, const arch_draft *d,
                         arch_tensor_visit *visit, void *ctx, err *e);

/* Bytes of a tensor's data, scales and biases. */
int64_t weights_tensor_bytes(const tensor *t);

/* weights_build.c: find one needed tensor in the files and append it; an arch_tensor_visit. */
typedef struct {
    weights *w;
    const mlx_quant *quant;
} weights_builder;
status weights_build(void *builder, const arch_tensor *want, err *e);

#endif
