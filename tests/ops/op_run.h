/* op_run: carry out an op_call on a backend, and compare what came out.
 *
 * Outputs start as 0xFF bytes (NaN, -1); each buffer stands between guard bytes that must stay,
 * and inputs must come back as they went in. */
#ifndef RIPTIDE_TESTS_OP_RUN_H
#define RIPTIDE_TESTS_OP_RUN_H

#include "base/mem.h"
#include "ops/op_call.h"

enum { OP_GUARD = 256, OP_GUARD_BYTE = 0x5a };

typedef struct {
    const char *backend, *isa;
    dtype act;
    char *before[OP_BUFS_MAX]; /* in the backend's types */
    char *after[OP_BUFS_MAX];
} op_result;

static inline int64_t op_dev_size(op_type t, dtype act)
{
    return t == OP_ACT && act == DTYPE_BF16 ? 2 : op_host_size(t);
}

static inline int64_t op_bytes(const op_buf *b, dtype act)
{
    return b->n * op_dev_size(b->type, act);
}

static inline char *op_image(op_call *c, const op_buf *b, dtype act)
{
    int64_t n = op_bytes(b, act);
    char *image = op_new(c, n, 1);
    if (b->role == OP_OUT) {
        memset(image, 0xff, (size_t)n);
    } else if (b->type == OP_ACT && act == DTYPE_BF16) {
        for (int64_t i = 0; i < b->n; i++) {
            ((uint16_t *)image)[i] = half_to_bf16(((const float *)b->host)[i]);
        }
    } else {
        memcpy(image, b->host, (size_t)n);
    }
    return image;
}

static inline void op_put(backend *b, op_call *c, dev_buf mem, const char *image, int64_t n)
{
    err e = {0};
    char *all = op_new(c, n + 2 * OP_GUARD, 1);
    memset(all, OP_GUARD_BYTE, (size_t)n + 2 * OP_GUARD);
    memcpy(all + OP_GUARD, image, (size_t)n);
    CHECK_OK(b->ops->upload(b, mem, all, n + 2 * OP_GUARD), &e);
}

static inline char *op_take(backend *b, op_call *c, dev_buf mem, int64_t n, const op_buf *buf)
{
    err e = {0};
    char *all = op_new(c, n + 2 * OP_GUARD, 1);
    CHECK_OK(b->ops->download(b, all, mem, n + 2 * OP_GUARD), &e);
    for (int64_t i = 0; i < OP_GUARD; i++) {
        if (all[i] != OP_GUARD_BYTE) fail_msg("%s writes before %s", b->name, buf->name);
        if (all[OP_GUARD + n + i] != OP_GUARD_BYTE) {
            fail_msg("%s writes %lld bytes behind %s", b->name, (long long)i, buf->name);
        }
    }
    return all + OP_GUARD;
}

/* A buffer that the call leaves out; one of no rows is there, as it is in the engine. */
static inline bool op_is_absent(const op_call *c, const op_buf *b)
{
    return b->n == 0 && op_units(c, b->axis, b->group) > 0;
}

