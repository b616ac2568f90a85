/* cycle: one decode cycle, with or without a guess: propose, verify, sample, accept, commit.
 *
 * Owns the backend, the target and the draft. Plain decoding is the cycle with no proposals. The
 * prompt's last token is the first anchor, so that the first answer token comes out of a cycle
 * like every other.
 *
 * A slot holds one sequence: reset it, set its policy, give it KV blocks, prefill all prompt
 * tokens but the last, then step. Thread: one. After open nothing here allocates. */
#ifndef RIPTIDE_DECODE_CYCLE_H
#define RIPTIDE_DECODE_CYCLE_H

#include "load/load.h"
#include "model/model.h"

typedef struct cycle cycle;

/* What a cycle takes in bytes, before anything is opened; weights as they lie in the files. */
typedef struct cycle_sizes {
    int n_slots;
    int64_t weights, scratch;
    int64_t states;          /* of all slots */
    int64_t draft, draft_kv; /* weights; rings; 0 without one */
    int64_t block;           /* of KV, 64 positions in all layers */
    int64_t context_blocks;  /* that one sequence of max_context takes */
    int64_t cell, window;    /* of a snapshot (snapshot.h); window 0 when nothing is drafted */
    int window_blocks;
    bool is_host;        /* all of it is in the host's memory */
    int64_t device_free; /* else what the device has, 0 when that is not known */
} cycle_sizes;

typedef struct {
    const char *model;   /* path of a checkpoint */
    const char *draft;   /* path, or NULL for none */
    const char *backend; /* backend_open's name, or NULL */
    int n_threads;       /* 0 = all cores */
    bool pins_threads;   /* backend_options */
    int n_slots;         /* lanes; 0 = as many as `fits` takes */
    int prefill_rows;    /* most rows of a prefill call; 0 = as suits the backend */
    int64_t
        max_context;  /* positions a slot may reach; 0 or more than the model has = the model's */
    int64_t n_blocks; /* KV blocks, 0 = enough for all slots */
    kv_format kv;
    bool has_narrow_states; /* BF16 (model/narrow.h), else f32 */
    int max_draft;          /* most proposals a cycle, -1 = the draft's block - 1 */
    int logit_rows;         /* rows of logits a prefill may ask for (probes); 0 = none */
    bool keeps_layers;
    bool spoils_drafts; /* tests: every proposal becomes token 0 */
    int draft_window;   /* tests: draft_options.window */
    /* Called when sizes are known and nothing is allocated yet, to choose n_blocks (*n_blocks holds
     * what it would be) or to refuse; NULL for none. */
    status (*on_sizes)(void *ctx, const struct cycle_sizes *sizes, int64_t *n_blocks, err *e);
    void *sizes_ctx;
    /* With n_slots 0: whether so many are of use, by their sizes. Some numbers from 64 down are
     * asked for; the first that fits is taken, else 1. */
    bool (*fits)(void *ctx, const struct cycle_sizes *sizes);
    void *fits_ctx;
    /* Called while the target's weights are opened; NULL for none. */
    void (*on_progress)(void *ctx, int layers_done, int layers);
    void *progress_ctx;
} cycle_options;

/* Sizes by purpose, in bytes. */
typedef struct {
    model_memory target;
    int64_t draft_weights, draft_kv, draft_scratch;
    int64_t load_bytes; /* of weights in the files, the draft's too */
    double load_ms;     /* from opening the files to the last weight in place */
} cycle_memory;

/* Returns  what load, backend and model return; INVALID when draft and target do not fit */
status cycle_open(cycle **c, const cycle_options *o, err *e);
void cycle_close(cycle *c);

/* What cycle_open would give the target for these options and checkpoints (drafter NULL without
 * one) on a backend with this act type, and the bytes that takes; nothing is opened. */
status cycle_plan(const cycle_options *o, const load_model *target, const load_model *drafter,
                  dtype act, model_options *settings, model_memory *bytes, err *e);

/* The sizes of that, for a backend of which only act, quantises_drafts and name count. */
status cycle_plan_sizes(const cycle_options *o, const load_model *target, const load_model *drafter,
                        const backend *be, cycle_sizes *out, err *e);

/* Set n_slots and prefill_rows where they are 0, as opening does. */
status cycle_settle_options(cycle_options *o, const load_model *target, const load_model *drafter,
                            const backend *be, err *e);

/* All of it with so many blocks of KV. */
int64_t cycle_sizes_total(const cycle_sizes *s, int64_t n_blocks);

const load_model *cycle_files(const cycle *c); /* the target's */
const backend *cycle_backend(const cycle *c);
model *cycle_model(const cycle *c);
cycle_memory cycle_bytes(const cycle *c);
bool cycle_has_draft(const cycle *c);
int cycle_max_draft(const cycle *c); /* 0 without a draft */
int64_t cycle_max_context(const cycle *c);
int64_t cycle_n_blocks(const cycle *c);
int cycle_prefill_rows(const cycle *c); /* most rows of cycle_prefill */

/* Zero the slot's states and forget its context. */
status cycle_reset(cycle *c, int slot);

/* Settings of the slot's sequence; up to OPS_BIAS_MAX bias entries (policy.n_bias of them). */
status cycle_set_policy(cycle *c, int slot, const sample_policy *p, const sample_bias *bias);

/* Mark ids as prompt for the repetition penalty. Only for lanes with penalties. */
status cycle_mark_prompt(cycle *c, int slot, const int32_t *ids, int n);

