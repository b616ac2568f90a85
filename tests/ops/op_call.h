/* op_call: one call of an op as data: its buffers, weights and rows, for any backend.
 *
 * A buffer's content comes from (seed, buffer, unit), a unit being a row of a lane, a lane, a
 * slot or a KV block: the same row has the same numbers whoever shares the call. Values that a
 * backend holds as bf16 activations are rounded to bf16 here, so that all backends read equal
 * numbers. Memory is the call's arena. */
#ifndef RIPTIDE_TESTS_OP_CALL_H
#define RIPTIDE_TESTS_OP_CALL_H

#include <stdbool.h>
#include <stdlib.h>

#include "backend/backend.h"
#include "base/arena.h"
#include "base/asserts.h"
#include "support/test.h"
#include "tensor/half.h"
#include "tensor/quant.h"

enum { OP_BUFS_MAX = 64, OP_WEIGHTS_MAX = 9, OP_LANES_MAX = 64, OP_GROUPS_MAX = 3 };

/* ---- lanes -------------------------------------------------------------------------------- */

/* Rows first .. first + n_rows - 1 of the lane's own numbering; row i stands at start + i. */
typedef struct {
    int key, slot, start, first, n_rows;
} op_lane;

typedef struct {
    int L, S, T, n_pad;
    int n_blocks, stride; /* KV blocks in all, and of one slot */
    op_lane lane[OP_LANES_MAX];
} op_lanes;

static inline void op_lanes_count(op_lanes *s)
{
    s->T = s->n_pad;
    for (int l = 0; l < s->L; l++) s->T += s->lane[l].n_rows;
}

/* "3@60,1@0+2": a lane of 3 rows from position 60, one of 1 row from 0, two padding rows. Slots
 * are scattered, three of them belong to nobody. */
static inline op_lanes op_lanes_parse(const char *text)
{
    op_lanes s = {0};
    int longest = 1;
    while (*text && *text != '+') {
        char *end;
        op_lane *lane = &s.lane[s.L];
        lane->key = s.L++;
        lane->n_rows = (int)strtol(text, &end, 10);
        lane->start = (int)strtol(end + 1, &end, 10);
        if (lane->start + lane->n_rows > longest) longest = lane->start + lane->n_rows;
        text = *end == ',' ? end + 1 : end;
    }
    if (*text == '+') s.n_pad = atoi(text + 1);
    s.S = s.L + 3;
    for (int l = 0; l < s.L; l++) s.lane[l].slot = s.S - 1 - (l * 2 + 1) % s.S;
    if (s.S % 2 == 0) { /* 2 divides S: the step above would meet itself */
        for (int l = 0; l < s.L; l++) s.lane[l].slot = (l + 2) % s.S;
    }
    s.stride = longest / OPS_BLOCK + 2;
    s.n_blocks = s.S * s.stride;
    op_lanes_count(&s);
    return s;
}

/* T lanes of one row each. */
static inline op_lanes op_lanes_single(int T)
{
    op_lanes s = {.L = T, .S = T + 3, .T = T, .stride = 1, .n_blocks = T + 3};
    ASSERT(T <= OP_LANES_MAX);
    for (int l = 0; l < T; l++) s.lane[l] = (op_lane){l, (l + 2) % s.S, 0, 0, 1};
    return s;
}

/* ---- buffers ------------------------------------------------------------------------------ */

typedef enum { OP_IN, OP_OUT, OP_INOUT } op_role;
typedef enum { OP_ACT, OP_F32, OP_I32, OP_I8, OP_BF16, OP_BYTES } op_type;
typedef enum { OP_WHOLE, OP_ROW, OP_LANE, OP_SLOT, OP_BLOCK } op_axis;

typedef struct {
    const char *name;
    op_role role;
    op_type type;
    op_axis axis;
    int group;         /* whose rows or lanes */
    int64_t unit;      /* elements of one unit */
    int64_t n;         /* elements in all; 0 = an empty dev_buf */
    void *host;        /* content before the call; f32 for ACT */
    double *want;      /* [n] by the formula in double; NULL when it has no reading */
    double *want_bf16; /* the same with weights and activations rounded to bf16; may be NULL */
    bool opaque;       /* its order is the backend's own: never compared between backends */
    int follows; /* when not 0: element i says nothing where integer i of this buffer differs */
    double bound_cpu; /* when not 0: what cpu may be off, see op_loosen */
} op_buf;

