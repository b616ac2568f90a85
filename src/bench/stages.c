#include "bench/stages_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/bench_priv.h"

typedef enum { PHASE_DRAFT, PHASE_TARGET, PHASE_CONTEXT } phase;

static struct {
    const backend_ops *inner;
    backend_ops wrapped;
    stage_table *out;
    stage_pass pass;
    phase phase;
    int n_embeds;
    const char *before; /* the op before this one */
} now;

void stages_set_pass(const stage_pass *p)
{
    now.pass = *p;
    now.phase = p->has_proposals ? PHASE_DRAFT : PHASE_TARGET;
    now.n_embeds = 0;
    now.before = "";
}

static stage *find(const char *name)
{
    stage_table *t = now.out;
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->list[i].name, name) == 0) return &t->list[i];
    stage *s = &t->list[t->n < STAGES_MAX ? t->n++ : STAGES_MAX - 1];
    snprintf(s->name, sizeof s->name, "%s", name);
    return s;
}

static void count(const char *op, const char *detail, double ns, cost c)
{
    static const char *const phases[] = {"draft", "target", "context"};
    char name[72];
    snprintf(name, sizeof name, "%s %s%s%s", phases[now.phase], op, detail[0] ? " " : "", detail);
    stage *s = find(name);
    s->n_calls++;
    s->ns += ns;
    s->n_bytes += (double)c.n_bytes;
    s->n_ops += (double)c.n_ops;
    now.out->n_calls++;
    now.out->ns += ns;
    now.out->n_bytes += (double)c.n_bytes;
    now.out->n_ops += (double)c.n_ops;
    now.before = op;
}

/* ---- what the rows see -------------------------------------------------------------------- */

static cost_rows target_rows(void)
{
    cost_rows r = {0};
    for (int l = 0; l < now.pass.L; l++) {
        int64_t pos = now.pass.pos[l], n = now.pass.n_rows[l];
        r.n_read += pos + n;
        r.n_seen += n * pos + n * (n + 1) / 2;
    }
    return r;
}

static cost_rows draft_rows(const draft_attn_args *a)
{
    cost_rows r = {0};
    for (int l = 0; l < now.pass.L; l++) {
        if (now.pass.n_rows[l] < 2) continue; /* not drafted for */
        int64_t seen = now.pass.pos[l];
        if (a->window > 0 && seen > a->window - 1) seen = a->window - 1;
        r.n_read += seen;
        r.n_seen += a->B * (seen + a->B);
    }
    return r;
}

/* The different experts of a call, from the device: 0 when that cannot be read. */
static int64_t count_experts(backend *b, const moe_ffn_args *a)
{
    static int32_t ids[1 << 17];
    static uint8_t is_chosen[1 << 12];
    int64_t n = (int64_t)a->T * a->K, count_of = 0;
    if (n > (int64_t)(sizeof ids / sizeof *ids) || a->X > (int)sizeof is_chosen) return 0;
    if (now.inner->download(b, ids, a->ids, n * 4) != ERR_OK) return 0;
    memset(is_chosen, 0, (size_t)a->X);
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= a->X) continue;
        count_of += !is_chosen[ids[i]];
        is_chosen[ids[i]] = 1;
    }
    return count_of;
}

/* ---- names -------------------------------------------------------------------------------- */

static const char *linear_role(const linear_args *a)
{
    if (now.phase == PHASE_CONTEXT && a->n_parts > 1) return "k/v";
    if (now.phase == PHASE_DRAFT && a->n_parts == 2) return "selector and head";
    if (a->n_parts == 4) return "gdn in";
    if (a->n_parts == 3) return "q/k/v";
    if (strcmp(now.before, "attn") == 0 || strcmp(now.before, "draft_attend") == 0)
        return "attn out";
    if (strcmp(now.before, "gdn_scan") == 0) return "gdn out";
    if (strcmp(now.before, "linear_swiglu") == 0) return "ffn down";
    if (a->part[0].w->N == now.pass.V) return "head";
    if (now.phase == PHASE_TARGET) return "router";
    if (now.phase == PHASE_CONTEXT) return "fc";
    return "other";
}

static void linear_detail(const linear_args *a, char *out, size_t cap)
{
    int64_t N = 0;
    for (int i = 0; i < a->n_parts; i++) N += a->part[i].w->N;
    snprintf(out, cap, "%s %ldx%ld", linear_role(a), (long)N, (long)a->part[0].w->K);
}

/* ---- wrappers ----------------------------------------------------------------------------- */

static double start(backend *b)
{
    now.inner->sync(b);
    return (double)clock_ns();
}

static double stop(backend *b, double from)
{
    now.inner->sync(b);
    return (double)clock_ns() - from;
}

