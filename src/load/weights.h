/* weights: one table of named tensors over the mapped files of a checkpoint.
 *
 * Names are canonical: Hugging Face's names without `model.`, `language_model.`,
 * `model.language_model.` or `language_model.model.` in front ("embed_tokens.weight",
 * "layers.0.linear_attn.in_proj_qkv.weight", "lm_head.weight"; drafts as model-spec 3.6).
 * MoE experts are always "layers.N.mlp.experts.{gate,up,down}_proj.weight" [X, N, K], whether
 * the file has switch_mlp, a fused gate_up_proj (then views with slice_stride), or one tensor an
 * expert (the only form that is copied). conv1d is [C, taps]. A quantised module is one AFFINE
 * tensor; its scales and biases are not listed. Only what the architecture needs is kept. From a
 * GGUF file "A_log" holds -exp(A_log) (arch_target.has_neg_decay), and a tensor of blocks may have
 * `heads` in another order than its rows or columns seem to say (tensor.h).
 * Thread: read-only after open, any. */
#ifndef RIPTIDE_LOAD_WEIGHTS_H
#define RIPTIDE_LOAD_WEIGHTS_H

#include "tensor/tensor.h"

typedef struct weights weights;

/* NULL when there is no such tensor. */
const tensor *weights_find(const weights *w, const char *name);

/* The tensor, which must have exactly this shape (n_dims dims).
 *
 * Returns  FORMAT naming file, tensor, and expected and actual shape; also when it is missing or
 *          has a type that is not a weight (F32, F16, BF16, AFFINE, or a block type of a GGUF file)
 */
status weights_get(const weights *w, const char *name, int n_dims, const int64_t *shape,
                   tensor *out, err *e);

/* Iterate: i in [0, weights_count); the name is terminated and borrowed from w. */
int weights_count(const weights *w);
const char *weights_name(const weights *w, int i, const tensor **t);
/* Bytes of all tensors that were kept. */
int64_t weights_bytes(const weights *w);
/* The file that holds a tensor (for messages), borrowed. */
const char *weights_file(const weights *w, const char *name);
/* Have the pages of a tensor fetched, all at once: reading it then waits only for what is not there
 * yet. */
void weights_expect(const tensor *t);
/* Drop the mapped pages of a tensor from memory after its content was copied elsewhere. */
void weights_forget(const weights *w, const tensor *t);

#endif
