#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_attn_priv.h"
#include "backend/cpu/cpu_priv.h"

/* ---- prep: norm, rotate, store ------------------------------------------------------------ */

typedef struct {
    const cpu_kernels *k;
    const attn_prep_args *a;
} prep_job;

kernel_kv cpu_attn_kv(kv_format f)
{
    return f == KV_INT8 ? KERNEL_KV_I8 : f == KV_BF16 ? KERNEL_KV_BF16 : KERNEL_KV_F32;
}

int cpu_attn_kv_bytes(kv_format f)
{
    return f == KV_INT8 ? 1 : f == KV_BF16 ? 2 : 4;
}

void cpu_attn_rotate(float *x, const float *cs, int n_pairs)
{
    for (int j = 0; j < n_pairs; j++) {
        float c = cs[2 * j], s = cs[2 * j + 1], low = x[j], high = x[j + n_pairs];
        x[j] = low * c - high * s;
        x[j + n_pairs] = high * c + low * s;
    }
}

/* The cell of position pos, KV head g in a cache [n_blocks, G, OPS_BLOCK]. */
static int64_t kv_cell(const ops_rows *r, int slot, int64_t pos, int G, int g)
{
    int64_t block = cpu_i32(r->table)[(int64_t)slot * r->table_stride + pos / OPS_BLOCK];
    return (block * G + g) * OPS_BLOCK + pos % OPS_BLOCK;
}

static void kv_store(const prep_job *j, dev_buf data, dev_buf scale, int64_t cell, const float *x)
{
    const attn_prep_args *a = j->a;
    char *at = (char *)data.ptr + cell * a->D * cpu_attn_kv_bytes(a->kv.format);
    float s = j->k->kv_store[cpu_attn_kv(a->kv.format)](x, a->D, at);
    if (a->kv.format == KV_INT8) cpu_f32(scale)[cell] = s;
}

static void prep_row(const prep_job *j, int64_t t)
{
    const attn_prep_args *a = j->a;
    int D = a->D, stride = a->has_gate ? 2 * D : D;
    int lane = cpu_i32(a->rows.row_lane)[t];
    const float *cs = cpu_f32(a->cs) + t * a->n_pairs * 2;
    for (int h = 0; h < a->H; h++) {
        float *q = cpu_f32(a->q) + (t * a->H + h) * D;
        j->k->rmsnorm(cpu_f32(a->qg) + (t * a->H + h) * stride, cpu_f32(a->q_norm), a->eps, D, q);
        cpu_attn_rotate(q, cs, a->n_pairs);
    }
    if (lane < 0) return;
    int slot = cpu_i32(a->rows.lane_slot)[lane], pos = cpu_i32(a->rows.row_pos)[t];
    for (int g = 0; g < a->G; g++) {
        float k[ATTN_D_MAX];
        int64_t cell = kv_cell(&a->rows, slot, pos, a->G, g);
        j->k->rmsnorm(cpu_f32(a->k) + (t * a->G + g) * D, cpu_f32(a->k_norm), a->eps, D, k);
        cpu_attn_rotate(k, cs, a->n_pairs);
        kv_store(j, a->kv.k, a->kv.k_scale, cell, k);
        kv_store(j, a->kv.v, a->kv.v_scale, cell, cpu_f32(a->v) + (t * a->G + g) * D);
    }
}

static void prep_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    for (int64_t t = begin; t < end; t++) prep_row(ctx, t);
}

status cpu_attn_prep(backend *b, const attn_prep_args *a)
{
    prep_job j = {cpu_of(b)->k, a};
    workers_for(cpu_of(b)->pool, a->rows.T, 2, prep_rows, &j);
    return ERR_OK;
}

/* ---- attention: segments ------------------------------------------------------------------ */

/* An item is one KV head against the queries of a few rows of one lane. The context is cut into
 * segments of ATTN_SEGMENT positions, each summed from nothing tile by tile in ascending order;
 * segments are merged in ascending order by one formula. That holds whether one worker takes all
 * segments of an item or several share them, so nobody sees the difference. */
enum {
    ATTN_SEGMENT = 1024,
    ITEM_QUERIES = 32,    /* queries of an item: their sums fit in the first-level cache */
    UNITS_PER_WORKER = 8, /* segments of shared items whose sums wait for the merge */
};

