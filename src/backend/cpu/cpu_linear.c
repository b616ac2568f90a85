#include <string.h>

#include "backend/cpu/cpu_tile_priv.h"

/* A call's work is the list of the panels of all parts. A worker takes a run of them, and the two
 * halves of its run side by side: two panels a tile, each half one stream that the processor's
 * prefetching follows from panel to panel. The panels of a tile stay in the cache while all rows
 * pass by. */
typedef struct {
    const linear_args *a;
    cpu_side side[OPS_PARTS_MAX];
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

/* Rows [from, to) against the panels of a tile of a part. */
static void linear_panels(const linear_job *j, int part, int from, int to, cpu_tile_panels at)
{
    const cpu_side *side = &j->side[part];
    float out[TILE_ROWS * TILE_PANELS * PANEL_N], *y = cpu_f32(j->a->part[part].y);
    lin_tile t;
    cpu_side_tile(side, &t, out);
    int step = cpu_side_rows(side, j->a->T);
    t.n_panels = at.n;
    for (int p = 0; p < at.n; p++) t.panel[p] = cpu_side_panel(side, 0, at.panel[p]);
    for (int row = from; row < to; row += step) {
        t.n_rows = to - row < step ? to - row : step;
        for (int r = 0; r < t.n_rows; r++) cpu_side_row(side, &t, r, row + r);
        if (row + step >= to)
            for (int p = 0; p < at.n; p++) t.next[p] = t.panel[p] + at.step;
        side->run(&t);
        for (int p = 0; p < at.n; p++)
            store_panel(out + p * PANEL_N, t.n_rows, at.panel[p] * PANEL_N, side->N,
                        j->a->part[part].out, y + row * side->N);
    }
}

static void linear_run(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const linear_job *j = ctx;
    int T = j->a->T;
    for (int part = 0; part < j->a->n_parts; part++) {
        int64_t from = begin - j->first_panel[part], to = end - j->first_panel[part];
        int64_t n_panels = j->first_panel[part + 1] - j->first_panel[part];
        if (from < 0) from = 0;
        if (to > n_panels) to = n_panels;
        int block = cpu_side_block(&j->side[part], T);
        for (int row = 0; row < T; row += block)
            for (int64_t i = 0; i < cpu_side_tiles(from, to); i++)
                linear_panels(j, part, row, T - row < block ? T : row + block,
                              cpu_side_pair(&j->side[part], from, to, i, T));
    }
}

/* Quantise x [T, K] for the group sizes that the weights want: quant[0] by 64, [1] by 32, [2] by
 * 16. */
static status quantise_for(cpu_backend *c, const char *op, const dev_weight *const *w, int n,
                           dev_buf x, int T, cpu_quant quant[PANEL_GROUPS])
{
    int64_t K = w[0]->K, n_elements = cpu_align64(T * K), at = 0;
    bool wants[PANEL_GROUPS] = {false};
    for (int i = 0; i < n; i++) {
        panel_format f = cpu_weight_format(w[i]);
        if (panel_is_int8(f.kind)) wants[panel_group_index(f.group)] = true;
    }
    TRY(cpu_need(c, op, 0, 0, n_elements * (wants[0] + wants[1] + wants[2])));
    for (int i = 0; i < PANEL_GROUPS; i++) {
        quant[i] = cpu_quant_at(c, at, K, 64 >> i);
        if (!wants[i]) continue;
        cpu_quant_rows(c, cpu_f32(x), T, quant[i]);
        at += n_elements;
    }
    return ERR_OK;
}

status cpu_linear(backend *b, const linear_args *a)
{
    cpu_backend *c = cpu_of(b);
    linear_job j = {.a = a};
    const dev_weight *w[OPS_PARTS_MAX] = {a->part[0].w};
    cpu_quant quant[PANEL_GROUPS];
    if (a->T == 0 || a->n_parts == 0) return ERR_OK;
    for (int i = 1; i < a->n_parts; i++) w[i] = a->part[i].w;
    TRY(quantise_for(c, "linear", w, a->n_parts, a->x, a->T, quant));
    for (int i = 0; i < a->n_parts; i++) {
        j.side[i] = cpu_side_of(c, w[i], quant, cpu_f32(a->x));
        j.first_panel[i + 1] = j.first_panel[i] + j.side[i].n_panels;
    }
    workers_for(c->pool, j.first_panel[a->n_parts], TILE_PANELS, linear_run, &j);
    return ERR_OK;
}

/* ---- gate and up -------------------------------------------------------------------------- */

typedef struct {
    const linear_swiglu_args *a;
    cpu_side gate, up;
} swiglu_job;

/* Rows [from, to) against panel p of gate and of up, their two results side by side, one
 * activation. */
static void swiglu_panel(const swiglu_job *j, int from, int to, int64_t p, bool is_alike)
{
    const cpu_side *sides[2] = {&j->gate, &j->up};
    float out[2][TILE_ROWS * TILE_PANELS * PANEL_N];
    const float *up = is_alike ? out[0] + PANEL_N : out[1];
    int64_t F = j->gate.N, n0 = p * PANEL_N;
    int n = F - n0 < PANEL_N ? (int)(F - n0) : PANEL_N;
    int T = j->a->T, step = cpu_side_rows(&j->gate, T);
    lin_tile t[2];
    for (int s = 0; s < 2; s++) {
        cpu_side_tile(sides[s], &t[s], out[s]);
        t[s].n_panels = is_alike ? 2 : 1;
        t[s].panel[0] = cpu_side_panel(sides[s], 0, p);
        t[s].panel[1] = cpu_side_panel(&j->up, 0, p);
    }
    for (int row = from; row < to; row += step) {
        int n_rows = to - row < step ? to - row : step;
        for (int s = 0; s < (is_alike ? 1 : 2); s++) { /* apart when they are stored differently */
            t[s].n_rows = n_rows;
            for (int r = 0; r < n_rows; r++) cpu_side_row(sides[s], &t[s], r, row + r);
            if (row + step >= to)
                for (int q = 0; q < 2; q++) t[s].next[q] = t[s].panel[q] + sides[s]->panel_bytes;
            sides[s]->run(&t[s]);
        }
        j->gate.k->swiglu(out[0], up, n_rows, n, cpu_f32(j->a->y) + row * F + n0, F);
    }
}

static void swiglu_panels(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const swiglu_job *j = ctx;
    bool is_alike = panel_is_alike(j->gate.format, j->up.format);
    int T = j->a->T, block = cpu_side_block(&j->gate, T);
    for (int row = 0; row < T; row += block)
        for (int64_t p = begin; p < end; p++)
            swiglu_panel(j, row, T - row < block ? T : row + block, p, is_alike);
}

status cpu_linear_swiglu(backend *b, const linear_swiglu_args *a)
{
    cpu_backend *c = cpu_of(b);
    swiglu_job j = {.a = a};
    cpu_quant quant[PANEL_GROUPS];
    if (a->T == 0) return ERR_OK;
    TRY(quantise_for(c, "linear_swiglu", (const dev_weight *[]){a->gate, a->up}, 2, a->x, a->T,
                     quant));
    j.gate = cpu_side_of(c, a->gate, quant, cpu_f32(a->x));
    j.up = cpu_side_of(c, a->up, quant, cpu_f32(a->x));
    workers_for(c->pool, j.gate.n_panels, 1, swiglu_panels, &j);
    return ERR_OK;
}