typedef struct op_call op_call;
struct op_call {
    arena mem;
    uint64_t seed;
    int i_case;
    op_lanes lanes[OP_GROUPS_MAX]; /* group 0 is the case's own */
    int rows_at[OP_GROUPS_MAX];    /* first of the six buffers of each group's ops_rows */
    int n_bufs, n_weights;
    op_buf buf[OP_BUFS_MAX];
    tensor weight[OP_WEIGHTS_MAX];
    weight_use use[OP_WEIGHTS_MAX];
    int V;                       /* ids are below it */
    double bound_f32, bound_act; /* relative norm against ref: backends with f32, bf16 act */
    double bound_read;           /* of ref against the reading */
    const void *param;
    status (*run)(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w);
    /* May a different integer stand in output i? NULL = never. */
    bool (*excuse)(const op_call *c, int i_buf, int64_t i, int64_t got, int64_t want);
};

static inline void *op_new(op_call *c, int64_t n, size_t size)
{
    void *p = arena_new_array(&c->mem, (size_t)n + 1, size);
    ASSERT(p);
    return p;
}

static inline int64_t op_host_size(op_type t)
{
    return t == OP_I8 || t == OP_BYTES ? 1 : t == OP_BF16 ? 2 : 4;
}

static inline int64_t op_units(const op_call *c, op_axis axis, int group)
{
    const op_lanes *s = &c->lanes[group];
    switch (axis) {
    case OP_ROW: return s->T;
    case OP_LANE: return s->L;
    case OP_SLOT: return s->S;
    case OP_BLOCK: return s->n_blocks;
    default: return 1;
    }
}

/* The row's lane in its group, or -1 for padding; *index = its number within the lane. */
static inline int op_row_lane(const op_lanes *s, int64_t row, int *index)
{
    for (int l = 0; l < s->L; l++) {
        if (row < s->lane[l].n_rows) {
            *index = s->lane[l].first + (int)row;
            return l;
        }
        row -= s->lane[l].n_rows;
    }
    *index = (int)row;
    return -1;
}

/* A random stream that belongs to this unit of this buffer. */
static inline uint64_t op_stream(const op_call *c, int i_buf, int64_t unit)
{
    const op_buf *b = &c->buf[i_buf];
    uint64_t s = c->seed + (uint64_t)i_buf * 0x632be59bd9b4e019ULL, id = (uint64_t)unit;
    if (b->axis == OP_ROW) {
        int index, lane = op_row_lane(&c->lanes[b->group], unit, &index);
        id = (uint64_t)(lane < 0 ? 9999 : c->lanes[b->group].lane[lane].key) << 32 |
             (uint64_t)index;
    } else if (b->axis == OP_LANE) {
        id = (uint64_t)c->lanes[b->group].lane[unit].key;
    }
    s ^= test_random(&id);
    return test_random(&s);
}

/* About normal, by one random number; at most 3.5. */
static inline double op_noise(uint64_t *s)
{
    uint64_t x = test_random(s);
    double sum = (double)(x & 0xffff) + (double)(x >> 16 & 0xffff) + (double)(x >> 32 & 0xffff) +
                 (double)(x >> 48);
    return (sum / 65536.0 - 2.0) * 1.7320508;
}

static inline float op_round_bf16(double x)
{
    return half_from_bf16(half_to_bf16((float)x));
}

/* Add a buffer with zeroed content. */
static inline int op_add(op_call *c, const char *name, op_role role, op_type type, op_axis axis,
                         int group, int64_t unit)
{
    ASSERT(c->n_bufs < OP_BUFS_MAX);
    op_buf *b = &c->buf[c->n_bufs];
    *b = (op_buf){.name = name, .role = role, .type = type, .axis = axis, .group = group};
    b->unit = unit;
    b->n = unit * op_units(c, axis, group);
    b->host = op_new(c, b->n, (size_t)op_host_size(type));
    if (role != OP_IN) {
        b->want = op_new(c, b->n, sizeof *b->want);
    }
    return c->n_bufs++;
}