typedef struct {
    int32_t slot, row0, n_rows, g;
    int32_t n_pos; /* positions that the last row sees */
} attn_item;

typedef struct {
    cpu_backend *c;
    const attn_args *a;
    attn_item *items;
    int n_items;
    char *totals, *parts; /* sums of items, of units in flight */
    int64_t first_unit;   /* shared: the unit that parts[0] belongs to */
} attn_job;

static int item_queries(int H, int G)
{
    int per_row = H / G;
    return per_row >= ITEM_QUERIES ? per_row : ITEM_QUERIES / per_row * per_row;
}

static int64_t sums_bytes(int H, int G, int D)
{
    return cpu_align64(item_queries(H, G) * ((int64_t)sizeof(attn_run) + D * 4));
}

static attn_run *sums_run(char *sums)
{
    return (attn_run *)sums;
}

static float *sums_acc(const attn_args *a, char *sums)
{
    return (float *)(sums + item_queries(a->H, a->G) * (int64_t)sizeof(attn_run));
}

static void sums_clear(const attn_args *a, char *sums, int n_q)
{
    for (int i = 0; i < n_q; i++) sums_run(sums)[i] = (attn_run){-INFINITY, 0};
    memset(sums_acc(a, sums), 0, (size_t)n_q * (size_t)a->D * sizeof(float));
}

/* What one worker needs for a tile. */
typedef struct {
    const float **q;
    float *s, *correct;
    char *total, *part;
} tile_scratch;

static int64_t own_bytes(int H, int G, int D)
{
    int64_t n_q = item_queries(H, G);
    return 2 * sums_bytes(H, G, D) + cpu_align64(n_q * ATTN_TILE * 4) + cpu_align64(n_q * 4) +
           cpu_align64(n_q * (int64_t)sizeof(float *));
}

static tile_scratch scratch_of(const attn_job *j, int worker)
{
    const attn_args *a = j->a;
    int64_t n_q = item_queries(a->H, a->G), sums = sums_bytes(a->H, a->G, a->D);
    char *at = cpu_own(j->c, worker);
    tile_scratch s = {.total = at, .part = at + sums};
    at += 2 * sums;
    s.s = (float *)at;
    at += cpu_align64(n_q * ATTN_TILE * 4);
    s.correct = (float *)at;
    at += cpu_align64(n_q * 4);
    s.q = (const float **)at;
    return s;
}

/* Query i of an item is head g * per_row + i % per_row of row row0 + i / per_row. */
static int64_t item_head(const attn_args *a, const attn_item *it, int i)
{
    int per_row = a->H / a->G;
    return ((int64_t)it->row0 + i / per_row) * a->H + (int64_t)it->g * per_row + i % per_row;
}

static int item_n_q(const attn_args *a, const attn_item *it)
{
    return it->n_rows * (a->H / a->G);
}

/* Positions [from, from + 64) of the item's lane into `sums`. */
static void attn_one_tile(const attn_job *j, const attn_item *it, const tile_scratch *w, int from,
                          char *sums)
{
    const attn_args *a = j->a;
    const cpu_kernels *k = j->c->k;
    kernel_kv kind = cpu_attn_kv(a->kv.format);
    int64_t cell = kv_cell(&a->rows, it->slot, from, a->G, it->g);
    int64_t at = cell * a->D * cpu_attn_kv_bytes(a->kv.format);
    int per_row = a->H / a->G, left = it->n_pos - from;
    attn_tile t = {.q = w->q,
                   .s = w->s,
                   .acc = sums_acc(a, sums),
                   .correct = w->correct,
                   .scale = a->scale,
                   .n_q = item_n_q(a, it),
                   .D = a->D};
    t.n_pos = left < ATTN_TILE ? left : ATTN_TILE;
    t.k = (const char *)a->kv.k.ptr + at;
    t.v = (const char *)a->kv.v.ptr + at;
    if (from + ATTN_TILE < it->n_pos)
        t.next_k = (const char *)a->kv.k.ptr +
                   kv_cell(&a->rows, it->slot, from + ATTN_TILE, a->G, it->g) * a->D *
                       cpu_attn_kv_bytes(a->kv.format);
    const float *v_scale = NULL;
    if (a->kv.format == KV_INT8) {
        t.k_scale = cpu_f32(a->kv.k_scale) + cell;
        v_scale = cpu_f32(a->kv.v_scale) + cell;
    }
    k->attn_scores[kind](&t);
    for (int i = 0; i < t.n_q; i++) {
        /* the row before the last sees one position less, and so on */
        int high = left - (it->n_rows - 1 - i / per_row);
        if (high > t.n_pos) high = t.n_pos;
        w->correct[i] = k->attn_softmax(w->s + i * ATTN_TILE, 0, high, v_scale, &sums_run(sums)[i]);
    }
    k->attn_values[kind](&t);
}

