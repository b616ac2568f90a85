#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_priv.h"

typedef struct {
    int Hk, Hv, dk, dv;
} gdn_shape;

static int64_t n_channels(const gdn_shape *s)
{
    return 2 * (int64_t)s->Hk * s->dk + (int64_t)s->Hv * s->dv;
}

/* ---- prep --------------------------------------------------------------------------------- */

/* Channels of a unit: prep is cut by row and by runs of channels, so that one row is shared. */
typedef struct {
    const cpu_kernels *k;
    const gdn_prep_args *a;
    gdn_shape shape;
    int n_runs; /* head runs of a row: Hk queries, Hk keys, Hv values */
} prep_job;

enum { COLUMN_RUN = 256 };

/* The convolution of n channels from ch on for row t. Columns before the lane's first row are
 * gathered from conv_state, [C, 3]. */
static void conv_run(const prep_job *j, int64_t t, int64_t ch, int64_t n, float *y)
{
    const gdn_prep_args *a = j->a;
    int lane = cpu_i32(a->rows.row_lane)[t];
    int index = (int)t - cpu_i32(a->rows.lane_row)[lane];
    int64_t C = n_channels(&j->shape), slot = cpu_i32(a->rows.lane_slot)[lane];
    const float *state = cpu_f32(a->conv_state) + (slot * C + ch) * 3;
    for (int64_t at = 0; at < n; at += COLUMN_RUN) {
        float old[3][COLUMN_RUN];
        const float *p[4];
        int64_t m = n - at < COLUMN_RUN ? n - at : COLUMN_RUN;
        for (int back = 0; back < 4; back++) { /* p[3 - back]: `back` rows before t */
            if (index >= back) {
                p[3 - back] = cpu_f32(a->p) + (t - back) * C + ch + at;
                continue;
            }
            float *column = old[3 - back];
            for (int64_t i = 0; i < m; i++) column[i] = state[(at + i) * 3 + 3 + index - back];
            p[3 - back] = column;
        }
        j->k->gdn_conv(p, cpu_f32(a->conv_w) + (ch + at) * 4, m, y + at);
    }
}

/* Run r of row t: a query or key head is made a unit vector, a value head is left as it is. */
static void prep_run(const prep_job *j, int64_t t, int r)
{
    const gdn_prep_args *a = j->a;
    const gdn_shape *s = &j->shape;
    int64_t C = n_channels(s);
    bool is_value = r >= 2 * s->Hk;
    int64_t ch = is_value ? 2 * (int64_t)s->Hk * s->dk + (int64_t)(r - 2 * s->Hk) * s->dv
                          : (int64_t)r * s->dk;
    float *y = cpu_f32(a->qkv) + t * C + ch;
    conv_run(j, t, ch, is_value ? s->dv : s->dk, y);
    if (is_value) return;
    j->k->gdn_unit(y, s->dk, r < s->Hk ? 1.0f / sqrtf((float)s->dk) : 1.0f);
}

static void prep_units(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const prep_job *j = ctx;
    const gdn_prep_args *a = j->a;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t t = unit / j->n_runs;
        int r = (int)(unit % j->n_runs);
        if (cpu_i32(a->rows.row_lane)[t] < 0) continue;
        prep_run(j, t, r);
        if (r == 0)
            j->k->gdn_gates(cpu_f32(a->a) + t * a->Hv, cpu_f32(a->b) + t * a->Hv, cpu_f32(a->neg_A),
                            cpu_f32(a->dt_bias), a->Hv, cpu_f32(a->g) + t * a->Hv,
                            cpu_f32(a->beta) + t * a->Hv);
    }
}

status cpu_gdn_prep(backend *b, const gdn_prep_args *a)
{
    prep_job j = {cpu_of(b)->k, a, {a->Hk, a->Hv, a->dk, a->dv}, 2 * a->Hk + a->Hv};
    workers_for(cpu_of(b)->pool, (int64_t)a->rows.T * j.n_runs, 8, prep_units, &j);
    return ERR_OK;
}

/* ---- the recurrence ----------------------------------------------------------------------- */

/* What scan and commit have in common; z, norm_w, out only with scan.
 * The state of a head lies as [dv / 16][dk][16]: slices of 16 columns, which never meet. */