#define WRAP(op, cost_of)                                   \
    static status wrap_##op(backend *b, const op##_args *a) \
    {                                                       \
        double from = start(b);                             \
        status s = now.inner->op(b, a);                     \
        double ns = stop(b, from);                          \
        if (s == ERR_OK) count(#op, "", ns, cost_of);       \
        return s;                                           \
    }

WRAP(rmsnorm, cost_rmsnorm(b, a))
WRAP(gather_rows, cost_gather_rows(b, a))
WRAP(tap_store, cost_tap_store(b, a))
WRAP(rope_table, cost_rope_table(b, a))
WRAP(attn_prep, cost_attn_prep(b, a))
WRAP(attn, cost_attn(b, a, &(cost_rows){target_rows().n_seen, target_rows().n_read, 0}))
WRAP(gdn_prep, cost_gdn_prep(b, a))
WRAP(gdn_scan, cost_gdn_scan(b, a))
WRAP(gdn_commit, cost_gdn_commit(b, a))
WRAP(moe_route, cost_moe_route(b, a))
WRAP(moe_ffn, cost_moe_ffn(b, a, &(cost_rows){.n_experts = count_experts(b, a)}))
WRAP(draft_kv_write, cost_draft_kv_write(b, a))
WRAP(draft_attn_prep, cost_draft_attn_prep(b, a))
WRAP(draft_attn, cost_draft_attn(b, a, &(cost_rows){draft_rows(a).n_seen, draft_rows(a).n_read, 0}))
WRAP(draft_attend,
     cost_draft_attend(b, a,
                       &(cost_rows){draft_rows(&a->attn).n_seen, draft_rows(&a->attn).n_read, 0}))
WRAP(draft_conv, cost_draft_conv(b, a))
WRAP(draft_enter, cost_draft_enter(b, a))
/* By what it projects: attention's output, or the FFN's. */
static status wrap_draft_leave(backend *b, const draft_leave_args *a)
{
    bool is_attn = strcmp(now.before, "draft_attend") == 0;
    double from = start(b);
    status s = now.inner->draft_leave(b, a);
    double ns = stop(b, from);
    if (s == ERR_OK)
        count("draft_leave", is_attn ? "attn out" : "ffn down", ns, cost_draft_leave(b, a));
    return s;
}

WRAP(topk, cost_topk(b, a))
WRAP(draft_select, cost_draft_select(b, a))
WRAP(sample, cost_sample(b, a))
WRAP(count_prompt, cost_count_prompt(b, a))

/* The draft's pass begins with an embedding, the target's with the next. */
static status wrap_embed(backend *b, const embed_args *a)
{
    if (now.n_embeds++ > 0) now.phase = PHASE_TARGET;
    double from = start(b);
    status s = now.inner->embed(b, a);
    double ns = stop(b, from);
    if (s == ERR_OK) count("embed", "", ns, cost_embed(b, a));
    return s;
}

static status wrap_linear(backend *b, const linear_args *a)
{
    char detail[64];
    const dev_weight *w = a->part[0].w;
    bool is_fc = w->N == now.pass.E && w->K == (int64_t)now.pass.n_taps * w->N;
    if (is_fc && a->part[0].out == LINEAR_F32) now.phase = PHASE_CONTEXT;
    linear_detail(a, detail, sizeof detail);
    double from = start(b);
    status s = now.inner->linear(b, a);
    double ns = stop(b, from);
    if (s == ERR_OK) count("linear", detail, ns, cost_linear(b, a));
    return s;
}

static status wrap_linear_swiglu(backend *b, const linear_swiglu_args *a)
{
    char detail[64];
    snprintf(detail, sizeof detail, "2x%ldx%ld", (long)a->gate->N, (long)a->gate->K);
    double from = start(b);
    status s = now.inner->linear_swiglu(b, a);
    double ns = stop(b, from);
    if (s == ERR_OK) count("linear_swiglu", detail, ns, cost_linear_swiglu(b, a));
    return s;
}

static status wrap_accept(backend *b, const accept_args *a)
{
    double from = start(b);
    status s = now.inner->accept(b, a);
    double ns = stop(b, from);
    if (s == ERR_OK) count("accept", "", ns, cost_accept(b, a));
    return s;
}

static bool no_replay(backend *b, uint64_t key)
{
    (void)b;
    (void)key;
    return false;
}

static status no_begin(backend *b, uint64_t key)
{
    (void)b;
    (void)key;
    return ERR_OK;
}

static status no_end(backend *b)
{
    (void)b;
    return ERR_OK;
}

void stages_begin(backend *b, stage_table *out)
{
    now.inner = b->ops;
    now.wrapped = *b->ops;
    now.out = out;
    backend_ops *w = &now.wrapped;
    w->graph_replay = no_replay;
    w->graph_begin = no_begin;
    w->graph_end = no_end;
#define SET(op) w->op = wrap_##op
    SET(embed), SET(rmsnorm), SET(linear), SET(linear_swiglu), SET(gather_rows), SET(tap_store);
    SET(rope_table), SET(attn_prep), SET(attn), SET(gdn_prep), SET(gdn_scan), SET(gdn_commit);
    SET(moe_route), SET(moe_ffn), SET(draft_kv_write), SET(draft_attn_prep), SET(draft_attn);
    SET(draft_attend), SET(draft_conv), SET(draft_enter), SET(draft_leave), SET(topk),
        SET(draft_select), SET(sample), SET(accept), SET(count_prompt);
#undef SET
    b->ops = w;
}

void stages_end(backend *b)
{
    b->ops = now.inner;
    now.out = NULL;
}

double stages_overhead(backend *b)
{
    enum { N = 101 };
    double ns[N];
    dev_buf d;
    if (b->ops->alloc(b, 256, &d, NULL) != ERR_OK) return 0;
    for (int i = 0; i < N; i++) {
        b->ops->sync(b);
        double from = (double)clock_ns();
        b->ops->fill(b, d, 0, 16);
        b->ops->sync(b);
        ns[i] = (double)clock_ns() - from;
    }
    b->ops->release(b, &d);
    qsort(ns, N, sizeof *ns, bench_by_value);
    return ns[N / 2];
}
