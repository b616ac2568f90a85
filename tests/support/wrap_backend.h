/* wrap_backend: a backend around another, for what a real device does and a processor does not.
 *
 * It fails at the n-th op and from then on, as a device that has faulted; and it keeps the calls
 * between graph_begin and graph_end with the bytes of their arguments and makes them again for
 * graph_replay, as a device with captured graphs: whatever a caller changes on the host then has no
 * effect. It counts its ops and captures. Everything else is the inner backend's. */
#ifndef RIPTIDE_TESTS_WRAP_BACKEND_H
#define RIPTIDE_TESTS_WRAP_BACKEND_H

#include <string.h>

#include "backend/backend_priv.h"
#include "base/asserts.h"
#include "base/mem.h"

#define WRAP_OPS(X)    \
    X(embed)           \
    X(rmsnorm)         \
    X(linear)          \
    X(linear_swiglu)   \
    X(gather_rows)     \
    X(tap_store)       \
    X(rope_table)      \
    X(attn_prep)       \
    X(attn)            \
    X(gdn_prep)        \
    X(gdn_scan)        \
    X(gdn_commit)      \
    X(moe_route)       \
    X(moe_ffn)         \
    X(draft_kv_write)  \
    X(draft_attn_prep) \
    X(draft_attn)      \
    X(draft_attend)    \
    X(draft_conv)      \
    X(draft_enter)     \
    X(draft_leave)     \
    X(topk)            \
    X(draft_select)    \
    X(sample)          \
    X(accept)          \
    X(count_prompt)    \
    X(mark)

typedef struct {
    dev_buf dst, src;
    int byte;
    int64_t n_bytes;
} wrap_move;

#define WRAP_KIND(op) WRAP_##op,
typedef enum { WRAP_OPS(WRAP_KIND) WRAP_copy, WRAP_fill } wrap_kind;
#undef WRAP_KIND

/* The arguments of any op. */
#define WRAP_MEMBER(op) op##_args op;
typedef struct {
    wrap_kind kind;
    union {
        WRAP_OPS(WRAP_MEMBER)
        wrap_move move;
    } args;
} wrap_call;
#undef WRAP_MEMBER

enum { WRAP_GRAPHS_MAX = 256, WRAP_CALLS_MAX = 512 };

typedef struct {
    uint64_t key;
    int n;
    wrap_call *calls; /* owned */
} wrap_graph;

typedef struct {
    backend base;
    backend *inner;         /* owned */
    int64_t n_ops, fail_at; /* 0 = never */
    bool has_failed;
    int64_t arena_bytes; /* that were asked for */
    bool keeps_graphs;
    int64_t refuse_at; /* calls until one is refused while it is captured; 0 = never */
    bool is_capturing;
    int n_graphs;
    wrap_graph graphs[WRAP_GRAPHS_MAX];
} wrap_backend;

static inline wrap_backend *wrap_of(backend *b)
{
    return (wrap_backend *)(void *)b;
}

/* The wrapper's own failure, or what the inner backend said. */
static inline status wrap_passed(backend *b, status s)
{
    wrap_backend *w = wrap_of(b);
    if (w->has_failed) return ERR_DEVICE;
    if (s != ERR_OK) b->last = w->inner->last;
    return s;
}

static inline status wrap_run(wrap_backend *w, const wrap_call *c)
{
    if (w->has_failed) return ERR_DEVICE;
    if (c->kind < WRAP_copy && ++w->n_ops == w->fail_at) {
        w->has_failed = true;
        return err_set(&w->base.last, ERR_DEVICE, "wrap", -1, "op %lld fails, as was wished",
                       (long long)w->n_ops);
    }
    const backend_ops *ops = w->inner->ops;
    const wrap_move *m = &c->args.move;
    switch (c->kind) {
#define WRAP_CASE(op) \
    case WRAP_##op: return wrap_passed(&w->base, ops->op(w->inner, &c->args.op));
        WRAP_OPS(WRAP_CASE)
#undef WRAP_CASE
    case WRAP_copy: return wrap_passed(&w->base, ops->copy(w->inner, m->dst, m->src, m->n_bytes));
    case WRAP_fill: return wrap_passed(&w->base, ops->fill(w->inner, m->dst, m->byte, m->n_bytes));
    }
    return ERR_INVALID;
}

/* Captured calls run when the graph is complete, as cuda's do. */
static inline status wrap_do(backend *b, const wrap_call *c)
{
    wrap_backend *w = wrap_of(b);
    if (!w->is_capturing) return wrap_run(w, c);
    if (w->refuse_at > 0 && --w->refuse_at == 0)
        return err_set(&b->last, ERR_LIMIT, "wrap", -1, "a call is refused, as was wished");
    wrap_graph *g = &w->graphs[w->n_graphs];
    ASSERT(g->n < WRAP_CALLS_MAX);
    g->calls[g->n++] = *c;
    return ERR_OK;
}