typedef struct {
    cpu_backend *c;
    gdn_shape shape;
    const ops_rows *rows;
    const int32_t *n_commit; /* NULL = all rows */
    const float *qkv, *g, *beta, *p, *z, *norm_w;
    float *state, *conv_state, *out;
    float eps;
    bool advance;
    int n_pieces; /* units a head is cut into */
} scan_job;

static int lane_rows(const scan_job *j, int lane)
{
    const int32_t *first = cpu_i32(j->rows->lane_row) + lane;
    return j->n_commit ? j->n_commit[lane] : first[1] - first[0];
}

/* Slices [s0, s0 + n) of value head hv of a lane, through its rows [t0, t0 + T). */
static void scan_slices(const scan_job *j, int lane, int hv, int s0, int n, int t0, int T,
                        float *copy)
{
    const gdn_shape *s = &j->shape;
    int64_t C = n_channels(s), slot = cpu_i32(j->rows->lane_slot)[lane];
    int64_t first = cpu_i32(j->rows->lane_row)[lane] + t0, slice = (int64_t)s->dk * GDN_LANES;
    int64_t key = (int64_t)(hv / (s->Hv / s->Hk)) * s->dk;
    int64_t value = 2 * (int64_t)s->Hk * s->dk + (int64_t)hv * s->dv + s0 * GDN_LANES;
    const float *row = j->qkv + first * C;
    gdn_run r = {.q = row + key,
                 .k = row + key + (int64_t)s->Hk * s->dk,
                 .v = row + value,
                 .g = j->g + first * s->Hv + hv,
                 .beta = j->beta + first * s->Hv + hv,
                 .row_stride = C,
                 .gate_stride = s->Hv,
                 .out_stride = (int64_t)s->Hv * s->dv,
                 .T = T,
                 .dk = s->dk,
                 .n_slices = n};
    r.state = j->state + (slot * s->Hv + hv) * s->dk * s->dv + s0 * slice;
    if (!j->advance) r.state = memcpy(copy, r.state, (size_t)(n * slice) * sizeof *copy);
    if (j->out) r.out = j->out + (first * s->Hv + hv) * s->dv + s0 * GDN_LANES;
    j->c->k->gdn_slices(&r);
}

static void gated_norms(const scan_job *j, int lane, int hv, int t0, int T)
{
    const gdn_shape *s = &j->shape;
    int64_t first = cpu_i32(j->rows->lane_row)[lane] + t0;
    for (int64_t t = first; t < first + T; t++) {
        int64_t at = (t * s->Hv + hv) * s->dv;
        j->c->k->gdn_out(j->out + at, j->z + at, j->norm_w, j->eps, s->dv);
    }
}

/* A head goes through its rows SCAN_ROWS at a time, so that their q and k stay in the cache for
 * all its slices. Without `advance` the state is a copy of one pair of slices, which then takes
 * all rows. */
enum { SCAN_ROWS = 32 };

/* Unit = (lane, value head, piece of its columns). A head in one piece is also normalised. */
static void scan_units(void *ctx, int64_t begin, int64_t end, int worker)
{
    const scan_job *j = ctx;
    const gdn_shape *s = &j->shape;
    int n_slices = s->dv / GDN_LANES;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t head = unit / j->n_pieces;
        int piece = (int)(unit % j->n_pieces), lane = (int)(head / s->Hv), hv = (int)(head % s->Hv);
        int from = n_slices * piece / j->n_pieces, to = n_slices * (piece + 1) / j->n_pieces;
        int n_rows = lane_rows(j, lane), step = j->advance ? SCAN_ROWS : n_rows;
        for (int t = 0; t < n_rows; t += step) {
            int T = n_rows - t < step ? n_rows - t : step;
            for (int i = from; i < to; i += GDN_SLICES)
                scan_slices(j, lane, hv, i, to - i < GDN_SLICES ? to - i : GDN_SLICES, t, T,
                            cpu_own(j->c, worker));
            if (j->out && j->n_pieces == 1) gated_norms(j, lane, hv, t, T);
        }
    }
}

