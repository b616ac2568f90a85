#include <string.h>

#include "backend/backend_priv.h"
#include "backend/ref/ref_priv.h"
#include "base/mem.h"

/* ---- memory ------------------------------------------------------------------------------- */

static status ref_alloc(backend *b, int64_t n_bytes, dev_buf *out, err *e)
{
    (void)b;
    if (n_bytes < 0) return err_set(e, ERR_INVALID, "ref", -1, "%lld bytes", (long long)n_bytes);
    void *p = mem_new_aligned((size_t)n_bytes, 64);
    if (!p) return err_set(e, ERR_NOMEM, "ref", -1, "%lld bytes", (long long)n_bytes);
    *out = (dev_buf){p, n_bytes};
    return ERR_OK;
}

static void ref_release(backend *b, dev_buf *buf)
{
    (void)b;
    mem_free(buf->ptr);
    *buf = (dev_buf){0};
}

static status ref_upload(backend *b, dev_buf dst, const void *src, int64_t n_bytes)
{
    (void)b;
    if (n_bytes > 0) memcpy(dst.ptr, src, (size_t)n_bytes);
    return ERR_OK;
}

static status ref_download(backend *b, void *dst, dev_buf src, int64_t n_bytes)
{
    (void)b;
    if (n_bytes > 0) memcpy(dst, src.ptr, (size_t)n_bytes);
    return ERR_OK;
}

static status ref_copy(backend *b, dev_buf dst, dev_buf src, int64_t n_bytes)
{
    (void)b;
    if (n_bytes > 0) memmove(dst.ptr, src.ptr, (size_t)n_bytes);
    return ERR_OK;
}

static status ref_fill(backend *b, dev_buf dst, int byte, int64_t n_bytes)
{
    (void)b;
    if (n_bytes > 0) memset(dst.ptr, byte, (size_t)n_bytes);
    return ERR_OK;
}

static status ref_sync(backend *b)
{
    (void)b;
    return ERR_OK;
}

/* ---- weights: the file's own bytes -------------------------------------------------------- */

static bool is_known(dtype t)
{
    return dtype_is_float(t) || dtype_is_block(t) || t == DTYPE_AFFINE;
}

static status ref_weight_open(backend *b, const tensor *t, weight_use use, dev_weight *out, err *e)
{
    (void)b;
    char text[80];
    int n_dims = use == WEIGHT_EXPERTS ? 3 : 2;
    if (!is_known(t->type) || t->n_dims != n_dims) {
        return err_set(e, ERR_UNSUPPORTED, "ref weight", -1, "%s as a weight of %d dimensions",
                       tensor_format(t, text, sizeof text), n_dims);
    }
    dev_weight w = {.type = t->type, .bits = t->bits, .group = t->group, .use = use, .view = *t};
    w.X = n_dims == 3 ? (int)t->shape[0] : 1;
    w.N = t->shape[n_dims - 2];
    w.K = t->shape[n_dims - 1];
    w.n_bytes = t->n_bytes;
    if (t->type == DTYPE_AFFINE) {
        w.n_bytes += 2 * w.X * w.N * (w.K / t->group) * (dtype_bits(t->scale_type) / 8);
    }
    *out = w;
    return ERR_OK;
}

static void ref_weight_close(backend *b, dev_weight *w)
{
    (void)b;
    *w = (dev_weight){0};
}

/* ---- scratch ------------------------------------------------------------------------------ */

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static status ref_reserve(backend *b, const backend_limits *l, err *e)
{
    ref_backend *r = ref_of(b);
    int64_t K = max64(max64(l->K, l->E), max64(max64(l->F, l->N), max64(l->moe_F, l->shared_F)));
    int64_t own = ref_linear_own(K), shared = 0;
    if (l->G > 0) own = max64(own, ref_attn_own(l->H / l->G, l->D));
    own = max64(own, ref_gdn_own(l->gdn_dk, l->gdn_dv));
    if (l->X > 0) {
        own = max64(own, ref_moe_own(l->T, l->E, l->K_experts, l->moe_F, l->shared_F));
        shared = ref_moe_shared(l->T, l->X, l->K_experts, l->moe_F, l->shared_F);
    }
    own = max64(own, ref_sample_own(l->V));
    own = (own + 63) / 64 * 64;
    char *own_mem = mem_new_aligned((size_t)(own * r->n_workers), 64);
    char *shared_mem = mem_new_aligned((size_t)shared, 64);
    if (!own_mem || !shared_mem) {
        mem_free(own_mem);
        mem_free(shared_mem);
        return err_set(e, ERR_NOMEM, "ref scratch", -1, "%lld bytes",
                       (long long)(own * r->n_workers + shared));
    }
    mem_free(r->own);
    mem_free(r->shared);
    r->own = own_mem;
    r->shared = shared_mem;
    r->own_bytes = own;
    r->shared_bytes = shared;
    r->limits = *l;
    return ERR_OK;
}