#define WRAP_OP(op)                                                \
    static inline status wrap_##op(backend *b, const op##_args *a) \
    {                                                              \
        wrap_call c = {.kind = WRAP_##op};                         \
        c.args.op = *a;                                            \
        return wrap_do(b, &c);                                     \
    }
WRAP_OPS(WRAP_OP)
#undef WRAP_OP

static inline status wrap_do_copy(backend *b, dev_buf dst, dev_buf src, int64_t n_bytes)
{
    wrap_call c = {.kind = WRAP_copy};
    c.args.move = (wrap_move){.dst = dst, .src = src, .n_bytes = n_bytes};
    return wrap_do(b, &c);
}

static inline status wrap_do_fill(backend *b, dev_buf dst, int byte, int64_t n_bytes)
{
    wrap_call c = {.kind = WRAP_fill};
    c.args.move = (wrap_move){.dst = dst, .byte = byte, .n_bytes = n_bytes};
    return wrap_do(b, &c);
}

static inline status wrap_alloc(backend *b, int64_t n, dev_buf *out, err *e)
{
    return wrap_of(b)->inner->ops->alloc(wrap_of(b)->inner, n, out, e);
}

static inline void wrap_release(backend *b, dev_buf *buf)
{
    wrap_of(b)->inner->ops->release(wrap_of(b)->inner, buf);
}

static inline status wrap_upload(backend *b, dev_buf dst, const void *src, int64_t n)
{
    return wrap_passed(b, wrap_of(b)->inner->ops->upload(wrap_of(b)->inner, dst, src, n));
}

static inline status wrap_download(backend *b, void *dst, dev_buf src, int64_t n)
{
    return wrap_passed(b, wrap_of(b)->inner->ops->download(wrap_of(b)->inner, dst, src, n));
}

static inline status wrap_sync(backend *b)
{
    return wrap_passed(b, wrap_of(b)->inner->ops->sync(wrap_of(b)->inner));
}

static inline status wrap_weight_open(backend *b, const tensor *t, weight_use use, dev_weight *out,
                                      err *e)
{
    return wrap_of(b)->inner->ops->weight_open(wrap_of(b)->inner, t, use, out, e);
}

static inline void wrap_weight_close(backend *b, dev_weight *w)
{
    wrap_of(b)->inner->ops->weight_close(wrap_of(b)->inner, w);
}

static inline status wrap_reserve(backend *b, const backend_limits *l, err *e)
{
    return wrap_of(b)->inner->ops->reserve(wrap_of(b)->inner, l, e);
}

static inline status wrap_open_arena(backend *b, int64_t n_bytes, err *e)
{
    wrap_of(b)->arena_bytes = n_bytes;
    return wrap_of(b)->inner->ops->open_arena(wrap_of(b)->inner, n_bytes, e);
}

static inline bool wrap_graph_replay(backend *b, uint64_t key)
{
    wrap_backend *w = wrap_of(b);
    for (int i = 0; i < w->n_graphs; i++) {
        if (w->graphs[i].key != key) continue;
        status s = ERR_OK;
        for (int k = 0; k < w->graphs[i].n && s == ERR_OK; k++)
            s = wrap_run(w, &w->graphs[i].calls[k]);
        return s == ERR_OK;
    }
    return false;
}

static inline status wrap_graph_begin(backend *b, uint64_t key)
{
    wrap_backend *w = wrap_of(b);
    if (!w->keeps_graphs || w->has_failed) return wrap_passed(b, ERR_OK);
    ASSERT(!w->is_capturing && w->n_graphs < WRAP_GRAPHS_MAX);
    w->is_capturing = true;
    w->graphs[w->n_graphs].key = key;
    w->graphs[w->n_graphs].n = 0;
    return ERR_OK;
}

static inline status wrap_graph_end(backend *b)
{
    wrap_backend *w = wrap_of(b);
    if (!w->is_capturing) return wrap_passed(b, ERR_OK);
    wrap_graph *g = &w->graphs[w->n_graphs++];
    w->is_capturing = false;
    b->n_captures++;
    b->n_nodes = g->n;
    for (int k = 0; k < g->n; k++) {
        status s = wrap_run(w, &g->calls[k]);
        if (s != ERR_OK) return s;
    }
    return ERR_OK;
}

static inline void wrap_graph_drop(backend *b)
{
    wrap_of(b)->is_capturing = false;
}

static inline void wrap_close(backend *b)
{
    wrap_backend *w = wrap_of(b);
    w->inner->ops->close(w->inner);
    for (int i = 0; i < WRAP_GRAPHS_MAX; i++) mem_free(w->graphs[i].calls);
    mem_free(w);
}

static const backend_ops wrap_table = {
    .alloc = wrap_alloc,
    .release = wrap_release,
    .upload = wrap_upload,
    .download = wrap_download,
    .copy = wrap_do_copy,
    .fill = wrap_do_fill,
    .sync = wrap_sync,
    .weight_open = wrap_weight_open,
    .weight_close = wrap_weight_close,
    .reserve = wrap_reserve,
    .open_arena = wrap_open_arena,
    .graph_replay = wrap_graph_replay,
    .graph_begin = wrap_graph_begin,
    .graph_end = wrap_graph_end,
    .graph_drop = wrap_graph_drop,
#define WRAP_ROW(op) .op = wrap_##op,
    WRAP_OPS(WRAP_ROW)
#undef WRAP_ROW
        .close = wrap_close,
};

/* Around the backend of this name, opened as `o` says besides. */
static inline status wrap_open(wrap_backend **out, const char *name, const backend_options *o,
                               err *e)
{
    backend_options inner = *o;
    inner.name = name;
    wrap_backend *w = mem_new(sizeof *w);
    if (!w) return err_set(e, ERR_NOMEM, "backend", -1, "wrapper");
    status s = backend_open(&w->inner, &inner, e);
    if (s != ERR_OK) {
        mem_free(w);
        return s;
    }
    w->base = *w->inner;
    w->base.ops = &wrap_table;
    *out = w;
    return ERR_OK;
}

/* Let it keep graphs; their calls lie in memory that is taken here, since a step takes none. */
static inline void wrap_keep_graphs(wrap_backend *w)
{
    w->keeps_graphs = w->base.has_graphs = true;
    for (int i = 0; i < WRAP_GRAPHS_MAX; i++)
        w->graphs[i].calls = mem_new_array(WRAP_CALLS_MAX, sizeof *w->graphs[i].calls);
}

#endif
