/* backend: one table of operations that `ref`, `cpu` and `cuda` all implement in full.
 *
 * `ref` (scalar, f32) is the definition; ops.h holds each op's arguments, shapes and formula.
 * An op may return before its work is done: work runs in call order, and only download and sync
 * wait for it. Ops check nothing that model/ has checked at open; they allocate nothing.
 *
 * Identity: for one backend and instruction set, an output row's bits depend on that row's own
 * inputs alone, never on T, L, the other rows, the number of threads or the graph around it.
 *
 * Thread: one thread at a time owns a backend. */
#ifndef RIPTIDE_BACKEND_BACKEND_H
#define RIPTIDE_BACKEND_BACKEND_H

#include "backend/dev_buf.h"
#include "backend/ops.h"
#include "base/err.h"
#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct backend backend;

/* What a weight is for: a backend may lay it out differently for each. */
typedef enum {
    WEIGHT_LINEAR,  /* [N, K], y = x W^T */
    WEIGHT_EXPERTS, /* [X, N, K] */
    WEIGHT_TABLE,   /* [V, E], rows are looked up (embedding, selector codebooks) */
} weight_use;

/* A weight in the backend's own layout. Fields below `use` belong to the backend. */
struct dev_weight {
    dtype type; /* F32, F16, BF16, AFFINE as in the file */
    int bits, group;
    int64_t N, K;
    int X; /* 1 unless EXPERTS */
    weight_use use;
    tensor view; /* ref: the file's own bytes */
    dev_buf data, scales, biases;
    void *owned;     /* what weight_close must give back */
    int64_t n_bytes; /* in the backend's memory */
    int layout;
};

/* Upper bounds over all later op calls, so that scratch can be taken once. 0 = never used. */
typedef struct {
    int T;             /* rows of one call */
    int L;             /* lanes of one call */
    int rows_per_lane; /* verify rows a lane */
    int64_t E, K, N;   /* widest hidden, reduction and output of any linear but the head */
    int64_t F, moe_F, shared_F;
    int X, K_experts;
    int64_t V;
    int M;       /* rows of one lm_head, sample or topk call */
    int H, G, D; /* attention */
    int gdn_Hk, gdn_Hv, gdn_dk, gdn_dv;
    int64_t max_position;
} backend_limits;

