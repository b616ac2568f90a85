/* ref_priv: what the files of ref/ share. One op a file; ref_backend.c holds the table.
 *
 * Activations are f32. Sums that an op's result rests on are formed in double, or in f32 runs of
 * at most REF_RUN elements that are then added in double, always in one order; transcendentals
 * are double; each output is rounded once. Work is cut by output element, so results don't
 * depend on the number of threads. */
#ifndef RIPTIDE_REF_PRIV_H
#define RIPTIDE_REF_PRIV_H

#include <math.h>
#include <stddef.h>

#include "backend/backend.h"
#include "base/workers.h"

typedef struct {
    backend base; /* first: a backend * is a ref_backend * */
    workers *pool;
    int n_workers;
    backend_limits limits;
    char *own; /* [n_workers][own_bytes] scratch, by reserve */
    int64_t own_bytes;
    char *shared; /* scratch of the calling thread that all workers read */
    int64_t shared_bytes;
} ref_backend;

static inline ref_backend *ref_of(backend *b)
{
    return (ref_backend *)b;
}

/* The worker's scratch; what an op may use of it is what its ref_*_own told reserve. */
static inline void *ref_own(const ref_backend *r, int worker)
{
    return r->own + worker * r->own_bytes;
}

/* Fails with LIMIT in b->last when reserve promised less than an op now needs. */
status ref_need(ref_backend *r, const char *op, int64_t own_bytes, int64_t shared_bytes);

/* Scratch bytes a worker, and shared, for the widest call that `l` allows. */
int64_t ref_linear_own(int64_t K);
int64_t ref_attn_own(int heads_per_kv, int D);
int64_t ref_gdn_own(int dk, int dv);
int64_t ref_moe_own(int64_t T, int64_t E, int K, int64_t F, int64_t shared_F);
int64_t ref_moe_shared(int64_t T, int X, int K, int64_t F, int64_t shared_F);
int64_t ref_sample_own(int64_t V);

/* A function with hot loops: compiled for wider vectors too, and the machine's taken when the
 * program starts. Each lane's operations keep their order and none are contracted, so the bits are
 * the same. Not under sanitizers: the choice is made before they are set up. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define REF_HOT __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define REF_HOT
#endif

/* ref_row.c: weight rows and dot products. */
enum {
    REF_ROWS = 4,  /* weight rows decoded at a time */
    REF_RUN = 256, /* elements summed in f32 before the sum goes to double */
};
/* Row i of [N, K] as f32: tensor_row_f32, faster where the type is common. */
void ref_row_decode(const tensor *t, int64_t i, float *out);
/* sum a[k] * b[k]: 16 f32 sums over each run of REF_RUN elements, added in double. */
double ref_row_dot(const float *a, const float *b, int64_t n);
/* The same with all sums in double, for scores: an exponential magnifies their error. */
double ref_row_dot_double(const float *a, const float *b, int64_t n);

/* ref_norm.c: y[d] = x[d] * rsqrt(mean(x^2) + eps) * w[d] in double. */
void ref_norm_row(const float *x, const float *w, float eps, int n, double *y);
/* ref_rope.c: rotate pairs (j, j + n_pairs) of x by cs[j] = (cos, sin). */
void ref_rope_rotate(double *x, const float *cs, int n_pairs);

/* ref_topk.c: the k largest of V values in descending order, ties to the lower index; a place
 * without a value becomes (-1, -inf). Values are scaled and capped first. */
void ref_topk_row(const float *x, int64_t V, int k, float scale, float softcap, int32_t *ids,
                  float *vals);

/* ref_pick.c: what sampling and the drafter's walk share (ops.h, sample_args). */
double ref_pick_penalise(const sample_policy *p, double y, uint32_t count_word, int n_more);
/* Survivors of the filters among z[0..n): their indices in keep[0..n), at least one when n > 0.
 * Ties go to the lower index, or to the lower id[index] when ids is given. */
int ref_pick_filter(const sample_policy *p, const double *z, const int32_t *ids, int n,
                    int32_t *keep);

static inline double ref_sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}
static inline double ref_silu(double x)
{
    return x / (1.0 + exp(-x));
}
static inline const int32_t *ref_i32(dev_buf b)
{
    return (const int32_t *)b.ptr;
}
static inline float *ref_f32(dev_buf b)
{
    return (float *)b.ptr;
}
/* Rows of lane l. */
static inline int ref_lane_rows(const ops_rows *r, int l)
{
    return ref_i32(r->lane_row)[l + 1] - ref_i32(r->lane_row)[l];
}
/* The vector of position pos, KV head g, in a cache [n_blocks, G, OPS_BLOCK, .]. */
static inline int64_t ref_kv_cell(const ops_rows *r, int slot, int pos, int G, int g)
{
    int64_t block = ref_i32(r->table)[(int64_t)slot * r->table_stride + pos / OPS_BLOCK];
    return (block * G + g) * OPS_BLOCK + pos % OPS_BLOCK;
}

status ref_embed(backend *b, const embed_args *a);
status ref_rmsnorm(backend *b, const rmsnorm_args *a);
status ref_linear(backend *b, const linear_args *a);
status ref_linear_swiglu(backend *b, const linear_swiglu_args *a);
status ref_gather_rows(backend *b, const gather_rows_args *a);
status ref_tap_store(backend *b, const tap_store_args *a);
status ref_rope_table(backend *b, const rope_table_args *a);
status ref_attn_prep(backend *b, const attn_prep_args *a);
status ref_attn(backend *b, const attn_args *a);
status ref_gdn_prep(backend *b, const gdn_prep_args *a);
status ref_gdn_scan(backend *b, const gdn_scan_args *a);
status ref_gdn_commit(backend *b, const gdn_commit_args *a);
status ref_moe_route(backend *b, const moe_route_args *a);
status ref_moe_ffn(backend *b, const moe_ffn_args *a);
status ref_draft_kv_write(backend *b, const draft_kv_write_args *a);
status ref_draft_attn_prep(backend *b, const draft_attn_prep_args *a);
status ref_draft_attn(backend *b, const draft_attn_args *a);
status ref_draft_attend(backend *b, const draft_attend_args *a);
status ref_draft_conv(backend *b, const draft_conv_args *a);
status ref_draft_enter(backend *b, const draft_enter_args *a);
status ref_draft_leave(backend *b, const draft_leave_args *a);
status ref_topk(backend *b, const topk_args *a);
status ref_draft_select(backend *b, const draft_select_args *a);
status ref_sample(backend *b, const sample_args *a);
status ref_accept(backend *b, const accept_args *a);
status ref_count_prompt(backend *b, const count_prompt_args *a);
status ref_mark(backend *b, const mark_args *a);

#endif
