#include <stdio.h>
#include <string.h>

#include "backend/backend_priv.h"
#include "backend/cpu/cpu_attn_priv.h"
#include "backend/cpu/cpu_pick_priv.h"
#include "backend/cpu/cpu_priv.h"
#include "backend/cpu/cpuid_priv.h"
#include "base/mem.h"

/* ---- memory ------------------------------------------------------------------------------- */

static status cpu_alloc(backend *b, int64_t n_bytes, dev_buf *out, err *e)
{
    (void)b;
    if (n_bytes < 0) return err_set(e, ERR_INVALID, "cpu", -1, "%lld bytes", (long long)n_bytes);
    void *p = cpu_mem_new(n_bytes);
    if (!p) return err_set(e, ERR_NOMEM, "cpu", -1, "%lld bytes", (long long)n_bytes);
    *out = (dev_buf){p, n_bytes};
    return ERR_OK;
}

static void cpu_release(backend *b, dev_buf *buf)
{
    (void)b;
    mem_free(buf->ptr);
    *buf = (dev_buf){0};
}

static status cpu_upload(backend *b, dev_buf dst, const void *src, int64_t n_bytes)
{
    (void)b;
    if (n_bytes > 0) memcpy(dst.ptr, src, (size_t)n_bytes);
    return ERR_OK;
}

static status cpu_download(backend *b, void *dst, dev_buf src, int64_t n_bytes)
{
    (void)b;
    if (n_bytes > 0) memcpy(dst, src.ptr, (size_t)n_bytes);
    return ERR_OK;
}

static status cpu_copy(backend *b, dev_buf dst, dev_buf src, int64_t n_bytes)
{
    (void)b;
    if (n_bytes > 0) memmove(dst.ptr, src.ptr, (size_t)n_bytes);
    return ERR_OK;
}

static status cpu_fill(backend *b, dev_buf dst, int byte, int64_t n_bytes)
{
    (void)b;
    if (n_bytes > 0) memset(dst.ptr, byte, (size_t)n_bytes);
    return ERR_OK;
}

static status cpu_sync(backend *b)
{
    (void)b;
    return ERR_OK;
}

/* ---- graphs: none ------------------------------------------------------------------------- */

static bool cpu_graph_replay(backend *b, uint64_t key)
{
    (void)b;
    (void)key;
    return false;
}

static status cpu_graph_begin(backend *b, uint64_t key)
{
    (void)b;
    (void)key;
    return ERR_OK;
}

static status cpu_graph_end(backend *b)
{
    (void)b;
    return ERR_OK;
}

static void cpu_graph_drop(backend *b)
{
    (void)b;
}

static status cpu_open_arena(backend *b, int64_t n_bytes, err *e)
{
    (void)b;
    (void)n_bytes;
    (void)e;
    return ERR_OK;
}

/* ---- scratch ------------------------------------------------------------------------------ */

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void widen(cpu_scratch *s, cpu_scratch more)
{
    s->own = max64(s->own, more.own);
    s->shared = max64(s->shared, more.shared);
    s->q = max64(s->q, more.q);
}

/* The vectors along a head hold whole lanes, so that no kernel has a tail to think of. */
static status check_heads(const backend_limits *l, err *e)
{
    if (l->D % PANEL_N || l->D > ATTN_D_MAX)
        return err_set(e, ERR_UNSUPPORTED, "cpu", -1, "heads of %d, want a multiple of %d to %d",
                       l->D, PANEL_N, ATTN_D_MAX);
    if (l->G > 0 && l->H / l->G > ATTN_Q_MAX)
        return err_set(e, ERR_UNSUPPORTED, "cpu", -1, "%d query heads to a KV head, want <= %d",
                       l->H / l->G, ATTN_Q_MAX);
    if (l->gdn_dv % GDN_LANES)
        return err_set(e, ERR_UNSUPPORTED, "cpu", -1, "value heads of %d, want a multiple of %d",
                       l->gdn_dv, GDN_LANES);
    return ERR_OK;
}

static status cpu_reserve(backend *b, const backend_limits *l, err *e)
{
    cpu_backend *c = cpu_of(b);
    TRY(check_heads(l, e));
    int rows = l->T > l->M ? l->T : l->M;
    int64_t K = max64(max64(l->K, l->E), max64(l->F, max64(l->moe_F, l->shared_F)));
    /* the same rows may be wanted in groups of 64, of 32 and of 16 */
    cpu_scratch s = {.q = PANEL_GROUPS * cpu_align64(rows * K), .own = 2 * K * 4};
    if (l->G > 0) {
        widen(&s, cpu_attn_scratch(l->T, l->L > 0 ? l->L : 1, l->H, l->G, l->D, c->n_workers));
        widen(&s, cpu_draft_scratch(l->H, l->G, l->D, OPS_ROWS_MAX));
    }
    s.own = max64(s.own, GDN_SLICES * (int64_t)l->gdn_dk * GDN_LANES * 4);
    if (l->X > 0) {
        moe_ffn_args moe = {.T = l->T,
                            .E = (int)l->E,
                            .X = l->X,
                            .K = l->K_experts,
                            .F = (int)l->moe_F,
                            .shared_F = (int)l->shared_F};
        widen(&s, cpu_moe_scratch(&moe));
    }
    if (l->V > 0) {
        widen(&s, cpu_sample_scratch(rows, l->V));
        widen(&s, cpu_topk_scratch(rows, l->V));
    }
    s.own = cpu_align64(s.own);
    int64_t n_scales = s.q / 16;
    char *own = cpu_mem_new(s.own * c->n_workers);
    char *shared = cpu_mem_new(s.shared);
    int8_t *q = cpu_mem_new(s.q);
    float *scales = cpu_mem_new(2 * n_scales * 4);
    if (!own || !shared || !q || !scales) {
        mem_free(own);
        mem_free(shared);
        mem_free(q);
        mem_free(scales);
        return err_set(e, ERR_NOMEM, "cpu scratch", -1, "%lld bytes",
                       (long long)(s.own * c->n_workers + s.shared + s.q + 8 * n_scales));
    }
    mem_free(c->own);
    mem_free(c->shared);
    mem_free(c->q);
    mem_free(c->q_scale);
    c->own = own;
    c->shared = shared;
    c->q = q;
    c->q_scale = scales;
    c->q_sum = scales + n_scales;
    c->own_bytes = s.own;
    c->shared_bytes = s.shared;
    c->q_cap = s.q;
    return ERR_OK;
}

