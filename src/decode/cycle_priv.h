/* cycle: what is behind cycle.h, shared by opening, stepping and the probe. */
#ifndef RIPTIDE_DECODE_CYCLE_PRIV_H
#define RIPTIDE_DECODE_CYCLE_PRIV_H

#include "backend/dev_arena.h"
#include "base/thread.h"
#include "decode/cycle.h"
#include "decode/draft_priv.h"
#include "model/narrow.h"

/* Index arrays of a cycle beyond the model's own: one image on the host, one copy. */
typedef struct {
    dev_buf mem;
    uint8_t *host; /* owned */
    int64_t n_bytes;
    int64_t anchor, anchor_pos, ctx_begin, n_draft, max_new, lane_row, lane_slot;
    int64_t block_ids, block_pos, row_index; /* offsets */
} cycle_inputs;

/* What a cycle leaves for the host: one region, one copy back. */
typedef struct {
    dev_buf mem;
    uint8_t *host; /* owned */
    int64_t n_bytes;
    int64_t n_commit, emitted, proposals, token, logprob, top_ids, top_logprobs; /* offsets */
    int64_t n_small; /* bytes without the top logprobs */
} cycle_outputs;

/* Host arrays of a batch, sized for prefill_rows. */
typedef struct {
    int32_t *ids, *row_lane, *row_pos, *logit_row; /* owned, one block at ids */
    int32_t lane_row[64 + 1], lane_slot[64];
} cycle_rows;

/* Hidden rows whose context waits (cycle_pending.c). */
typedef struct {
    dev_buf taps;         /* act [max_rows, n_taps * E] */
    dev_buf words;        /* i32: slot [max_rows], position [max_rows], and two arrays of a pass */
    int32_t *host;        /* owned, the image of words */
    int max_rows;         /* 0 without a draft */
    int n_rows, n_cycles; /* that wait; cycles they are from */
} cycle_pending;

/* Masks of the verify rows (cycle_mask.c). */
typedef struct {
    dev_buf mem;    /* u32 [max_rows, n_words] */
    uint32_t *host; /* owned, its image */
    int n_words;
    int max_rows;
    thread helper;
    mutex lock; /* protects what follows; valid with has_lock */
    cond wake;  /* either side waits for the other */
    bool has_lock, is_stopping;
    bool is_due, is_begun;   /* begun: the helper is at it */
    const cycle_lane *lanes; /* of the masks that are due [n_lanes] */
    int n_lanes;
} cycle_masks;

/* The sizes of a cycle that ops take as host numbers. */
typedef struct {
    int T, L;     /* rows to verify, and lanes */
    int max_rows; /* of one lane */
    int D, W;     /* lanes of the proposal, proposals of each; 0 without */
} cycle_shape;

struct cycle {
    cycle_options opt;
    backend *be;
    load_model files, draft_files;
    bool has_draft;
    model *target;
    narrow *narrow; /* NULL: f32 states */
    draft *drafter; /* NULL without */
    int B;          /* block rows of the draft, 1 without */
    int max_draft;
    int max_rows;
    double load_ms;
    dev_arena mem;
    sample_lanes lanes;
    cycle_inputs in;
    cycle_outputs out;
    cycle_rows rows;
    cycle_pending pending;
    cycle_masks masks;
    cycle_shape shape;     /* of the cycle that was uploaded, padded */
    dev_buf marks;         /* u64 [CYCLE_MARKS] */
    bool has_marks;        /* cycles set them */
    int64_t ctx_begin[64]; /* by slot: first position whose context is in the rings */
};

/* Cut the options to what the checkpoints have (drafter NULL without one), fill in their defaults
 * (max_context, max_draft), and give the target's options that follow. */
model_options cycle_size_model(cycle_options *o, const arch_target *target,
                               const arch_draft *drafter);

/* The proposals of the d-th lane with any, on the host. */
const int32_t *cycle_proposals(const cycle *c, int d);

/* A view of n 32-bit words of a region. */
dev_buf cycle_view(dev_buf mem, int64_t offset, int64_t n);

/* Fill c->rows with the slices, upload, and run the target forward (advance). */
status cycle_forward_slices(cycle *c, const cycle_slice *slices, int n);

/* The slot's next position is pos: at a boundary narrow states are rounded. */
status cycle_round_at(cycle *c, int slot, int64_t pos);

/* Fill and upload the arrays of a cycle of L lanes; describe the proposal for those of them that
 * are to have any. */
status cycle_upload_inputs(cycle *c, const cycle_lane *lanes, int L);
draft_request cycle_draft_request(const cycle *c);

/* One half of a cycle with proposals, waited for: the draft's pass, or everything else over other
 * ids in its place. Only for measuring. */
typedef enum { CYCLE_DRAFT, CYCLE_VERIFY } cycle_half;
status cycle_run_half(cycle *c, const cycle_lane *lanes, int L, cycle_half half);

/* cycle_shape.c. The smallest class of rows or lanes that holds n, at most `most`, which does. */
int cycle_class(int n, int most);
cycle_shape cycle_shape_of(const cycle_lane *lanes, int L);
/* The shape whose graph serves it too. */
cycle_shape cycle_shape_pad(const cycle_shape *s, int n_slots, int max_draft);

/* cycle_mask.c: take from c->mem; open what is on the host, the helper thread too; close it. */
void cycle_masks_plan(cycle *c);
status cycle_masks_open(cycle *c, err *e);
void cycle_masks_close(cycle *c);
/* Let the helper fill the masks of a cycle whose proposals, if any, are in c->out.host. */
void cycle_masks_begin(cycle *c, const cycle_lane *lanes, int L);
/* Wait for it, or do it where the helper has not come to it; the masks are in c->masks.host then.
 */
void cycle_masks_wait(cycle *c);

/* cycle_pending.c: take from c->mem; the bytes taken; open what is on the host. */
void cycle_pending_plan(cycle *c);
int64_t cycle_pending_bytes(const cycle *c);
/* At most, for a plan. */
int64_t cycle_pending_plan_bytes(int n_slots, const arch_draft *a, dtype act);
status cycle_pending_open(cycle *c, err *e);
/* Keep the rows of the cycle that was just run, one a lane. */
status cycle_pending_add(cycle *c, const cycle_lane *lanes, int L);
/* Give the draft all context that waits. */
status cycle_pending_flush(cycle *c);
/* The slot's sequence is over: nothing of it may be written later. */
status cycle_pending_leave(cycle *c, int slot);

#endif