status ref_need(ref_backend *r, const char *op, int64_t own_bytes, int64_t shared_bytes)
{
    if (own_bytes <= r->own_bytes && shared_bytes <= r->shared_bytes) return ERR_OK;
    return err_set(&r->base.last, ERR_LIMIT, op, -1,
                   "wants %lld + %lld bytes, reserved %lld + %lld", (long long)own_bytes,
                   (long long)shared_bytes, (long long)r->own_bytes, (long long)r->shared_bytes);
}

/* ---- graphs: none ------------------------------------------------------------------------- */

static bool ref_graph_replay(backend *b, uint64_t key)
{
    (void)b;
    (void)key;
    return false;
}

static status ref_graph_begin(backend *b, uint64_t key)
{
    (void)b;
    (void)key;
    return ERR_OK;
}

static status ref_graph_end(backend *b)
{
    (void)b;
    return ERR_OK;
}

static void ref_graph_drop(backend *b)
{
    (void)b;
}

static status ref_open_arena(backend *b, int64_t n_bytes, err *e)
{
    (void)b;
    (void)n_bytes;
    (void)e;
    return ERR_OK;
}

static void ref_close(backend *b)
{
    ref_backend *r = ref_of(b);
    if (!r) return;
    workers_close(r->pool);
    mem_free(r->own);
    mem_free(r->shared);
    mem_free(r);
}

static const backend_ops table = {
    .alloc = ref_alloc,
    .release = ref_release,
    .upload = ref_upload,
    .download = ref_download,
    .copy = ref_copy,
    .fill = ref_fill,
    .sync = ref_sync,
    .weight_open = ref_weight_open,
    .weight_close = ref_weight_close,
    .reserve = ref_reserve,
    .graph_replay = ref_graph_replay,
    .graph_begin = ref_graph_begin,
    .graph_end = ref_graph_end,
    .graph_drop = ref_graph_drop,
    .open_arena = ref_open_arena,
    .embed = ref_embed,
    .rmsnorm = ref_rmsnorm,
    .linear = ref_linear,
    .linear_swiglu = ref_linear_swiglu,
    .gather_rows = ref_gather_rows,
    .tap_store = ref_tap_store,
    .rope_table = ref_rope_table,
    .attn_prep = ref_attn_prep,
    .attn = ref_attn,
    .gdn_prep = ref_gdn_prep,
    .gdn_scan = ref_gdn_scan,
    .gdn_commit = ref_gdn_commit,
    .moe_route = ref_moe_route,
    .moe_ffn = ref_moe_ffn,
    .draft_kv_write = ref_draft_kv_write,
    .draft_attn_prep = ref_draft_attn_prep,
    .draft_attn = ref_draft_attn,
    .draft_attend = ref_draft_attend,
    .draft_conv = ref_draft_conv,
    .draft_enter = ref_draft_enter,
    .draft_leave = ref_draft_leave,
    .topk = ref_topk,
    .draft_select = ref_draft_select,
    .sample = ref_sample,
    .accept = ref_accept,
    .count_prompt = ref_count_prompt,
    .mark = ref_mark,
    .close = ref_close,
};

status ref_backend_open(backend **b, const char *isa, const backend_options *o, err *e)
{
    if (isa && strcmp(isa, "scalar") != 0) {
        return err_set(e, ERR_INVALID, "backend", -1, "ref has no '%s', only 'scalar'", isa);
    }
    ref_backend *r = mem_new(sizeof *r);
    if (!r) return err_set(e, ERR_NOMEM, "backend", -1, "ref: %zu bytes", sizeof *r);
    status s = workers_open(&r->pool, o->n_threads, e);
    if (s == ERR_OK && o->pins_threads) s = workers_pin(r->pool, e);
    if (s != ERR_OK) goto fail;
    r->n_workers = workers_count(r->pool);
    r->base = (backend){
        .ops = &table, .name = "ref", .isa = "scalar", .act = DTYPE_F32, .n_threads = r->n_workers};
    *b = &r->base;
    return ERR_OK;
fail:
    ref_close(&r->base);
    return s;
}