/* Run the call; memory of the result is the call's. */
static inline op_result op_run(backend *b, op_call *c)
{
    op_result r = {.backend = b->name, .isa = b->isa, .act = b->act};
    err e = {0};
    dev_buf mem[OP_BUFS_MAX] = {0}, view[OP_BUFS_MAX] = {0};
    dev_weight w[OP_WEIGHTS_MAX] = {0};
    for (int i = 0; i < c->n_bufs; i++) {
        int64_t n = op_bytes(&c->buf[i], b->act);
        r.before[i] = op_image(c, &c->buf[i], b->act);
        if (op_is_absent(c, &c->buf[i])) continue;
        CHECK_OK(b->ops->alloc(b, n + 2 * OP_GUARD, &mem[i], &e), &e);
        op_put(b, c, mem[i], r.before[i], n);
        view[i] = dev_buf_at(mem[i], OP_GUARD);
        view[i].n_bytes = n;
    }
    for (int i = 0; i < c->n_weights; i++) {
        CHECK_OK(b->ops->weight_open(b, &c->weight[i], c->use[i], &w[i], &e), &e);
    }
    mem_guard_begin("an op");
    status done = c->run(b, c, view, w);
    mem_guard_end();
    CHECK_OK(done, &b->last);
    CHECK_OK(b->ops->sync(b), &b->last);
    for (int i = 0; i < c->n_bufs; i++) {
        int64_t n = op_bytes(&c->buf[i], b->act);
        if (op_is_absent(c, &c->buf[i])) continue;
        r.after[i] = op_take(b, c, mem[i], n, &c->buf[i]);
        if (c->buf[i].role == OP_IN && memcmp(r.after[i], r.before[i], (size_t)n) != 0) {
            fail_msg("%s changes its input %s", b->name, c->buf[i].name);
        }
        b->ops->release(b, &mem[i]);
    }
    for (int i = 0; i < c->n_weights; i++) b->ops->weight_close(b, &w[i]);
    return r;
}

static inline double op_value(const op_result *r, const op_call *c, int i_buf, int64_t i)
{
    const op_buf *b = &c->buf[i_buf];
    const char *p = r->after[i_buf];
    if (b->type == OP_BF16 || (b->type == OP_ACT && r->act == DTYPE_BF16)) {
        return (double)half_from_bf16(((const uint16_t *)p)[i]);
    }
    if (b->type == OP_I8) return (double)((const int8_t *)p)[i];
    if (b->type == OP_I32) return (double)((const int32_t *)p)[i];
    return (double)((const float *)p)[i];
}

/* Does unit u of a row-wise buffer belong to a lane? All else always counts. */
static inline bool op_counts(const op_call *c, const op_buf *b, int64_t i)
{
    int index;
    return b->axis != OP_ROW || op_row_lane(&c->lanes[b->group], i / b->unit, &index) >= 0;
}

/* Relative norm of the difference to `want` (or to another result when want is NULL). A NaN must
 * stand where it is wanted and nowhere else: else infinity. */
static inline double op_distance(const op_call *c, int i_buf, const op_result *got,
                                 const op_result *ref, const double *want)
{
    double diff = 0, norm = 0;
    const op_buf *b = &c->buf[i_buf];
    for (int64_t i = 0; i < b->n; i++) {
        if (!op_counts(c, b, i)) continue;
        if (b->follows && ref &&
            op_value(got, c, b->follows, i) != op_value(ref, c, b->follows, i)) {
            continue;
        }
        double g = op_value(got, c, i_buf, i), w = want ? want[i] : op_value(ref, c, i_buf, i);
        if (isnan(g) != isnan(w)) return INFINITY;
        if (isnan(g) || g == w) {
            norm += isnan(g) || isinf(g) ? 0 : w * w;
            continue;
        }
        if (isinf(g) || isinf(w)) return INFINITY;
        diff += (g - w) * (g - w);
        norm += w * w;
    }
    return diff == 0 ? 0 : norm == 0 ? INFINITY : sqrt(diff / norm);
}

/* int8 codes: a rounding may fall the other way, by one step and seldom. */
static inline void op_compare_codes(const op_call *c, int i_buf, const op_result *got,
                                    const op_result *ref, const double *want)
{
    int64_t n_off = 0;
    const op_buf *b = &c->buf[i_buf];
    for (int64_t i = 0; i < b->n; i++) {
        double w = want ? want[i] : op_value(ref, c, i_buf, i);
        double d = fabs(op_value(got, c, i_buf, i) - w);
        if (d > 1) fail_msg("%s: code %lld is off by %g", b->name, (long long)i, d);
        n_off += d > 0;
    }
    if ((double)n_off > 0.002 * (double)b->n + 2) {
        fail_msg("%s: %lld of %lld codes differ", b->name, (long long)n_off, (long long)b->n);
    }
}

