/* cpu_tile: a linear weight and the rows it meets, with everything worked out that the loops over
 * tiles need: a tile of a narrow weight takes under a microsecond. */
#ifndef RIPTIDE_BACKEND_CPU_TILE_PRIV_H
#define RIPTIDE_BACKEND_CPU_TILE_PRIV_H

#include "backend/cpu/cpu_priv.h"

typedef struct {
    const cpu_kernels *k;
    void (*run)(const lin_tile *t);
    panel_format format;
    bool is_int8;
    int ahead;
    const uint8_t *panels;
    int64_t panel_bytes, n_panels, N, K, n_groups;
    const int8_t *q; /* int8 kinds: rows as in cpu_quant */
    const float *scale, *sum;
    const float *x; /* other kinds: rows [., K] */
} cpu_side;

/* quant [PANEL_GROUPS]: rows in groups of 64, 32 and 16; only the one that w wants is looked at. */
static inline cpu_side cpu_side_of(const cpu_backend *c, const dev_weight *w,
                                   const cpu_quant *quant, const float *x)
{
    panel_format f = cpu_weight_format(w);
    const cpu_quant *v = &quant[panel_group_index(f.group)];
    return (cpu_side){.k = c->k,
                      .run = c->k->lin[f.kind],
                      .format = f,
                      .is_int8 = panel_is_int8(f.kind),
                      .ahead = c->fetch_ahead,
                      .panels = w->data.ptr,
                      .panel_bytes = panel_bytes(f, w->K),
                      .n_panels = cpu_weight_panels(w),
                      .N = w->N,
                      .K = w->K,
                      .n_groups = f.group ? w->K / f.group : 0,
                      .q = v->q,
                      .scale = v->scale,
                      .sum = v->sum,
                      .x = x};
}

/* Panel p of expert e (0 for a plain linear). */
static inline const uint8_t *cpu_side_panel(const cpu_side *s, int64_t e, int64_t p)
{
    return s->panels + (e * s->n_panels + p) * s->panel_bytes;
}

/* Rows and panels are still to be named. Field by field: the rows' pointers are 2 KB. */
static inline void cpu_side_tile(const cpu_side *s, lin_tile *t, float *out)
{
    t->format = s->format;
    t->K = s->K;
    t->ahead = s->ahead;
    t->out = out;
    t->n_rows = t->n_panels = 0;
    for (int p = 0; p < TILE_PANELS; p++) t->panel[p] = t->next[p] = NULL;
}

/* How many rows a tile takes of n: even shares, so that no small tile is left over. Kinds whose
 * panels are decoded once a tile take more. */
static inline int cpu_side_rows(const cpu_side *s, int n)
{
    int most = s->is_int8 ? s->k->tile_rows : FLOAT_TILE_ROWS;
    int step = s->is_int8 ? s->k->row_step : 1;
    int n_tiles = (n + most - 1) / most, rows = (n + n_tiles - 1) / n_tiles;
    return rows <= step ? rows : (rows + step - 1) / step * step;
}

/* The i-th tile of a run of panels [from, to): one panel or two. Panels that a tile reads side by
 * side come from the two halves of the run, as neighbours would end each other's stream every few
 * KB; those that it reads behind each other are neighbours, and so are those of many rows, whose
 * results are most of what is moved: two lines of a row of y then lie together. */
enum { PAIR_ROWS = 16 };
typedef struct {
    int64_t panel[TILE_PANELS];
    int n;
    int64_t step; /* bytes from a panel to what the next tile reads in its place */
} cpu_tile_panels;

static inline int64_t cpu_side_tiles(int64_t from, int64_t to)
{
    return (to - from + 1) / 2;
}

static inline cpu_tile_panels cpu_side_pair(const cpu_side *s, int64_t from, int64_t to, int64_t i,
                                            int64_t n_rows)
{
    if (s->is_int8 && (s->k->tile_panels == 1 || n_rows >= PAIR_ROWS))
        return (cpu_tile_panels){.panel = {from + 2 * i, from + 2 * i + 1},
                                 .n = from + 2 * i + 1 < to ? 2 : 1,
                                 .step = 2 * s->panel_bytes};
    int64_t half = cpu_side_tiles(from, to);
    return (cpu_tile_panels){.panel = {from + i, from + half + i},
                             .n = from + half + i < to ? 2 : 1,
                             .step = s->panel_bytes};
}

/* How many rows pass all panels of a worker before the next ones do: as many as the second-level
 * cache holds beside the panels, in even shares of whole tiles. */
static inline int cpu_side_block(const cpu_side *s, int T)
{
    enum { BLOCK_BYTES = 640 << 10 };
    int64_t most = BLOCK_BYTES / (s->is_int8 ? s->K : 4 * s->K);
    int step = cpu_side_rows(s, T);
    if (T <= most || most < step) return T;
    int64_t n_blocks = (T + most - 1) / most, rows = (T + n_blocks - 1) / n_blocks;
    return (int)((rows + step - 1) / step * step);
}

/* Row `to` of the tile is row i. */
static inline void cpu_side_row(const cpu_side *s, lin_tile *t, int to, int64_t i)
{
    if (s->is_int8) {
        t->q[to] = s->q + i * s->K;
        t->scale[to] = s->scale + i * s->n_groups;
        t->sum[to] = s->sum + i * s->n_groups;
    } else {
        t->x[to] = s->x + i * s->K;
    }
}

#endif