static void attn_segment(const attn_job *j, const attn_item *it, const tile_scratch *w, int segment,
                         char *sums)
{
    const attn_args *a = j->a;
    int n_q = item_n_q(a, it), end = (segment + 1) * ATTN_SEGMENT;
    if (end > it->n_pos) end = it->n_pos;
    for (int i = 0; i < n_q; i++) w->q[i] = cpu_f32(a->q) + item_head(a, it, i) * a->D;
    sums_clear(a, sums, n_q);
    for (int from = segment * ATTN_SEGMENT; from < end; from += ATTN_TILE)
        attn_one_tile(j, it, w, from, sums);
}

/* total <- total + part. Queries that saw nothing of the segment stay as they are. */
static void attn_merge(const attn_job *j, int n_q, char *total, char *part)
{
    const attn_args *a = j->a;
    for (int i = 0; i < n_q; i++) {
        attn_run *to = &sums_run(total)[i], from = sums_run(part)[i];
        float *acc = sums_acc(a, total) + (int64_t)i * a->D;
        const float *add = sums_acc(a, part) + (int64_t)i * a->D;
        if (from.max == -INFINITY) continue;
        float max = from.max > to->max ? from.max : to->max;
        float f[2] = {to->max - max, from.max - max};
        j->c->k->exp(f, 2, f);
        for (int d = 0; d < a->D; d++) acc[d] = acc[d] * f[0] + add[d] * f[1];
        *to = (attn_run){max, to->sum * f[0] + from.sum * f[1]};
    }
}

static void attn_write(const attn_job *j, const attn_item *it, char *total)
{
    const attn_args *a = j->a;
    for (int i = 0; i < item_n_q(a, it); i++) {
        int64_t head = item_head(a, it, i);
        float *out = cpu_f32(a->out) + head * a->D;
        const float *acc = sums_acc(a, total) + (int64_t)i * a->D;
        float inverse = 1.0f / sums_run(total)[i].sum;
        for (int d = 0; d < a->D; d++) out[d] = acc[d] * inverse;
        if (a->has_gate) j->c->k->gate(out, cpu_f32(a->qg) + (head * 2 + 1) * a->D, a->D);
    }
}

static int n_segments(const attn_item *it)
{
    return (it->n_pos + ATTN_SEGMENT - 1) / ATTN_SEGMENT;
}

/* ---- attention: a worker takes whole items ------------------------------------------------ */

/* Later rows see more: 0, n - 1, 1, n - 2, .. gives each worker long and short ones alike. */
static int64_t balanced(int64_t i, int64_t n)
{
    return i % 2 == 0 ? i / 2 : n - 1 - i / 2;
}

static void whole_items(void *ctx, int64_t begin, int64_t end, int worker)
{
    const attn_job *j = ctx;
    tile_scratch w = scratch_of(j, worker);
    for (int64_t i = begin; i < end; i++) {
        const attn_item *it = &j->items[balanced(i, j->n_items)];
        sums_clear(j->a, w.total, item_n_q(j->a, it));
        for (int s = 0; s < n_segments(it); s++) {
            attn_segment(j, it, &w, s, w.part);
            attn_merge(j, item_n_q(j->a, it), w.total, w.part);
        }
        attn_write(j, it, w.total);
    }
}

/* ---- attention: workers share the segments of few items ----------------------------------- */

/* Units are the segments of all items in order. */
static const attn_item *unit_item(const attn_job *j, int64_t unit, int *segment)
{
    const attn_item *it = j->items;
    for (; unit >= n_segments(it); it++) unit -= n_segments(it);
    *segment = (int)unit;
    return it;
}

