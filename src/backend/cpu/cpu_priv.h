/* cpu_priv: what the files of cpu/ share. cpu_backend.c holds the op table, one op a file.
 *
 * Activations are f32. Work is cut by output element or by fixed pieces of a sum, never by the
 * number of threads or rows, and every tile shape gives the same bits, so that a row's result is
 * its own (backend.h, Identity). All instruction sets give equal bits too. */
#ifndef RIPTIDE_BACKEND_CPU_PRIV_H
#define RIPTIDE_BACKEND_CPU_PRIV_H

#include "backend/backend.h"
#include "backend/cpu/cpu_kernels_priv.h"
#include "backend/cpu/cpu_mem_priv.h"
#include "base/workers.h"

typedef struct {
    backend base; /* first: a backend * is a cpu_backend * */
    const cpu_kernels *k;
    workers *pool;
    cpu_pool weights;
    int n_workers;
    int fetch_ahead;        /* as lin_tile.ahead */
    char *own;              /* [n_workers][own_bytes] scratch, by reserve */
    char *shared;           /* scratch of the calling thread that all workers see */
    int8_t *q;              /* quantised activations, elements */
    float *q_scale, *q_sum; /* [q_cap / 16] */
    int64_t own_bytes, shared_bytes, q_cap;
} cpu_backend;

static inline cpu_backend *cpu_of(backend *b)
{
    return (cpu_backend *)b;
}

static inline void *cpu_own(const cpu_backend *c, int worker)
{
    return c->own + worker * c->own_bytes;
}

static inline const int32_t *cpu_i32(dev_buf b)
{
    return (const int32_t *)b.ptr;
}

static inline float *cpu_f32(dev_buf b)
{
    return (float *)b.ptr;
}

static inline int64_t cpu_align64(int64_t n)
{
    return (n + 63) / 64 * 64;
}

/* Fails with LIMIT in b->last when reserve promised less than an op now needs. */
status cpu_need(cpu_backend *c, const char *op, int64_t own_bytes, int64_t shared_bytes,
                int64_t q_elements);

/* Scratch for the widest call that the limits allow. */
typedef struct {
    int64_t own, shared, q;
} cpu_scratch;
cpu_scratch cpu_moe_scratch(const moe_ffn_args *a);
cpu_scratch cpu_attn_scratch(int T, int L, int H, int G, int D, int n_workers);
cpu_scratch cpu_sample_scratch(int M, int64_t V);
cpu_scratch cpu_draft_scratch(int H, int G, int D, int B);
cpu_scratch cpu_topk_scratch(int M, int64_t V);

/* ---- cpu_weight.c ------------------------------------------------------------------------- */

status cpu_weight_open(backend *b, const tensor *t, weight_use use, dev_weight *out, err *e);
void cpu_weight_close(backend *b, dev_weight *w);
/* cpu_block.c: a LINEAR or EXPERTS weight of a block type. */
status cpu_block_weight_open(backend *b, const tensor *t, weight_use use, dev_weight *out, err *e);
/* cpu_block_panel.c: the kind of panels that hold t in its type's own form; false when there is
 * none or rows are no whole blocks of it. */
bool cpu_block_kind(const tensor *t, panel_kind *kind);
/* Row `row` of t as output n of a panel of that kind. codes [K] and groups [2][K / group] are
 * scratch. */
void cpu_block_row(const tensor *t, panel_kind kind, int64_t row, int64_t n, uint8_t *codes,
                   float *groups, uint8_t *panel);
/* The panels of a LINEAR or EXPERTS weight. */
panel_format cpu_weight_format(const dev_weight *w);
int cpu_weight_layout(panel_format f); /* as dev_weight.layout */
static inline int64_t cpu_weight_panels(const dev_weight *w)
{
    return (w->N + PANEL_N - 1) / PANEL_N;
}

/* ---- cpu_quant.c: activations as int8 ----------------------------------------------------- */

/* Rows [n, K] in the int8 scratch: row i at q + i * K, its scales at scale + i * K / group. */
typedef struct {
    int8_t *q;
    float *scale, *sum;
    int64_t K;
    int group;
} cpu_quant;
/* The view that starts `at` elements (a multiple of 64) into the scratch. */
cpu_quant cpu_quant_at(const cpu_backend *c, int64_t at, int64_t K, int group);
/* Quantise x [n, K] into v, on all threads when that is worth it. */
void cpu_quant_rows(cpu_backend *c, const float *x, int64_t n, cpu_quant v);

/* ---- ops ---------------------------------------------------------------------------------- */

status cpu_embed(backend *b, const embed_args *a);
status cpu_rmsnorm(backend *b, const rmsnorm_args *a);
status cpu_linear(backend *b, const linear_args *a);
status cpu_linear_swiglu(backend *b, const linear_swiglu_args *a);
status cpu_gather_rows(backend *b, const gather_rows_args *a);
status cpu_tap_store(backend *b, const tap_store_args *a);
status cpu_rope_table(backend *b, const rope_table_args *a);
status cpu_attn_prep(backend *b, const attn_prep_args *a);
status cpu_attn(backend *b, const attn_args *a);
status cpu_gdn_prep(backend *b, const gdn_prep_args *a);
status cpu_gdn_scan(backend *b, const gdn_scan_args *a);
status cpu_gdn_commit(backend *b, const gdn_commit_args *a);
status cpu_moe_route(backend *b, const moe_route_args *a);
status cpu_moe_ffn(backend *b, const moe_ffn_args *a);
status cpu_draft_kv_write(backend *b, const draft_kv_write_args *a);
status cpu_draft_attn_prep(backend *b, const draft_attn_prep_args *a);
status cpu_draft_attn(backend *b, const draft_attn_args *a);
status cpu_draft_attend(backend *b, const draft_attend_args *a);
status cpu_draft_conv(backend *b, const draft_conv_args *a);
status cpu_draft_enter(backend *b, const draft_enter_args *a);
status cpu_draft_leave(backend *b, const draft_leave_args *a);
status cpu_topk(backend *b, const topk_args *a);
status cpu_draft_select(backend *b, const draft_select_args *a);
status cpu_sample(backend *b, const sample_args *a);
status cpu_accept(backend *b, const accept_args *a);
status cpu_count_prompt(backend *b, const count_prompt_args *a);
status cpu_mark(backend *b, const mark_args *a);

#endif
