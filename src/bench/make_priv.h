/* make: a checkpoint of some shape with random weights, MLX affine 4-bit, and its DFlash2 draft.
 *
 * Scales are such that activations stay finite: a projection keeps the size of a normed row, what
 * a block adds to the residual stream is small against it.
 *
 * With a dial D the model has a constant token: every embedding row is large in column 0, blocks
 * add next to nothing, and the head maps column 0 to one id alone, with the logit at which it is
 * drawn with probability D at temperature 1. The draft shares both tables and always proposes that
 * id, so that a proposal is accepted with probability D, independently of all others. */
#ifndef RIPTIDE_BENCH_MAKE_PRIV_H
#define RIPTIDE_BENCH_MAKE_PRIV_H

#include "base/buf.h"
#include "bench/plan_priv.h"
#include "bench/shape_priv.h"

enum { MAKE_CONSTANT_ID = 1000 };

typedef struct {
    shape s;
    uint64_t seed;
    double dial;           /* 0..1, or negative for none */
    const char *out;       /* folder; the draft goes to OUT-dflash2 */
    const char *tokenizer; /* folder whose tokenizer files are copied, or NULL for none */
    int64_t file_bytes;    /* most data of one file, 0 = 5 GB */
} make_request;

typedef struct {
    int64_t target_bytes, draft_bytes; /* tensor data written */
    int target_files;
} make_result;

/* Write both folders (made when they do not exist).
 * Returns  IO, NOMEM, INVALID */
status make_checkpoint(const make_request *r, make_result *out, err *e);

/* make_target.c, make_draft.c: the tensors. */
void make_target_plan(plan *p, const make_request *r);
void make_draft_plan(plan *p, const make_request *r);

/* make_config.c: config.json of both, generation_config.json. */
void make_target_config(const make_request *r, buf *out);
void make_draft_config(const make_request *r, buf *out);
void make_generation_config(const make_request *r, buf *out);

/* The size of what a block adds to the residual stream, for `n_layers` of them. */
double make_block_scale(const make_request *r, int n_layers);
static inline bool make_is_tied(const make_request *r)
{
    return r->s.is_tied && r->dial < 0;
}

#endif