static void norm_units(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const scan_job *j = ctx;
    for (int64_t head = begin; head < end; head++) {
        int lane = (int)(head / j->shape.Hv);
        gated_norms(j, lane, (int)(head % j->shape.Hv), 0, lane_rows(j, lane));
    }
}

/* The last three columns of p that each lane has now seen. Unit = (lane, run of channels). */
static void column_units(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const scan_job *j = ctx;
    int64_t C = n_channels(&j->shape), n_runs = (C + COLUMN_RUN - 1) / COLUMN_RUN;
    for (int64_t unit = begin; unit < end; unit++) {
        int lane = (int)(unit / n_runs), n = lane_rows(j, lane);
        int64_t from = unit % n_runs * COLUMN_RUN;
        int64_t to = from + COLUMN_RUN < C ? from + COLUMN_RUN : C;
        int64_t slot = cpu_i32(j->rows->lane_slot)[lane];
        float *state = j->conv_state + slot * C * 3;
        const float *p = j->p + (int64_t)cpu_i32(j->rows->lane_row)[lane] * C;
        for (int i = 0; i < 3; i++) { /* ascending: what is read lies behind what is written */
            int index = n - 3 + i;
            if (index >= 0)
                for (int64_t ch = from; ch < to; ch++) state[ch * 3 + i] = p[index * C + ch];
            else if (n > 0)
                for (int64_t ch = from; ch < to; ch++)
                    state[ch * 3 + i] = state[ch * 3 + 3 + index];
        }
    }
}

/* Few heads for many workers: heads are cut into pieces of two slices. */
static int n_pieces(const scan_job *j)
{
    int64_t heads = (int64_t)j->rows->L * j->shape.Hv;
    int most = (j->shape.dv / GDN_LANES + GDN_SLICES - 1) / GDN_SLICES;
    if (j->c->n_workers == 1 || heads >= 4 * j->c->n_workers) return 1;
    return heads % j->c->n_workers == 0 && heads <= 2 * j->c->n_workers ? 1 : most;
}

static status scan(cpu_backend *c, scan_job *j, const char *op)
{
    const gdn_shape *s = &j->shape;
    j->c = c;
    TRY(cpu_need(c, op, GDN_SLICES * (int64_t)s->dk * GDN_LANES * 4, 0, 0));
    j->n_pieces = n_pieces(j);
    int64_t heads = (int64_t)j->rows->L * s->Hv;
    workers_for(c->pool, heads * j->n_pieces, 1, scan_units, j);
    if (j->out && j->n_pieces > 1) workers_for(c->pool, heads, 1, norm_units, j);
    if (!j->advance) return ERR_OK;
    int64_t n_runs = (n_channels(s) + COLUMN_RUN - 1) / COLUMN_RUN;
    workers_for(c->pool, j->rows->L * n_runs, 8, column_units, j);
    return ERR_OK;
}

status cpu_gdn_scan(backend *b, const gdn_scan_args *a)
{
    scan_job j = {.shape = {a->Hk, a->Hv, a->dk, a->dv},
                  .rows = &a->rows,
                  .qkv = cpu_f32(a->qkv),
                  .g = cpu_f32(a->g),
                  .beta = cpu_f32(a->beta),
                  .p = cpu_f32(a->p),
                  .z = cpu_f32(a->z),
                  .norm_w = cpu_f32(a->norm_w),
                  .state = cpu_f32(a->state),
                  .conv_state = cpu_f32(a->conv_state),
                  .out = cpu_f32(a->out),
                  .eps = a->eps,
                  .advance = a->advance};
    return scan(cpu_of(b), &j, "gdn_scan");
}

status cpu_gdn_commit(backend *b, const gdn_commit_args *a)
{
    scan_job j = {.shape = {a->Hk, a->Hv, a->dk, a->dv},
                  .rows = &a->rows,
                  .n_commit = cpu_i32(a->n_commit),
                  .qkv = cpu_f32(a->qkv),
                  .g = cpu_f32(a->g),
                  .beta = cpu_f32(a->beta),
                  .p = cpu_f32(a->p),
                  .state = cpu_f32(a->state),
                  .conv_state = cpu_f32(a->conv_state),
                  .advance = true};
    return scan(cpu_of(b), &j, "gdn_commit");
}