/* The slot's token counts as a whole, words [V] as ops.h has them: of a sequence that goes on with
 * what it had emitted. Only for lanes with penalties. */
status cycle_set_counts(cycle *c, int slot, const uint32_t *words);

/* The slot's KV blocks from block index `from` on. */
status cycle_set_blocks(cycle *c, int slot, int from, const int32_t *blocks, int n);

/* A slice of a prompt: n ids at positions pos .. pos+n-1. */
typedef struct {
    int slot;
    const int32_t *ids;
    int n;
    int64_t pos;
    int64_t prompt_end; /* position of the first anchor: context older than the draft's window
                         * before it is left out */
    int n_logits;       /* last rows that want logits (read with model_logits) */
} cycle_slice;

/* Run slices of several slots in one pass. Rows in all <= prefill_rows. With narrow states it is a
 * pass for each block, and a slice that wants logits lies in one. */
status cycle_prefill(cycle *c, const cycle_slice *slices, int n);

/* Wait until all that was enqueued is done. */
status cycle_sync(cycle *c);

/* What the next tokens of a lane may be. `fill` writes masks in the form of the op `sample`: row i
 * of [n + 1, (V + 31) / 32] is for the token behind the anchor and proposals[0 .. i), n at most
 * n_draft. Rows behind a proposal that its own row forbids are never looked at, but must be there.
 * Thread: one of the cycle's own while cycle_step runs the target, or the caller's; never two at a
 * time. It must not allocate. */
typedef struct {
    void (*fill)(void *ctx, const int32_t *proposals, int n, uint32_t *rows);
    void *ctx;
    /* Before they are verified, put better proposals where these cannot be right; true when any was
     * changed. NULL: they stay. On the caller's thread. Never changes what is emitted. */
    bool (*guess)(void *ctx, int32_t *proposals, int n);
} cycle_mask;

typedef struct {
    int slot;
    int32_t anchor; /* last token of the sequence, not yet in the cache */
    int64_t pos;    /* its position */
    int n_draft;    /* proposals wanted, 0 .. cycle_max_draft */
    int max_new;    /* tokens that may still be emitted, >= 1; also an upper bound on what
                     * the slot's KV blocks must hold: pos + min(n_draft, max_new - 1) + 1 */
    bool wants_logprobs;
    cycle_mask mask; /* fill NULL: any token; else the slot's policy must say has_mask */
} cycle_lane;

typedef struct {
    int n; /* tokens emitted, 1 .. n_draft + 1 */
    int32_t ids[OPS_ROWS_MAX];
    float logprob[OPS_ROWS_MAX]; /* with wants_logprobs of any lane of the call */
    int32_t top_ids[OPS_ROWS_MAX][OPS_TOP_LOGPROBS];
    float top_logprobs[OPS_ROWS_MAX][OPS_TOP_LOGPROBS];
    int n_drafted, n_accepted;       /* accepted = proposals that were right */
    int32_t proposals[OPS_ROWS_MAX]; /* as drafted */
    bool has_nan; /* logits were no numbers: the ids mean nothing, the slot's content is in doubt */
} cycle_result;

/* Proposals that a lane whose anchor is at pos may have: with narrow states no more than its block
 * holds. */
int cycle_most_draft(const cycle *c, int64_t pos);

/* One cycle over L lanes (distinct slots); results in the same order.
 *
 * Returns  DEVICE when the backend failed */
status cycle_step(cycle *c, const cycle_lane *lanes, int L, cycle_result *out);

/* Moments of a cycle, in its own order; without proposals the first two stay as they were. */
typedef enum {
    CYCLE_MARK_DRAFT,   /* the draft's pass begins */
    CYCLE_MARK_DRAFTED, /* and ends */
    CYCLE_MARK_TARGET,  /* the target's forward pass begins */
    CYCLE_MARK_SAMPLE,  /* ends; sampling, acceptance and commit begin */
    CYCLE_MARK_CONTEXT, /* end; the draft's context begins */
    CYCLE_MARK_END,     /* and ends */
    CYCLE_MARKS,
} cycle_mark_at;

/* Whether cycles from here on note these moments, which costs them a little: for measuring. */
void cycle_set_marks(cycle *c, bool on);
/* Those of the last cycle, ns of one clock; waits for it.
 *
 * ns       [CYCLE_MARKS] */
status cycle_read_marks(cycle *c, uint64_t *ns);

/* Raw logits that the cycle just run drew the first token of its lane `lane` from. Only until
 * anything else runs.
 *
 * ids      [n] below V
 * Returns  DEVICE */
status cycle_read_logits(cycle *c, int lane, const int32_t *ids, int n, float *out);

/* Parity probe: forward over all ids of a fresh slot 0 in slices, then the draft's block whose
 * anchor is the last id. Needs logit_rows >= 1. Any output may be NULL. */
typedef struct {
    const int32_t *ids;
    int n;
    int rows;        /* last rows whose logits are wanted, <= n */
    float *logits;   /* [rows, V] */
    float *layers;   /* [n_layers, n, E]; needs keeps_layers */
    float *features; /* [n, E] draft context features */
    /* These need max_draft = -1: the draft's outputs are made for the rows asked for. */
    float *draft_hidden; /* [B-1, E] */
    float *draft_logits; /* [B-1, V] */
    int32_t *draft_path; /* [B-1] */
} cycle_probe_args;
status cycle_probe(cycle *c, const cycle_probe_args *a, err *e);
int cycle_block(const cycle *c); /* B of the draft, 0 without */

#endif