status cpu_need(cpu_backend *c, const char *op, int64_t own_bytes, int64_t shared_bytes,
                int64_t q_elements)
{
    if (own_bytes <= c->own_bytes && shared_bytes <= c->shared_bytes && q_elements <= c->q_cap)
        return ERR_OK;
    return err_set(&c->base.last, ERR_LIMIT, op, -1,
                   "wants %lld + %lld bytes and %lld codes, reserved %lld + %lld and %lld",
                   (long long)own_bytes, (long long)shared_bytes, (long long)q_elements,
                   (long long)c->own_bytes, (long long)c->shared_bytes, (long long)c->q_cap);
}

/* ---- open and close ----------------------------------------------------------------------- */

static void cpu_close(backend *b)
{
    cpu_backend *c = cpu_of(b);
    if (!c) return;
    workers_close(c->pool);
    cpu_pool_close(&c->weights);
    mem_free(c->own);
    mem_free(c->shared);
    mem_free(c->q);
    mem_free(c->q_scale);
    mem_free(c);
}

static const backend_ops table = {
    .alloc = cpu_alloc,
    .release = cpu_release,
    .upload = cpu_upload,
    .download = cpu_download,
    .copy = cpu_copy,
    .fill = cpu_fill,
    .sync = cpu_sync,
    .weight_open = cpu_weight_open,
    .weight_close = cpu_weight_close,
    .reserve = cpu_reserve,
    .graph_replay = cpu_graph_replay,
    .graph_begin = cpu_graph_begin,
    .graph_end = cpu_graph_end,
    .graph_drop = cpu_graph_drop,
    .open_arena = cpu_open_arena,
    .embed = cpu_embed,
    .rmsnorm = cpu_rmsnorm,
    .linear = cpu_linear,
    .linear_swiglu = cpu_linear_swiglu,
    .gather_rows = cpu_gather_rows,
    .tap_store = cpu_tap_store,
    .rope_table = cpu_rope_table,
    .attn_prep = cpu_attn_prep,
    .attn = cpu_attn,
    .gdn_prep = cpu_gdn_prep,
    .gdn_scan = cpu_gdn_scan,
    .gdn_commit = cpu_gdn_commit,
    .moe_route = cpu_moe_route,
    .moe_ffn = cpu_moe_ffn,
    .draft_kv_write = cpu_draft_kv_write,
    .draft_attn_prep = cpu_draft_attn_prep,
    .draft_attn = cpu_draft_attn,
    .draft_attend = cpu_draft_attend,
    .draft_conv = cpu_draft_conv,
    .draft_enter = cpu_draft_enter,
    .draft_leave = cpu_draft_leave,
    .topk = cpu_topk,
    .draft_select = cpu_draft_select,
    .sample = cpu_sample,
    .accept = cpu_accept,
    .count_prompt = cpu_count_prompt,
    .mark = cpu_mark,
    .close = cpu_close,
};

/* Intel's cores have 16 misses of the first-level cache under way and follow a stream within a page
 * of 4 KB: fetching into the second level lifts both. AMD's (Zen 4) read less when they are told
 * (bench/notes_cpu.md). */
enum { FETCH_AHEAD = 16 << 10 };

status cpu_backend_open(backend **b, const char *isa, const backend_options *o, err *e)
{
    const cpu_kernels *kernels;
    TRY(cpu_pick(isa, cpuid_read(), &kernels, e));
    cpu_backend *c = mem_new(sizeof *c);
    if (!c) return err_set(e, ERR_NOMEM, "backend", -1, "cpu: %zu bytes", sizeof *c);
    status s = workers_open(&c->pool, o->n_threads, e);
    if (s == ERR_OK && o->pins_threads) s = workers_pin(c->pool, e);
    if (s != ERR_OK) goto fail;
    c->k = kernels;
    c->n_workers = workers_count(c->pool);
    c->fetch_ahead = cpuid_is_intel() ? FETCH_AHEAD : 0;
    c->base = (backend){.ops = &table,
                        .name = "cpu",
                        .act = DTYPE_F32,
                        .quantises_drafts = true,
                        .n_threads = c->n_workers};
    snprintf(c->base.isa, sizeof c->base.isa, "%s", kernels->isa);
    *b = &c->base;
    return ERR_OK;
fail:
    cpu_close(&c->base);
    return s;
}
