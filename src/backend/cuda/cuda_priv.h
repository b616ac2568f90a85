/* cuda_priv: what the files of the cuda backend share: the backend struct, scratch, the ops.
 *
 * The launcher convention: every op is
 *     status cuda_<op>(backend *b, const <op>_args *a)        (extern "C", declared below)
 * in a file of its own idea. It takes `cuda_of(b)`, launches on its stream, ends with
 * `return CUDA_LAUNCHED(cb)`, and never allocates, synchronises or reads device memory.
 *
 * Scratch: ops run one after another on one stream, so all share cb->scratch from offset 0;
 * nothing in it outlives the op. An op that needs scratch adds its bytes for the reserved limits
 * in a function `int64_t cuda_<op>_scratch(const backend_limits *l)` which cuda_reserve lists;
 * the scratch is the largest of them. cb->counters holds CUDA_COUNTERS words that are zero
 * between ops: whoever counts in them sets them back to zero.
 *
 * Included from .cu files only. Thread: one at a time (backend.h). */
#ifndef RIPTIDE_BACKEND_CUDA_PRIV_H
#define RIPTIDE_BACKEND_CUDA_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

/* The C folders' headers carry no guards for C++. */
extern "C" {
#include "backend/backend.h"
#include "backend/cuda/weight_ahead_priv.h"
#include "backend/ops.h"
#include "base/asserts.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/workers.h"
#include "tensor/dtype.h"
#include "tensor/half.h"
#include "tensor/quant.h"
#include "tensor/tensor.h"
}

typedef __nv_bfloat16 bf16;

enum {
    CUDA_COUNTERS = 1 << 16, /* words of cb->counters: more than blocks x parts of any op */
    CUDA_GRAPHS_MAX = 256,   /* graphs kept; the least recently used goes first */
};

typedef struct {
    uint64_t key;
    uint64_t used; /* tick of the last replay */
    cudaGraphExec_t exec;
} cuda_graph;

/* h [T, N] += what an op left in the scratch: a linear its slices' sums, experts their products. */
typedef struct {
    float *h;
    int64_t N;
    int T;
    /* times * the slices' sums, f32 [slices, T, N]; slices 0: experts */
    const float *sums;
    float times;
    int slices;
    /* sum_k w_k product_k, then + sigmoid(gate) shared: f32 [T, K, N], [T, K], [T, N] or NULL, [T]
     */
    const float *product, *w, *shared, *gate;
    int K;
} waiting_sums;

/* What ops have left for the op behind them, which may do both in one launch (waiting.cuh). */
typedef struct {
    waiting_sums sums; /* h NULL: none */
    bool has_prep;
    gdn_prep_args prep;
    bool has_norm, has_router, has_route; /* each with those before it (moe_router.cuh) */
    rmsnorm_args norm;                    /* of sums */
    linear_args router;
    dev_weight router_w;
    moe_route_args route;
} cuda_waiting;

typedef struct cuda_backend {
    backend base; /* first: backend * and cuda_backend * convert by a cast */
    int device;
    int sm; /* of the kernels to run: 90 for compute capability 9.0 */
    int n_sms;
    int smem_block_max; /* bytes of dynamic shared memory that a block may ask for */
    int l2_bytes;
    void *map_encode;    /* the driver's cuTensorMapEncodeTiled, with sm 90 */
    cudaStream_t stream; /* all ops, copies and graphs */
    cudaStream_t upload; /* weight slices, so that pinned slices overlap the read of the file */
    void *pinned[2];     /* slices of CUDA_SLICE_BYTES: what is being sent */
    void *staged[2];     /* the same on the device, for what is repacked there */
    cudaEvent_t slice_free[2];
    int slice;        /* the one that cuda_slice_take gives next */
    workers *packers; /* owned; of the host, once a weight of a block type came */
    backend_limits limits;
    dev_buf arena; /* what most buffers are pieces of; they must be released before it */
    int64_t arena_used;
    dev_buf scratch;
    dev_buf counters;
    cuda_waiting waiting;
    bool is_capturing;
    uint64_t capture_key;
    uint64_t tick;
    int n_graphs;
    cuda_graph graphs[CUDA_GRAPHS_MAX];
    ahead_table ahead; /* of the linears */
    status broken;     /* ERR_DEVICE once the device has failed: every later call says so too */
} cuda_backend;

static inline cuda_backend *cuda_of(backend *b)
{
    return reinterpret_cast<cuda_backend *>(b);
}

/* The pointer of a buffer as T *, and T * at byte `offset` of the scratch. */
template <typename T> static inline T *buf_of(dev_buf b)
{
    return static_cast<T *>(b.ptr);
}
template <typename T> static inline T *scratch_at(cuda_backend *cb, int64_t offset)
{
    return reinterpret_cast<T *>(static_cast<char *>(cb->scratch.ptr) + offset);
}
/* Scratch pieces start on 256 bytes. */
static inline int64_t scratch_round(int64_t n_bytes)
{
    return (n_bytes + 255) & ~int64_t(255);
}
template <typename T> __host__ __device__ static inline T div_up(T a, T b)
{
    return (a + b - 1) / b;
}