/* Add a float buffer of normal values times `scale` plus `shift`. */
static inline int op_add_noise(op_call *c, const char *name, op_role role, op_type type,
                               op_axis axis, int group, int64_t unit, double scale, double shift)
{
    int i = op_add(c, name, role, type, axis, group, unit);
    op_buf *b = &c->buf[i];
    for (int64_t u = 0; u * unit < b->n; u++) {
        uint64_t s = op_stream(c, i, u);
        for (int64_t k = 0; k < unit; k++) {
            double x = op_noise(&s) * scale + shift;
            if (type == OP_BF16) {
                ((uint16_t *)b->host)[u * unit + k] = half_to_bf16((float)x);
            } else {
                ((float *)b->host)[u * unit + k] = type == OP_ACT ? op_round_bf16(x) : (float)x;
            }
        }
    }
    return i;
}

static inline float *op_f32(const op_call *c, int i)
{
    return (float *)c->buf[i].host;
}
static inline int32_t *op_i32(const op_call *c, int i)
{
    return (int32_t *)c->buf[i].host;
}

/* cpu multiplies affine weights with activations rounded to int8 by groups of 32 or 64; its
 * output i then has this bound in place of the call's. */
static inline void op_loosen(op_call *c, int i, double bound)
{
    c->buf[i].bound_cpu = bound;
}

/* Put activations on a grid that int8 groups hold exactly (steps of 1/32, a largest value in
 * each 32): then no rounding stands between cpu and the call's own bound. */
static inline void op_put_on_grid(op_call *c, int i)
{
    float *x = op_f32(c, i);
    for (int64_t k = 0; k < c->buf[i].n; k++) {
        double q = fmax(-127, fmin(127, rint((double)x[k] * 40)));
        x[k] = (float)(k % c->buf[i].unit % 32 == 5 ? copysign(127, q) : q) / 32;
    }
}

/* An empty dev_buf in place of an optional one. */
static inline int op_add_empty(op_call *c, const char *name)
{
    int i = op_add(c, name, OP_IN, OP_F32, OP_WHOLE, 0, 1);
    c->buf[i].n = 0;
    return i;
}

/* ---- rows --------------------------------------------------------------------------------- */

enum { OP_IDS, OP_ROW_LANE, OP_ROW_POS, OP_LANE_ROW, OP_LANE_SLOT, OP_TABLE, OP_ROWS_N };

static inline void op_table_shuffle(const op_call *c, int32_t *table, int n)
{
    uint64_t s = c->seed;
    for (int i = 0; i < n; i++) table[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)(test_random(&s) % (uint64_t)(i + 1));
        int32_t moved = table[i];
        table[i] = table[j];
        table[j] = moved;
    }
}

/* The six buffers of an ops_rows for these lanes; c->V bounds the ids. */
static inline void op_add_rows(op_call *c, int group, const op_lanes *lanes)
{
    c->lanes[group] = *lanes;
    c->rows_at[group] = c->n_bufs;
    int ids = op_add(c, "ids", OP_IN, OP_I32, OP_ROW, group, 1);
    int row_lane = op_add(c, "row_lane", OP_IN, OP_I32, OP_ROW, group, 1);
    int row_pos = op_add(c, "row_pos", OP_IN, OP_I32, OP_ROW, group, 1);
    int lane_row = op_add(c, "lane_row", OP_IN, OP_I32, OP_WHOLE, group, lanes->L + 1);
    int lane_slot = op_add(c, "lane_slot", OP_IN, OP_I32, OP_LANE, group, 1);
    int table = op_add(c, "table", OP_IN, OP_I32, OP_WHOLE, group, lanes->n_blocks);
    for (int64_t t = 0; t < lanes->T; t++) {
        int index, l = op_row_lane(lanes, t, &index);
        uint64_t s = op_stream(c, ids, t);
        op_i32(c, ids)[t] = (int32_t)(test_random(&s) % (uint64_t)c->V);
        op_i32(c, row_lane)[t] = l;
        op_i32(c, row_pos)[t] = l < 0 ? 0 : lanes->lane[l].start + index;
    }
    for (int l = 0; l < lanes->L; l++) {
        op_i32(c, lane_row)[l + 1] = op_i32(c, lane_row)[l] + lanes->lane[l].n_rows;
        op_i32(c, lane_slot)[l] = lanes->lane[l].slot;
    }
    op_table_shuffle(c, op_i32(c, table), lanes->n_blocks);
}

