/* draft: the DFlash and DFlash2 drafter (model-spec 3): context from the target's hidden states,
 * and a block of proposals in one pass.
 *
 * Borrows embedding, head, taps and rows from the target model. Its bits are exempt from
 * Identity: they decide how much is accepted, never what is emitted.
 * Thread: the one that owns the backend. */
#ifndef RIPTIDE_DECODE_DRAFT_PRIV_H
#define RIPTIDE_DECODE_DRAFT_PRIV_H

#include "load/load.h"
#include "model/model.h"

typedef struct draft draft;

typedef struct {
    int n_slots, max_rows;
    int64_t max_context;
    int window; /* tests: a multiple of 64, of layers with a longer one; 0 = as it was made */
} draft_options;

/* files are borrowed only during the call on backends that copy weights, else until close.
 * Returns  NOMEM, FORMAT, INVALID */
status draft_open(draft **d, backend *b, const load_model *files, const draft_options *o, err *e);
void draft_close(draft *d);

/* What draft_open would take on a backend of this act type, before anything is opened. Weights that
 * the backend quantises are given as 5 bits each, which no layout of them exceeds. */
typedef struct {
    int64_t weights;
    int64_t kv, scratch;
    int64_t window; /* draft_window_priv.h: bytes of one */
    int64_t reach;  /* positions */
} draft_sizes;
status draft_plan(const load_model *files, const draft_options *o, const backend *b,
                  draft_sizes *out, err *e);

int draft_block(const draft *d); /* B */
/* Positions a row of context can still be seen from: a prompt position older than this before
 * the anchor need not be computed; 0 = all are needed. */
int draft_window(const draft *d);
/* On the device. */
int64_t draft_weight_bytes(const draft *d);
int64_t draft_kv_bytes(const draft *d); /* the rings */
int64_t draft_scratch_bytes(const draft *d);

/* As model_limits. */
backend_limits draft_limits(const draft *d);

/* Compute context K, V of rows whose hidden states are taps (act [T, n_taps * E], as model_taps)
 * and store the first n_commit[l] rows of each lane (all rows when n_commit is empty). Enqueues
 * only. */
status draft_context(draft *d, dev_buf taps, const ops_rows *rows, dev_buf n_commit);

/* Index arrays of a proposal, device memory, all by lane of the proposal: the lanes of a cycle
 * that want none are left out. The block is always computed whole, as each of its rows sees all
 * (model-spec 3.3); what follows it, head and selector, only for its first n_most proposals. */
typedef struct {
    int L;
    int n_most;         /* W, most proposals of one lane, 1 .. B-1 */
    dev_buf anchor;     /* i32 [L] */
    dev_buf anchor_pos; /* i32 [L] */
    dev_buf ctx_begin;  /* i32 [L] */
    dev_buf n_draft;    /* i32 [L], 1 .. W; 0: the lane is there to fill the shape */
    dev_buf lane_slot;  /* i32 [L] */
    dev_buf lane_row;   /* i32 [L+1] of the verify rows */
    dev_buf block_ids;  /* i32 [L*B] anchor, then mask ids */
    dev_buf block_pos;  /* i32 [L*B] */
    dev_buf row_index;  /* i32 [L*W] rows 1..W of each block; not read for L 1 */
    sample_lanes lanes;
    dev_buf proposals;  /* i32 [L, W] out */
    dev_buf verify_ids; /* i32 [T] out */
} draft_request;

/* Run the block and the selector's walk. Enqueues only. */
status draft_propose(draft *d, const model *target, const draft_request *r);

/* Views of the last calls, for parity tests: f32 [L*W, V]; act [L*W, E]; act [T, E]. */
dev_buf draft_logits(const draft *d);
dev_buf draft_hidden(const draft *d);
dev_buf draft_features(const draft *d);
int32_t draft_mask_id(const draft *d);

#endif