static char *unit_part(const attn_job *j, int64_t unit)
{
    return j->parts + (unit - j->first_unit) * sums_bytes(j->a->H, j->a->G, j->a->D);
}

static void segment_units(void *ctx, int64_t begin, int64_t end, int worker)
{
    const attn_job *j = ctx;
    tile_scratch w = scratch_of(j, worker);
    for (int64_t i = begin; i < end; i++) {
        int64_t unit = j->first_unit + i;
        int segment;
        const attn_item *it = unit_item(j, unit, &segment);
        attn_segment(j, it, &w, segment, unit_part(j, unit));
    }
}

static void share_segments(attn_job *j)
{
    const attn_args *a = j->a;
    int64_t n_units = 0, most = (int64_t)UNITS_PER_WORKER * j->c->n_workers;
    for (int i = 0; i < j->n_items; i++) n_units += n_segments(&j->items[i]);
    for (j->first_unit = 0; j->first_unit < n_units; j->first_unit += most) {
        int64_t n = n_units - j->first_unit < most ? n_units - j->first_unit : most;
        workers_for(j->c->pool, n, 1, segment_units, j);
        for (int64_t i = 0; i < n; i++) {
            int segment;
            const attn_item *it = unit_item(j, j->first_unit + i, &segment);
            char *total = j->totals + (it - j->items) * sums_bytes(a->H, a->G, a->D);
            if (segment == 0) sums_clear(a, total, item_n_q(a, it));
            attn_merge(j, item_n_q(a, it), total, unit_part(j, j->first_unit + i));
            if (segment + 1 == n_segments(it)) attn_write(j, it, total);
        }
    }
}

/* ---- attention: the op -------------------------------------------------------------------- */

static int64_t most_items(int T, int L, int H, int G)
{
    int rows_an_item = item_queries(H, G) / (H / G);
    return ((int64_t)T / rows_an_item + L + 1) * G;
}

cpu_scratch cpu_attn_scratch(int T, int L, int H, int G, int D, int n_workers)
{
    cpu_scratch s = {.own = own_bytes(H, G, D)};
    /* few items are shared: fewer than 4 a worker; see cpu_attn */
    int64_t n_sums = (int64_t)(UNITS_PER_WORKER + 4) * n_workers;
    s.shared = cpu_align64(most_items(T, L, H, G) * (int64_t)sizeof(attn_item)) +
               n_sums * sums_bytes(H, G, D);
    return s;
}

static int list_items(const attn_args *a, attn_item *items)
{
    int rows_an_item = item_queries(a->H, a->G) / (a->H / a->G), n = 0;
    const int32_t *lane_row = cpu_i32(a->rows.lane_row), *pos = cpu_i32(a->rows.row_pos);
    for (int l = 0; l < a->rows.L; l++) {
        for (int row = lane_row[l]; row < lane_row[l + 1]; row += rows_an_item) {
            int n_rows = lane_row[l + 1] - row;
            if (n_rows > rows_an_item) n_rows = rows_an_item;
            for (int g = 0; g < a->G; g++)
                items[n++] = (attn_item){cpu_i32(a->rows.lane_slot)[l], row, n_rows, g,
                                         pos[row + n_rows - 1] + 1};
        }
    }
    return n;
}

status cpu_attn(backend *b, const attn_args *a)
{
    cpu_backend *c = cpu_of(b);
    cpu_scratch s = cpu_attn_scratch(a->rows.T, a->rows.L, a->H, a->G, a->D, c->n_workers);
    TRY(cpu_need(c, "attn", s.own, s.shared, 0));
    attn_job j = {.c = c, .a = a, .items = (attn_item *)c->shared};
    j.totals = c->shared + cpu_align64(most_items(a->rows.T, a->rows.L, a->H, a->G) *
                                       (int64_t)sizeof(attn_item));
    j.parts = j.totals + 4 * c->n_workers * sums_bytes(a->H, a->G, a->D);
    j.n_items = list_items(a, j.items);
    bool is_even = j.n_items % c->n_workers == 0;
    if (c->n_workers > 1 && j.n_items < 4 * c->n_workers && !is_even)
        share_segments(&j);
    else
        workers_for(c->pool, j.n_items, 1, whole_items, &j);
    return ERR_OK;
}
