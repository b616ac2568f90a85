#include <string.h>

#include "backend/ref/ref_priv.h"

/* Sizes that the three ops share, and the widths they imply. */
typedef struct {
    int Hk, Hv, dk, dv;
} gdn_shape;

static int64_t n_channels(const gdn_shape *s)
{
    return 2 * (int64_t)s->Hk * s->dk + (int64_t)s->Hv * s->dv;
}

int64_t ref_gdn_own(int dk, int dv)
{
    int64_t state = (int64_t)dk * dv * (int64_t)sizeof(float);
    return (state + 15) / 16 * 16 + ((int64_t)dk + 2 * dv) * (int64_t)sizeof(double);
}

/* ---- prep --------------------------------------------------------------------------------- */

typedef struct {
    const ref_backend *r;
    const gdn_prep_args *a;
    gdn_shape shape;
} prep_job;

/* Column t + back (back = -3..0) of channel ch, from this call's rows or from conv_state. */
static double column(const gdn_prep_args *a, int64_t C, int64_t t, int index, int slot, int back,
                     int64_t ch)
{
    if (index + back >= 0) return (double)ref_f32(a->p)[(t + back) * C + ch];
    return (double)ref_f32(a->conv_state)[((int64_t)slot * C + ch) * 3 + 3 + index + back];
}

/* silu of the convolution of n channels from ch on, for one row, into y. */
static void conv_channels(const prep_job *j, int64_t t, int index, int slot, int64_t ch, int n,
                          double *y)
{
    int64_t C = n_channels(&j->shape);
    for (int i = 0; i < n; i++) {
        const float *w = ref_f32(j->a->conv_w) + (ch + i) * 4;
        double sum = 0;
        for (int k = 0; k < 4; k++) {
            sum += (double)w[k] * column(j->a, C, t, index, slot, k - 3, ch + i);
        }
        y[i] = ref_silu(sum);
    }
}

static void prep_row(const prep_job *j, int64_t t, double *y)
{
    const gdn_prep_args *a = j->a;
    const gdn_shape *s = &j->shape;
    int lane = ref_i32(a->rows.row_lane)[t];
    int slot = ref_i32(a->rows.lane_slot)[lane];
    int index = (int)t - ref_i32(a->rows.lane_row)[lane];
    int64_t C = n_channels(s);
    float *out = ref_f32(a->qkv) + t * C;
    for (int h = 0; h < 2 * s->Hk; h++) {
        double sum = 0;
        conv_channels(j, t, index, slot, (int64_t)h * s->dk, s->dk, y);
        for (int d = 0; d < s->dk; d++) sum += y[d] * y[d];
        double scale = 1.0 / sqrt(sum + 1e-6);
        if (h < s->Hk) scale /= sqrt((double)s->dk);
        for (int d = 0; d < s->dk; d++) out[(int64_t)h * s->dk + d] = (float)(y[d] * scale);
    }
    for (int h = 0; h < s->Hv; h++) {
        int64_t ch = 2 * (int64_t)s->Hk * s->dk + (int64_t)h * s->dv;
        conv_channels(j, t, index, slot, ch, s->dv, y);
        for (int d = 0; d < s->dv; d++) out[ch + d] = (float)y[d];
    }
    for (int h = 0; h < s->Hv; h++) {
        double x = (double)ref_f32(a->a)[t * s->Hv + h] + (double)ref_f32(a->dt_bias)[h];
        double softplus = x > 20 ? x : log1p(exp(x));
        ref_f32(a->g)[t * s->Hv + h] = (float)((double)ref_f32(a->neg_A)[h] * softplus);
        ref_f32(a->beta)[t * s->Hv + h] = (float)ref_sigmoid((double)ref_f32(a->b)[t * s->Hv + h]);
    }
}

static void prep_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    const prep_job *j = ctx;
    for (int64_t t = begin; t < end; t++) {
        if (ref_i32(j->a->rows.row_lane)[t] >= 0) prep_row(j, t, ref_own(j->r, worker));
    }
}

status ref_gdn_prep(backend *b, const gdn_prep_args *a)
{
    ref_backend *r = ref_of(b);
    TRY(ref_need(r, "gdn_prep", ref_gdn_own(a->dk, a->dv), 0));
    prep_job j = {r, a, {a->Hk, a->Hv, a->dk, a->dv}};
    workers_for(r->pool, a->rows.T, 1, prep_rows, &j);
    return ERR_OK;
}

/* ---- the recurrence ----------------------------------------------------------------------- */

/* What scan and commit have in common; z, norm_w, out only with scan. */
typedef struct {
    const ref_backend *r;
    gdn_shape shape;
    const ops_rows *rows;
    const int32_t *n_commit; /* NULL = all rows */
    const float *qkv, *g, *beta, *p, *z, *norm_w;
    float *state, *conv_state, *out;
    float eps;
    bool advance;
} scan_job;

/* One position of one value head:
 *   S <- exp(g) S;  m = S^T k;  d = beta (v - m);  S <- S + k d^T;  o = S^T q
 * m and o are sums in double over the f32 state; o is made when q is given. */
