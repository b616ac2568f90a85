#include <string.h>

#include "backend/cpu/cpu_priv.h"

/* A call's work is the list of the panels of all parts. A worker takes a run of them, and the two
 * halves of its run side by side: two panels a tile, each half one stream that the processor's
 * prefetching follows from panel to panel. The panels of a tile stay in the cache while all rows
 * pass by. */
typedef struct {
    const cpu_kernels *k;
    const linear_args *a;
    cpu_quant q64, q32;
    int64_t first_panel[OPS_PARTS_MAX + 1];
} linear_job;

/* One panel's share of a tile to outputs n0 .. of y. */
static void store_panel(const float *tile, int n_rows, int64_t n0, int64_t N, linear_out out,
                        float *y)
{
    int64_t n = N - n0 < PANEL_N ? N - n0 : PANEL_N;
    for (y += n0; n_rows > 0; n_rows--, y += N, tile += TILE_PANELS * PANEL_N) {
        float sum[PANEL_N];
        memcpy(sum, tile, sizeof sum);
        if (out == LINEAR_ADD)
            for (int64_t i = 0; i < n; i++) sum[i] = y[i] + sum[i];
        if (n == PANEL_N)
            memcpy(y, sum, sizeof sum);
        else
            memcpy(y, sum, (size_t)n * sizeof *y);
    }
}

static void linear_panels(const linear_job *j, int part, const int64_t *panel, int n_panels)
{
    const dev_weight *w = j->a->part[part].w;
    lin_tile t = {.format = cpu_weight_format(w), .K = w->K, .n_panels = n_panels};
    const cpu_quant *v = t.format.group == 32 ? &j->q32 : &j->q64;
    float tile[TILE_ROWS * TILE_PANELS * PANEL_N], *y = cpu_f32(j->a->part[part].y);
    t.out = tile;
    for (int p = 0; p < n_panels; p++) t.panel[p] = cpu_weight_panel(w, 0, panel[p]);
    for (int row = 0; row < j->a->T; row += t.n_rows) {
        t.n_rows = cpu_tile_rows(j->k, t.format.kind, j->a->T - row);
        for (int r = 0; r < t.n_rows; r++)
            cpu_tile_row(&t, r, v, cpu_f32(j->a->x), row + r);
        j->k->lin[t.format.kind](&t);
        for (int p = 0; p < n_panels; p++)
            store_panel(tile + p * PANEL_N, t.n_rows, panel[p] * PANEL_N, w->N,
                        j->a->part[part].out, y + row * w->N);
    }
}

static void linear_run(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const linear_job *j = ctx;
    for (int part = 0; part < j->a->n_parts; part++) {
        int64_t from = begin - j->first_panel[part], to = end - j->first_panel[part];
        int64_t n_panels = j->first_panel[part + 1] - j->first_panel[part];
        if (from < 0) from = 0;
        if (to > n_panels) to = n_panels;
        for (int64_t half = (to - from + 1) / 2, i = 0; i < half; i++)
            linear_panels(j, part, (int64_t[]){from + i, from + half + i},
                          from + half + i < to ? 2 : 1);
    }
}

/* Quantise x for the group sizes that the weights have. */
static status quantise_for(cpu_backend *c, const char *op, const dev_weight *const *w, int n,
                           dev_buf x, int T, int64_t K, cpu_quant *q64, cpu_quant *q32)
{
    int64_t n_elements = cpu_align64(T * K);
    bool wants[2] = {false, false};
    for (int i = 0; i < n; i++) {
        panel_format f = cpu_weight_format(w[i]);
        if (panel_is_int8(f.kind)) wants[f.group == 32] = true;
    }
    TRY(cpu_need(c, op, 0, 0, n_elements * (wants[0] + wants[1])));
    *q64 = cpu_quant_at(c, 0, K, 64);
    *q32 = cpu_quant_at(c, wants[0] ? n_elements : 0, K, 32);
    if (wants[0]) cpu_quant_rows(c, cpu_f32(x), T, *q64);
    if (wants[1]) cpu_quant_rows(c, cpu_f32(x), T, *q32);
    return ERR_OK;
}

