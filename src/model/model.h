/* model: the target network over a backend: weights, caches, states, and one forward pass.
 *
 * Speaks rows and slots. Which blocks a slot owns is decided elsewhere (cache/); their bytes
 * live here. Prompt, decode, verify and replay are the same pass over the same arithmetic.
 * Thread: the one that owns the backend. After open a forward allocates nothing. */
#ifndef RIPTIDE_MODEL_MODEL_H
#define RIPTIDE_MODEL_MODEL_H

#include "backend/backend.h"
#include "load/load.h"
#include "model/batch.h"

typedef struct model model;

typedef struct {
    int n_slots;         /* S, 1..64 */
    int max_rows;        /* most rows T of one forward, >= n_slots * verify_rows */
    int verify_rows;     /* most rows a lane in a pass with advance = false, 1..OPS_ROWS_MAX */
    int logit_rows;      /* most rows M that want logits in one forward */
    int64_t max_context; /* positions a slot may reach; rounded up to whole blocks */
    int64_t n_blocks;    /* KV blocks in the pool; 0 = n_slots * max_context / 64 */
    kv_format kv;
    int n_taps; /* layers whose outputs a draft reads */
    const int *taps;
    bool keeps_layers; /* keep every layer's output rows of the last forward (parity tests) */
    /* Called while weights are opened, on the opening thread; NULL for none. */
    void (*on_progress)(void *ctx, int layers_done, int layers);
    void *progress_ctx;
    bool has_penalties; /* counts are kept, [S, V] words */
} model_options;

/* Bytes by purpose, known before the first allocation. */
typedef struct {
    int64_t weights, kv, states, scratch;
} model_memory;

/* Open over an opened backend and files (both borrowed until close). The files' pages are given
 * back where the backend made its own copy.
 *
 * Returns  NOMEM with the breakdown in err.msg, INVALID for options out of range */
status model_open(model **m, backend *b, const load_model *files, const model_options *o, err *e);
void model_close(model *m);

/* What model_open would take for these files and options on a backend with this act type; the
 * weights as they lie in the files. Nothing is allocated on a device. */
status model_plan(const load_model *files, const model_options *o, dtype act, model_memory *out,
                  err *e);

const arch_target *model_arch(const model *m);
const model_options *model_settings(const model *m);
model_memory model_bytes(const model *m);

/* What the passes of this model ask of the backend's scratch; the caller joins it with the
 * draft's and calls backend_ops.reserve once before the first forward. */
backend_limits model_limits(const model *m);

/* Tell the device which KV blocks a slot owns from block index `from` on. */
status model_set_table(model *m, int slot, int from, const int32_t *blocks, int n);

/* Zero the slot's recurrent states, convolution windows and token counts. */
status model_reset_slot(model *m, int slot);

/* Put the batch's index arrays on the device: model_rows then describes them. */
status model_upload(model *m, const batch *b);

/* Run the pass over the uploaded rows; enqueues only. The ids are read from model_rows(m)->ids,
 * where a drafter may have written proposals since. */
status model_forward(model *m);

/* After a pass with advance = false: move states by n_commit[l] rows (i32 [L], device). */
status model_commit(model *m, dev_buf n_commit);

/* Device views of the last upload and forward. */
const ops_rows *model_rows(const model *m);
dev_buf model_logits(const model *m);               /* f32 [M, V] */
dev_buf model_logit_row(const model *m);            /* i32 [M] */
dev_buf model_taps(const model *m);                 /* act [T, n_taps * E] */
dev_buf model_counts(const model *m);               /* u32 [S, V], or empty */
dev_buf model_layer_out(const model *m, int layer); /* f32 [T, E], keeps_layers only */
const dev_weight *model_embedding(const model *m);  /* TABLE [V, E] */
const dev_weight *model_head(const model *m);       /* LINEAR [V, E] */

#endif