/* cuda_mem.cu */
extern "C" {
status cuda_alloc(backend *b, int64_t n_bytes, dev_buf *out, err *e);
void cuda_release(backend *b, dev_buf *buf);
status cuda_upload(backend *b, dev_buf dst, const void *src, int64_t n_bytes);
status cuda_download(backend *b, void *dst, dev_buf src, int64_t n_bytes);
status cuda_copy(backend *b, dev_buf dst, dev_buf src, int64_t n_bytes);
status cuda_fill(backend *b, dev_buf dst, int byte, int64_t n_bytes);
status cuda_sync(backend *b);
status cuda_open_arena(backend *b, int64_t n_bytes, err *e);
void cuda_close_arena(cuda_backend *cb);
/* Device memory that is not zeroed; NOMEM when there is none left. */
status cuda_take(cuda_backend *cb, int64_t n_bytes, dev_buf *out, err *e);
/* ERR_LIMIT unless the reserved scratch holds n_bytes. */
status cuda_need(cuda_backend *cb, const char *op, int64_t n_bytes);

/* Weight slices: two pinned buffers, so that reading the file overlaps the copy before it. */
enum { CUDA_SLICE_BYTES = 16 << 20 };
typedef struct {
    void *host;   /* pinned, to be filled */
    void *device; /* where cuda_slice_send puts it */
} cuda_slice;
status cuda_slices_open(cuda_backend *cb, err *e);
void cuda_slices_close(cuda_backend *cb);
/* The next slice, once its last use is over. Then fill it, send it, launch on cb->upload what
 * reads it, and give it back. */
status cuda_slice_take(cuda_backend *cb, cuda_slice *s);
status cuda_slice_send(cuda_backend *cb, int64_t n_bytes);
status cuda_slice_give(cuda_backend *cb);
/* Wait for all that was sent. */
status cuda_slices_finish(cuda_backend *cb);
/* n_bytes of (possibly mapped) host memory to device memory, through the slices. */
status cuda_slices_copy(cuda_backend *cb, void *dst, const void *src, int64_t n_bytes);

/* cuda_weight.cu */
status cuda_weight_open(backend *b, const tensor *t, weight_use use, dev_weight *out, err *e);
void cuda_weight_close(backend *b, dev_weight *w);

/* cuda_graph.cu */
bool cuda_graph_replay(backend *b, uint64_t key);
status cuda_graph_begin(backend *b, uint64_t key);
status cuda_graph_end(backend *b);
void cuda_graph_drop(backend *b);
void cuda_graph_clear(cuda_backend *cb);

/* The ops, one file an idea. */
status cuda_embed(backend *b, const embed_args *a);
status cuda_rmsnorm(backend *b, const rmsnorm_args *a);
status cuda_linear(backend *b, const linear_args *a);
status cuda_linear_swiglu(backend *b, const linear_swiglu_args *a);
status cuda_gather_rows(backend *b, const gather_rows_args *a);
status cuda_tap_store(backend *b, const tap_store_args *a);
status cuda_rope_table(backend *b, const rope_table_args *a);
status cuda_attn_prep(backend *b, const attn_prep_args *a);
status cuda_attn(backend *b, const attn_args *a);
status cuda_gdn_prep(backend *b, const gdn_prep_args *a);
status cuda_gdn_scan(backend *b, const gdn_scan_args *a);
status cuda_gdn_commit(backend *b, const gdn_commit_args *a);
status cuda_moe_route(backend *b, const moe_route_args *a);
status cuda_moe_ffn(backend *b, const moe_ffn_args *a);
status cuda_draft_kv_write(backend *b, const draft_kv_write_args *a);
status cuda_draft_attn_prep(backend *b, const draft_attn_prep_args *a);
status cuda_draft_attn(backend *b, const draft_attn_args *a);
status cuda_draft_attend(backend *b, const draft_attend_args *a);
status cuda_draft_conv(backend *b, const draft_conv_args *a);
status cuda_draft_enter(backend *b, const draft_enter_args *a);
status cuda_draft_leave(backend *b, const draft_leave_args *a);
status cuda_topk(backend *b, const topk_args *a);
status cuda_draft_select(backend *b, const draft_select_args *a);
status cuda_sample(backend *b, const sample_args *a);
status cuda_accept(backend *b, const accept_args *a);
status cuda_count_prompt(backend *b, const count_prompt_args *a);
status cuda_mark(backend *b, const mark_args *a);

/* block_linear.cu: the same for weights of any kind, GGUF's block types among them. */
status cuda_any_linear(backend *b, const linear_args *a);
status cuda_any_linear_swiglu(backend *b, const linear_swiglu_args *a);
status cuda_any_moe_ffn(backend *b, const moe_ffn_args *a);

/* Shared memory beyond 48 KiB for the kernels that want it; once, at open. */
status linear_open(cuda_backend *cb);
status moe_ffn_open(cuda_backend *cb);
status moe_router_open(cuda_backend *cb);

/* Scratch of the ops that use it, in bytes, for the reserved limits. */
int64_t cuda_linear_scratch(const backend_limits *l);
int64_t cuda_linear_swiglu_scratch(const backend_limits *l);
int64_t cuda_moe_ffn_scratch(const backend_limits *l);
int64_t cuda_block_scratch(const backend_limits *l);
int64_t cuda_topk_scratch(const backend_limits *l);
int64_t cuda_attn_scratch(const backend_limits *l);
int64_t cuda_gdn_scratch(const backend_limits *l);
int64_t cuda_draft_scratch(const backend_limits *l);
int64_t cuda_sample_scratch(const backend_limits *l);
}

#endif