REF_HOT static void step(float *S, const gdn_shape *s, double decay, double beta, const float *q,
                         const float *k, const float *v, double *d, double *o)
{
    int dv = s->dv;
    memset(d, 0, (size_t)dv * sizeof *d);
    for (int i = 0; i < s->dk; i++) {
        float *row = S + (int64_t)i * dv;
        double ki = (double)k[i];
        for (int j = 0; j < dv; j++) {
            row[j] = (float)(decay * (double)row[j]);
            d[j] += (double)row[j] * ki;
        }
    }
    for (int j = 0; j < dv; j++) d[j] = beta * ((double)v[j] - d[j]);
    memset(o, 0, (size_t)dv * sizeof *o);
    for (int i = 0; i < s->dk; i++) {
        float *row = S + (int64_t)i * dv;
        double ki = (double)k[i], qi = (double)q[i];
        for (int j = 0; j < dv; j++) {
            row[j] = (float)((double)row[j] + ki * d[j]);
            o[j] += (double)row[j] * qi;
        }
    }
}

/* out = rmsnorm(o; norm_w, eps) * silu(z) for one head of one row. */
static void gated_norm(const scan_job *j, int64_t head, const double *o)
{
    int dv = j->shape.dv;
    const float *z = j->z + head * dv;
    float *out = j->out + head * dv;
    double sum = 0;
    for (int i = 0; i < dv; i++) sum += o[i] * o[i];
    double scale = 1.0 / sqrt(sum / dv + (double)j->eps);
    for (int i = 0; i < dv; i++) {
        out[i] = (float)(o[i] * scale * (double)j->norm_w[i] * ref_silu((double)z[i]));
    }
}

static int n_rows_of(const scan_job *j, int lane)
{
    return j->n_commit ? j->n_commit[lane] : ref_lane_rows(j->rows, lane);
}

/* One value head of one lane through all its rows. */
static void scan_units(void *ctx, int64_t begin, int64_t end, int worker)
{
    const scan_job *j = ctx;
    const gdn_shape *s = &j->shape;
    int64_t C = n_channels(s), n_state = (int64_t)s->dk * s->dv;
    double *d = ref_own(j->r, worker), *o = d + s->dv;
    float *copy = (float *)(o + s->dv);
    for (int64_t unit = begin; unit < end; unit++) {
        int lane = (int)(unit / s->Hv), hv = (int)(unit % s->Hv), hk = hv / (s->Hv / s->Hk);
        int64_t slot = ref_i32(j->rows->lane_slot)[lane];
        float *S = j->state + (slot * s->Hv + hv) * n_state;
        if (!j->advance) S = memcpy(copy, S, (size_t)n_state * sizeof *S);
        int64_t first = ref_i32(j->rows->lane_row)[lane];
        for (int64_t t = first; t < first + n_rows_of(j, lane); t++) {
            const float *q = j->qkv + t * C + (int64_t)hk * s->dk;
            const float *k = q + (int64_t)s->Hk * s->dk;
            const float *v = j->qkv + t * C + 2 * (int64_t)s->Hk * s->dk + (int64_t)hv * s->dv;
            step(S, s, exp((double)j->g[t * s->Hv + hv]), (double)j->beta[t * s->Hv + hv], q, k, v,
                 d, o);
            if (j->out) gated_norm(j, t * s->Hv + hv, o);
        }
    }
}

/* The last three columns of p that each lane has now seen. */
static void conv_units(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const scan_job *j = ctx;
    int64_t C = n_channels(&j->shape);
    for (int64_t lane = begin; lane < end; lane++) {
        int64_t first = ref_i32(j->rows->lane_row)[lane];
        int n = n_rows_of(j, (int)lane);
        float *state = j->conv_state + (int64_t)ref_i32(j->rows->lane_slot)[lane] * C * 3;
        for (int64_t ch = 0; ch < C; ch++) {
            float seen[3];
            for (int i = 0; i < 3; i++) {
                int index = n - 3 + i;
                seen[i] = index >= 0 ? j->p[(first + index) * C + ch] : state[ch * 3 + 3 + index];
            }
            memcpy(state + ch * 3, seen, sizeof seen);
        }
    }
}

static status scan(ref_backend *r, const scan_job *j, const char *op)
{
    TRY(ref_need(r, op, ref_gdn_own(j->shape.dk, j->shape.dv), 0));
    void *ctx = (void *)(uintptr_t)j;
    workers_for(r->pool, (int64_t)j->rows->L * j->shape.Hv, 1, scan_units, ctx);
    if (j->advance) workers_for(r->pool, j->rows->L, 1, conv_units, ctx);
    return ERR_OK;
}

status ref_gdn_scan(backend *b, const gdn_scan_args *a)
{
    scan_job j = {.r = ref_of(b),
                  .shape = {a->Hk, a->Hv, a->dk, a->dv},
                  .rows = &a->rows,
                  .qkv = ref_f32(a->qkv),
                  .g = ref_f32(a->g),
                  .beta = ref_f32(a->beta),
                  .p = ref_f32(a->p),
                  .z = ref_f32(a->z),
                  .norm_w = ref_f32(a->norm_w),
                  .state = ref_f32(a->state),
                  .conv_state = ref_f32(a->conv_state),
                  .out = ref_f32(a->out),
                  .eps = a->eps,
                  .advance = a->advance};
    return scan(ref_of(b), &j, "gdn_scan");
}

status ref_gdn_commit(backend *b, const gdn_commit_args *a)
{
    scan_job j = {.r = ref_of(b),
                  .shape = {a->Hk, a->Hv, a->dk, a->dv},
                  .rows = &a->rows,
                  .n_commit = ref_i32(a->n_commit),
                  .qkv = ref_f32(a->qkv),
                  .g = ref_f32(a->g),
                  .beta = ref_f32(a->beta),
                  .p = ref_f32(a->p),
                  .state = ref_f32(a->state),
                  .conv_state = ref_f32(a->conv_state),
                  .advance = true};
    return scan(ref_of(b), &j, "gdn_commit");
}
