/* kern_lin_amx: int8 tiles by AMX, for tiles of several rows. Included by kernels_amx.c only.
 *
 * One instruction takes the exact dot products of 16 rows with a block of 16 outputs; scales and
 * biases then come in as kern_lin_int8 brings them in, so the bits are its bits. A panel's codes
 * lie as the instruction wants them (cpu_panel_priv.h: 4 k of 16 outputs are 64 bytes); 4-bit ones
 * are spread out to bytes once for all rows of a tile.
 *
 * The tile registers are configured and released in every call: threads that do something else
 * meanwhile then have no 8 KB more to save. */
#ifndef RIPTIDE_BACKEND_CPU_KERN_LIN_AMX_PRIV_H
#define RIPTIDE_BACKEND_CPU_KERN_LIN_AMX_PRIV_H

#include <immintrin.h>

#include "backend/cpu/kern_lin_priv.h"

enum {
    AMX_ROWS = 16,      /* of a tile register */
    AMX_TILE_ROWS = 64, /* of a lin_tile: spreading its codes out costs a twelfth then */
    AMX_STEPS = AMX_TILE_ROWS / AMX_ROWS,
    AMX_LEAST = 10, /* rows; fewer are faster row by row: a register's 16 cost what they cost */
};

/* The registers: sums of two panels, the rows, the codes of two panels. Macros, as gcc pastes the
 * digits into the instruction. */
#define AMX_SUM_0 0
#define AMX_SUM_1 1
#define AMX_X 2
#define AMX_CODES_0 3
#define AMX_CODES_1 4
enum { AMX_USED = 5 };