status cpu_linear(backend *b, const linear_args *a)
{
    cpu_backend *c = cpu_of(b);
    linear_job j = {.k = c->k, .a = a};
    const dev_weight *w[OPS_PARTS_MAX] = {a->part[0].w};
    if (a->T == 0 || a->n_parts == 0) return ERR_OK;
    for (int i = 0; i < a->n_parts; i++) {
        w[i] = a->part[i].w;
        j.first_panel[i + 1] = j.first_panel[i] + cpu_weight_panels(w[i]);
    }
    TRY(quantise_for(c, "linear", w, a->n_parts, a->x, a->T, w[0]->K, &j.q64, &j.q32));
    workers_for(c->pool, j.first_panel[a->n_parts], TILE_PANELS, linear_run, &j);
    return ERR_OK;
}

/* ---- gate and up -------------------------------------------------------------------------- */

typedef struct {
    const cpu_kernels *k;
    const linear_swiglu_args *a;
    cpu_quant q64, q32;
} swiglu_job;

/* Panel `unit` of gate and of up, their two results side by side, one activation. */
static void swiglu_fused(const swiglu_job *j, int64_t unit, float *tile)
{
    const dev_weight *gate = j->a->gate, *up = j->a->up;
    lin_tile t = {.format = cpu_weight_format(gate), .K = gate->K, .n_panels = 2, .out = tile};
    const cpu_quant *v = t.format.group == 32 ? &j->q32 : &j->q64;
    int64_t n0 = unit * PANEL_N, n = gate->N - n0 < PANEL_N ? gate->N - n0 : PANEL_N;
    t.panel[0] = cpu_weight_panel(gate, 0, unit);
    t.panel[1] = cpu_weight_panel(up, 0, unit);
    for (int row = 0; row < j->a->T; row += t.n_rows) {
        t.n_rows = cpu_tile_rows(j->k, t.format.kind, j->a->T - row);
        for (int r = 0; r < t.n_rows; r++) cpu_tile_row(&t, r, v, cpu_f32(j->a->x), row + r);
        j->k->lin[t.format.kind](&t);
        for (int r = 0; r < t.n_rows; r++) {
            const float *g = tile + r * TILE_PANELS * PANEL_N;
            j->k->swiglu(g, g + PANEL_N, n, cpu_f32(j->a->y) + (row + r) * gate->N + n0);
        }
    }
}

/* The same when the two are stored differently: one row at a time, panel by panel. */
static void swiglu_apart(const swiglu_job *j, int64_t unit, float *tile)
{
    const dev_weight *w[2] = {j->a->gate, j->a->up};
    int64_t n0 = unit * PANEL_N, n = w[0]->N - n0 < PANEL_N ? w[0]->N - n0 : PANEL_N;
    for (int row = 0; row < j->a->T; row++) {
        for (int i = 0; i < 2; i++) {
            lin_tile t = {.format = cpu_weight_format(w[i]), .K = w[i]->K, .n_panels = 1,
                          .n_rows = 1, .out = tile + i * PANEL_N};
            t.panel[0] = cpu_weight_panel(w[i], 0, unit);
            cpu_tile_row(&t, 0, t.format.group == 32 ? &j->q32 : &j->q64, cpu_f32(j->a->x), row);
            j->k->lin[t.format.kind](&t);
        }
        j->k->swiglu(tile, tile + PANEL_N, n, cpu_f32(j->a->y) + row * w[0]->N + n0);
    }
}

static void swiglu_units(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const swiglu_job *j = ctx;
    float tile[TILE_ROWS * TILE_PANELS * PANEL_N];
    bool is_alike = j->a->gate->layout == j->a->up->layout;
    for (int64_t unit = begin; unit < end; unit++) {
        if (is_alike)
            swiglu_fused(j, unit, tile);
        else
            swiglu_apart(j, unit, tile);
    }
}

status cpu_linear_swiglu(backend *b, const linear_swiglu_args *a)
{
    cpu_backend *c = cpu_of(b);
    swiglu_job j = {.k = c->k, .a = a};
    const dev_weight *w[2] = {a->gate, a->up};
    if (a->T == 0) return ERR_OK;
    TRY(quantise_for(c, "linear_swiglu", w, 2, a->x, a->T, a->gate->K, &j.q64, &j.q32));
    workers_for(c->pool, cpu_weight_panels(a->gate), 1, swiglu_units, &j);
    return ERR_OK;
}