static inline void op_compare_integers(const op_call *c, int i_buf, const op_result *got,
                                       const op_result *ref, const double *want)
{
    const op_buf *b = &c->buf[i_buf];
    const int32_t *g = (const int32_t *)got->after[i_buf];
    for (int64_t i = 0; i < b->n; i++) {
        int32_t w = want ? (int32_t)(int64_t)want[i] : ((const int32_t *)ref->after[i_buf])[i];
        if (g[i] == w || !op_counts(c, b, i)) continue;
        if (c->excuse && c->excuse(c, i_buf, i, g[i], w)) continue;
        fail_msg("case %d %s[%lld]: %s:%s has %d, %s %d", c->i_case, b->name, (long long)i,
                 got->backend, got->isa, g[i], want ? "the formula" : "ref", w);
    }
}

/* A bound on the relative norm of n random numbers: with few of them that norm may happen to be
 * small, while the error is not. */
static inline double op_bound(double bound, int64_t n)
{
    return bound * (1 + 10 / sqrt((double)n));
}

/* Of a backend that rounds to bf16 where its reading does: sums in another order, by which a value
 * falls to the other side of a rounding now and then. */
static const double OP_BOUND_ROUNDED = 1e-3;

/* All outputs against ref's; returns the largest relative norm. */
static inline double op_compare(const op_call *c, const op_result *got, const op_result *ref)
{
    double worst = 0, bound = got->act == DTYPE_BF16 ? c->bound_act : c->bound_f32;
    for (int i = 0; i < c->n_bufs; i++) {
        const op_buf *b = &c->buf[i];
        if (b->role == OP_IN || b->opaque || b->n == 0) continue;
        if (b->type == OP_I32) {
            op_compare_integers(c, i, got, ref, NULL);
        } else if (b->type == OP_I8) {
            op_compare_codes(c, i, got, ref, NULL);
        } else {
            /* What rounds as the second reading does is close to that, whatever it is of ref. */
            bool is_bf16 = b->want_bf16 && got->act == DTYPE_BF16 && strcmp(got->backend, "cpu");
            double d = op_distance(c, i, got, ref, is_bf16 ? b->want_bf16 : NULL);
            double most = b->type == OP_BF16 && bound < 1e-3 ? 1e-3 : bound;
            if (is_bf16) most = OP_BOUND_ROUNDED;
            if (b->bound_cpu > 0 && strcmp(got->backend, "cpu") == 0) most = b->bound_cpu;
            most = op_bound(most, b->n);
            if (!(d <= most)) {
                fail_msg("case %d %s: %s:%s is %.3g from ref, bound %.3g", c->i_case, b->name,
                         got->backend, got->isa, d, most);
            }
            if (d > worst && b->type != OP_BF16) worst = d;
        }
    }
    return worst;
}

/* All outputs that have a reading against it; returns the largest relative norm. */
static inline double op_compare_reading(const op_call *c, const op_result *got)
{
    double worst = 0;
    for (int i = 0; i < c->n_bufs; i++) {
        const op_buf *b = &c->buf[i];
        if (!b->want || b->n == 0 || b->opaque) continue;
        if (b->type == OP_I8) {
            op_compare_codes(c, i, got, NULL, b->want);
            continue;
        }
        if (b->type == OP_I32) {
            op_compare_integers(c, i, got, NULL, b->want);
            continue;
        }
        double d = op_distance(c, i, got, NULL, b->want);
        double most = op_bound(b->type == OP_BF16 ? 3e-4 : c->bound_read, b->n);
        if (!(d <= most)) {
            fail_msg("case %d %s: ref is %.3g from the formula, bound %.3g", c->i_case, b->name, d,
                     most);
        }
        if (d > worst && b->type != OP_BF16) worst = d;
    }
    return worst;
}

#endif