typedef struct {
    _Alignas(64) uint8_t palette;
    uint8_t start_row, unused[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} amx_config;

static void amx_configure(int group)
{
    amx_config c = {.palette = 1};
    for (int i = 0; i < AMX_USED; i++) {
        c.rows[i] = i >= AMX_CODES_0 ? (uint8_t)(group / 4) : AMX_ROWS;
        c.row_bytes[i] = i == AMX_X ? (uint16_t)group : 64;
    }
    _tile_loadconfig(&c);
}

/* What a block looks like to the loops below. */
typedef struct {
    int head, biases;
    int64_t bytes, n;
    bool is_f32, has_zero;
    v16 minus_zero;
} amx_block;

V16_FN amx_block amx_block_of(const lin_tile *t)
{
    const panel_format f = t->format;
    return (amx_block){.head = panel_head_bytes(f),
                       .biases = panel_scale_bytes(f),
                       .bytes = panel_block_bytes(f),
                       .n = t->K / f.group,
                       .is_f32 = f.has_f32_scales,
                       .has_zero = f.zero != 0,
                       .minus_zero = v16_set1(-(float)f.zero)};
}

/* The 16 rows of a step, or what there is of them; the instruction reads all 16. */
typedef struct {
    const int8_t *q;
    int64_t stride; /* bytes from row to row, 0 when they lie apart and are copied block by block */
} amx_rows;

V16_FN amx_rows amx_rows_at(const lin_tile *t, int r0)
{
    amx_rows x = {t->q[r0], 0};
    if (t->n_rows - r0 < AMX_ROWS) return x;
    int64_t stride = t->q[r0 + 1] - t->q[r0];
    for (int r = 2; r < AMX_ROWS; r++)
        if (t->q[r0 + r] - t->q[r0 + r - 1] != stride) return x;
    x.stride = stride;
    return x;
}

/* Rows past the last are what was there before: their sums are not read. */
V16_FORM void amx_copy_rows(const lin_tile *t, int r0, int n, int64_t k, int group, int8_t *to)
{
    for (int r = 0; r < n; r++) {
        const int8_t *from = t->q[r0 + r] + k;
        if (group == 64)
            v16i_store(to + 64 * r, v16i_load(from));
        else
            memcpy(to + 64 * r, from, (size_t)group);
    }
}

/* Codes of a block as 4 k of 16 outputs a line. */
V16_FORM const uint8_t *amx_codes(const uint8_t *codes, int bits, int group, uint8_t *to)
{
    const v16i low = v16i_set1(0x0f0f0f0f);
    if (bits == 8) return codes;
    for (int c = 0; c < group / 8; c++) {
        v16i w = v16i_load(codes + 64 * c);
        v16i_store(to + 128 * c, v16i_and(w, low));
        v16i_store(to + 128 * c + 64, v16i_and(v16i_shr(w, 4), low));
    }
    return to;
}

/* What is in memory is what the tile instructions see: gcc does not know that they read it. */
#define AMX_IN_ORDER() __asm__ volatile("" ::: "memory")

/* Exact dot products of a step of rows with both panels. */
typedef struct {
    _Alignas(64) int32_t dot[TILE_PANELS][AMX_ROWS][PANEL_N];
} amx_sums;

/* The products of block i with up to 16 rows from r0 on; its codes are in the registers. */
V16_FORM void amx_products(const lin_tile *t, int P, int group, int64_t i, int r0, amx_rows x,
                           amx_sums *to)
{
    _Alignas(64) int8_t copied[AMX_ROWS * 64];
    if (x.stride) {
        _tile_loadd(AMX_X, x.q + i * group, x.stride);
    } else {
        int n = t->n_rows - r0 < AMX_ROWS ? t->n_rows - r0 : AMX_ROWS;
        amx_copy_rows(t, r0, n, i * group, group, copied);
        AMX_IN_ORDER();
        _tile_loadd(AMX_X, copied, 64);
    }
    _tile_zero(AMX_SUM_0);
    _tile_dpbsud(AMX_SUM_0, AMX_X, AMX_CODES_0);
    _tile_stored(AMX_SUM_0, to->dot[0], 64);
    if (P == 2) {
        _tile_zero(AMX_SUM_1);
        _tile_dpbsud(AMX_SUM_1, AMX_X, AMX_CODES_1);
        _tile_stored(AMX_SUM_1, to->dot[1], 64);
    }
    AMX_IN_ORDER();
}

/* What scales and biases make of them, onto the sums in t->out. */
V16_FORM void amx_add(const lin_tile *t, int P, int64_t i, int r0, const v16 *s, const v16 *o,
                      const amx_sums *from)
{
    float *out = t->out + r0 * TILE_PANELS * PANEL_N;
    int n = t->n_rows - r0 < AMX_ROWS ? t->n_rows - r0 : AMX_ROWS;
    for (int r = 0; r < n; r++, out += TILE_PANELS * PANEL_N) {
        v16 scale = v16_set1(t->scale[r0 + r][i]), sum = v16_set1(t->sum[r0 + r][i]);
        for (int p = 0; p < P; p++) {
            v16 y = v16_load(out + p * PANEL_N);
            y = v16_fma(v16_of_i(v16i_load(from->dot[p][r])), v16_mul(s[p], scale), y);
            v16_store(out + p * PANEL_N, v16_fma(o[p], sum, y));
        }
    }
}

/* The state of a tile: block i's products are under way while those of i - 1 are added up, since
 * what a tile instruction has written can be read only some hundred cycles later. */
typedef struct {
    amx_rows x[AMX_STEPS];
    amx_sums sums[2][AMX_STEPS];
    _Alignas(64) uint8_t spread[TILE_PANELS][64 * PANEL_N];
} amx_run;

V16_FORM void amx_begin(const lin_tile *t, int P, amx_run *run)
{
    for (int r = 0; r < t->n_rows; r++) {
        if (r % AMX_ROWS == 0) run->x[r / AMX_ROWS] = amx_rows_at(t, r);
        for (int p = 0; p < P; p++) v16_store(t->out + (r * TILE_PANELS + p) * PANEL_N, v16_zero());
    }
}

/* Step i of n + 1: block i begins, by its codes, and block i - 1 ends, by its scales s and offsets
 * o. n_bytes of the next tile's panels are fetched, a block's share. */
V16_FORM void amx_step(const lin_tile *t, int P, int group, int64_t i, int64_t n, amx_run *run,
                       const uint8_t *const *codes, const v16 *s, const v16 *o, int64_t n_bytes)
{
    AMX_IN_ORDER();
    if (i < n) _tile_loadd(AMX_CODES_0, codes[0], 64);
    if (i < n && P == 2) _tile_loadd(AMX_CODES_1, codes[1], 64);
    for (int r = 0, step = 0; r < t->n_rows; r += AMX_ROWS, step++) {
        if (i < n) amx_products(t, P, group, i, r, run->x[step], &run->sums[i % 2][step]);
        if (i > 0) amx_add(t, P, i - 1, r, s, o, &run->sums[(i - 1) % 2][step]);
    }
    for (int p = 0; p < P; p++) {
        const uint8_t *next = t->next[p] && i < n ? t->next[p] + i * n_bytes : NULL;
        for (int64_t c = 0; next && c < n_bytes; c += 64) __builtin_prefetch(next + c, 0, 2);
    }
}

V16_FORM void amx_panels(const lin_tile *t, int P, int bits, int group)
{
    const amx_block b = amx_block_of(t);
    amx_run run;
    amx_begin(t, P, &run);
    for (int64_t i = 0; i <= b.n; i++) {
        v16 s[TILE_PANELS], o[TILE_PANELS];
        const uint8_t *codes[TILE_PANELS];
        for (int p = 0; p < P && i > 0; p++) {
            const uint8_t *at = t->panel[p] + (i - 1) * b.bytes;
            s[p] = lin_scales(at, b.is_f32);
            o[p] = b.has_zero ? v16_mul(s[p], b.minus_zero) : lin_scales(at + b.biases, b.is_f32);
        }
        for (int p = 0; p < P && i < b.n; p++)
            codes[p] = amx_codes(t->panel[p] + i * b.bytes + b.head, bits, group, run.spread[p]);
        amx_step(t, P, group, i, b.n, &run, codes, s, o, b.bytes);
    }
}

V16_FORM void amx_tile(const lin_tile *t, int bits)
{
    const int group = t->format.group;
    amx_configure(group);
    if (t->n_panels == 2 && group == 64)
        amx_panels(t, 2, bits, 64);
    else
        amx_panels(t, t->n_panels, bits, group);
    _tile_release();
}

/* Row by row, as without AMX: by what is compiled for that already. */
static void amx_few(const lin_tile *t, panel_kind kind)
{
    cpu_kernels_avx512vnni.lin[kind](t);
}

static void amx_q4(const lin_tile *t)
{
    if (t->n_rows < AMX_LEAST)
        amx_few(t, PANEL_Q4);
    else
        amx_tile(t, 4);
}

static void amx_q8(const lin_tile *t)
{
    if (t->n_rows < AMX_LEAST)
        amx_few(t, PANEL_Q8);
    else
        amx_tile(t, 8);
}

#endif