static inline ops_rows op_rows(const op_call *c, int group, const dev_buf *d)
{
    const op_lanes *s = &c->lanes[group];
    d += c->rows_at[group];
    ops_rows r = {.T = s->T,
                  .L = s->L,
                  .ids = d[OP_IDS],
                  .row_lane = d[OP_ROW_LANE],
                  .row_pos = d[OP_ROW_POS],
                  .lane_row = d[OP_LANE_ROW],
                  .lane_slot = d[OP_LANE_SLOT],
                  .table = d[OP_TABLE],
                  .table_stride = s->stride};
    for (int l = 0; l < s->L; l++) {
        const op_lane *lane = &s->lane[l];
        int end = lane->start + lane->first + lane->n_rows;
        if (lane->n_rows > r.max_rows) r.max_rows = lane->n_rows;
        if (end > r.max_len) r.max_len = end;
    }
    return r;
}

/* Element offset of the vector of (slot, pos, g) in a cache [n_blocks, G, OPS_BLOCK, D]. */
static inline int64_t op_cell(const op_call *c, int group, int slot, int pos, int G, int g, int D)
{
    const int32_t *table = op_i32(c, c->rows_at[group] + OP_TABLE);
    int64_t block = table[slot * c->lanes[group].stride + pos / OPS_BLOCK];
    return ((block * G + g) * OPS_BLOCK + pos % OPS_BLOCK) * D;
}

/* ---- weights ------------------------------------------------------------------------------ */

typedef struct {
    dtype type;
    int bits, group;
    dtype scale_type;
} op_format;

static inline void op_put_number(uint8_t *at, int64_t i, dtype type, double x)
{
    if (type == DTYPE_F32) {
        float f = (float)x;
        memcpy(at + i * 4, &f, 4);
    } else {
        uint16_t h = type == DTYPE_BF16 ? half_to_bf16((float)x) : half_to_f16((float)x);
        memcpy(at + i * 2, &h, 2);
    }
}

/* n numbers of a type at an address that is odd when `is_odd`: files are mapped as they lie. */
static inline uint8_t *op_numbers(op_call *c, dtype type, int64_t n, double scale, bool is_odd,
                                  uint64_t *s)
{
    uint8_t *at = (uint8_t *)op_new(c, n * 4 + 16, 1) + is_odd;
    for (int64_t i = 0; i < n; i++) op_put_number(at, i, type, op_noise(s) * scale);
    return at;
}

/* Add a random weight [X, N, K] (X = 0: [N, K]) whose rows have a norm near 1. */
static inline int op_add_weight(op_call *c, weight_use use, op_format f, int64_t X, int64_t N,
                                int64_t K, bool is_odd)
{
    ASSERT(c->n_weights < OP_WEIGHTS_MAX);
    uint64_t s = c->seed + 77777 * (uint64_t)(c->n_weights + 1);
    int64_t n = (X ? X : 1) * N * K;
    tensor t = {.type = f.type, .n_dims = X ? 3 : 2, .shape = {N, K}};
    if (X) memcpy(t.shape, (int64_t[]){X, N, K}, 3 * sizeof(int64_t));
    if (f.type == DTYPE_AFFINE) {
        t.bits = f.bits;
        t.group = f.group;
        t.scale_type = f.scale_type;
        t.n_bytes = quant_affine_row_bytes(K, f.bits) * (n / K);
        uint8_t *codes = (uint8_t *)op_new(c, t.n_bytes + 16, 1) + is_odd;
        for (int64_t i = 0; i < t.n_bytes; i++) codes[i] = (uint8_t)(test_random(&s) >> 40);
        double step = 4.0 / ((1 << f.bits) * sqrt((double)K));
        t.data = codes;
        t.scales = op_numbers(c, f.scale_type, n / f.group, step, is_odd, &s);
        t.biases = op_numbers(c, f.scale_type, n / f.group, 1.0 / sqrt((double)K), is_odd, &s);
    } else {
        t.n_bytes = n * dtype_bits(f.type) / 8;
        t.data = op_numbers(c, f.type, n, 1.0 / sqrt((double)K), is_odd, &s);
    }
    c->weight[c->n_weights] = t;
    c->use[c->n_weights] = use;
    return c->n_weights++;
}

#endif