typedef struct {
    /* Memory. alloc zeroes; upload and download block until the bytes are there. */
    status (*alloc)(backend *b, int64_t n_bytes, dev_buf *out, err *e);
    void (*release)(backend *b, dev_buf *buf); /* leaves zeros */
    status (*upload)(backend *b, dev_buf dst, const void *src, int64_t n_bytes);
    status (*download)(backend *b, void *dst, dev_buf src, int64_t n_bytes);
    status (*copy)(backend *b, dev_buf dst, dev_buf src, int64_t n_bytes);
    status (*fill)(backend *b, dev_buf dst, int byte, int64_t n_bytes);
    status (*sync)(backend *b);

    status (*weight_open)(backend *b, const tensor *t, weight_use use, dev_weight *out, err *e);
    void (*weight_close)(backend *b, dev_weight *w);
    status (*reserve)(backend *b, const backend_limits *limits, err *e);
    /* Before anything else is taken: one allocation for what alloc and weight_open take, in their
     * order, as far as n_bytes reach. A backend in the host's memory needs none.
     * Returns  NOMEM; UNSUPPORTED when it has one already */
    status (*open_arena)(backend *b, int64_t n_bytes, err *e);

    /* Graphs: when replay(key) says true the work captured under key was launched again.
     * Otherwise the caller brackets the same calls with begin and end. `ref` and `cpu` always
     * answer false and run the calls as they come. */
    bool (*graph_replay)(backend *b, uint64_t key);
    status (*graph_begin)(backend *b, uint64_t key);
    status (*graph_end)(backend *b);
    void (*graph_drop)(backend *b); /* instead of end, when a call between failed */

    /* Operations, one argument struct each (ops.h). */
    status (*embed)(backend *b, const embed_args *a);
    status (*rmsnorm)(backend *b, const rmsnorm_args *a);
    status (*linear)(backend *b, const linear_args *a);
    status (*linear_swiglu)(backend *b, const linear_swiglu_args *a);
    status (*gather_rows)(backend *b, const gather_rows_args *a);
    status (*tap_store)(backend *b, const tap_store_args *a);
    status (*rope_table)(backend *b, const rope_table_args *a);
    status (*attn_prep)(backend *b, const attn_prep_args *a);
    status (*attn)(backend *b, const attn_args *a);
    status (*gdn_prep)(backend *b, const gdn_prep_args *a);
    status (*gdn_scan)(backend *b, const gdn_scan_args *a);
    status (*gdn_commit)(backend *b, const gdn_commit_args *a);
    status (*moe_route)(backend *b, const moe_route_args *a);
    status (*moe_ffn)(backend *b, const moe_ffn_args *a);
    status (*draft_kv_write)(backend *b, const draft_kv_write_args *a);
    status (*draft_attn_prep)(backend *b, const draft_attn_prep_args *a);
    status (*draft_attn)(backend *b, const draft_attn_args *a);
    status (*draft_attend)(backend *b, const draft_attend_args *a);
    status (*draft_conv)(backend *b, const draft_conv_args *a);
    status (*draft_enter)(backend *b, const draft_enter_args *a);
    status (*draft_leave)(backend *b, const draft_leave_args *a);
    status (*topk)(backend *b, const topk_args *a);
    status (*draft_select)(backend *b, const draft_select_args *a);
    status (*sample)(backend *b, const sample_args *a);
    status (*accept)(backend *b, const accept_args *a);
    status (*count_prompt)(backend *b, const count_prompt_args *a);
    status (*mark)(backend *b, const mark_args *a);

    void (*close)(backend *b);
} backend_ops;

struct backend {
    const backend_ops *ops;
    const char *name;      /* "ref", "cpu", "cuda" */
    char isa[32];          /* "scalar", "avx2", "avx512vnni", "sm_90": part of Identity */
    dtype act;             /* type of activations between ops: F32 or BF16 */
    bool quantises_drafts; /* false on ref, which keeps them as stored */
    int n_threads;
    int64_t memory_free; /* of a device of its own, when it was opened; 0: the host's is used */
    bool has_graphs;     /* replays what it captured: calls are worth padding to few shapes */
    int64_t n_captures;  /* graphs captured so far */
    int64_t n_nodes;     /* kernels, copies and fills of the last one */
    err last;            /* what the last failing op said */
};

typedef struct {
    const char *name;  /* "ref", "cpu", "cuda", or with ":isa" behind; NULL = best there is */
    int n_threads;     /* 0 = all cores */
    bool pins_threads; /* each but the caller's to a core of its own (base/workers.h); host only */
} backend_options;

/* Returns  INVALID for an unknown name or threads that cannot be pinned, UNSUPPORTED when this
 * build or machine lacks it
 * Owns     the caller closes with b->ops->close(b) */
status backend_open(backend **b, const backend_options *o, err *e);

/* Rows of a prompt's step that suit the backend of this name (NULL: as cpu): with fewer it loses
 * much of its speed, with more it gains little. */
int backend_prefill_rows(const char *name);

/* What weight_open of the backend of this name (NULL: as cpu) takes for a weight of one of GGUF's
 * block types, for plans that are made without a backend; 0 where it reads the file's own bytes:
 * ref does, and cpu when rows are looked up. Other types take about what they have in the file. */
int64_t backend_block_bytes(const char *name, const tensor *t, weight_use use);

/* "cpu, cuda, ref": what this build knows, for messages. */
const char *backend_names(void);

#ifdef __cplusplus
}
#endif
#endif
