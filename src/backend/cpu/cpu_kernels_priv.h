/* cpu_kernels: the inner loops of the cpu backend, one table an instruction set.
 *
 * Every table computes the same bits (v16_priv.h). Blocking, threads and everything that decides
 * what is computed lie in cpu_*.c, which are compiled plain. Nothing here allocates or fails. */
#ifndef RIPTIDE_BACKEND_CPU_KERNELS_PRIV_H
#define RIPTIDE_BACKEND_CPU_KERNELS_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/cpu/cpu_panel_priv.h"
#include "base/rng.h"

enum {
    TILE_ROWS = 64,       /* most rows of a linear tile */
    FLOAT_TILE_ROWS = 12, /* of one that meets f32 activations */
    TILE_PANELS = 2,
    ATTN_TILE = 64, /* positions of an attention tile */
    GDN_LANES = 16, /* dv columns of a state slice */
    GDN_SLICES = 2, /* slices that a call advances together */
};

/* A tile of a linear: rows x panels. out[row][panel][16]. */
typedef struct {
    panel_format format;
    const uint8_t *panel[TILE_PANELS];
    const uint8_t *next[TILE_PANELS]; /* the next tile's, to be fetched meanwhile, or NULL */
    int n_panels, n_rows;
    int ahead; /* bytes that tiles of one or two rows fetch ahead of what they read; 0: nothing */
    int64_t K;
    const int8_t *q[TILE_ROWS];    /* [K], the int8 kinds */
    const float *scale[TILE_ROWS]; /* [K / group] of q */
    const float *sum[TILE_ROWS];   /* [K / group] scale * sum of q */
    const float *x[TILE_ROWS];     /* [K], the other kinds */
    float *out;                    /* [n_rows][TILE_PANELS][16] */
} lin_tile;

typedef enum { KERNEL_KV_I8, KERNEL_KV_BF16, KERNEL_KV_F32, KERNEL_KV_KINDS } kernel_kv;

/* Up to 64 positions of one KV head against some queries. D is a multiple of 16. */
typedef struct {
    const float *const *q; /* [n_q] rows of D */
    const void *k, *v;     /* [n_pos, D] */
    const void *next_k;    /* the next tile's k, fetched meanwhile, or NULL */
    const float *k_scale;  /* [ATTN_TILE], I8 */
    float *s;              /* [n_q][ATTN_TILE] scores, then probabilities */
    float *acc;            /* [n_q][D] */
    const float *correct;  /* [n_q] what acc is multiplied by first */
    float scale;
    int n_q, n_pos, D;
} attn_tile;

/* Running maximum and sum of a softmax. */
typedef struct {
    float max, sum;
} attn_run;

/* The delta rule over T rows for 1 or 2 neighbouring slices of 16 columns of one value head. */
typedef struct {
    float *state;           /* [n_slices][dk][16], advanced in place */
    const float *q, *k, *v; /* row t at + t * row_stride; v at the first column of the slices */
    const float *g, *beta;  /* row t at + t * gate_stride */
    float *out;             /* row t at + t * out_stride, or NULL when nobody reads it */
    int64_t row_stride, gate_stride, out_stride;
    int T, dk, n_slices;
} gdn_run;

typedef struct {
    float value; /* the largest, -inf when nothing qualified */
    int32_t id;  /* its lowest id, -1 when nothing qualified */
} cpu_best;

typedef struct {
    const char *isa;
    int tile_rows, tile_panels; /* how many at once suit the registers; at most TILE_* */
    int row_step;               /* a share of rows of more than this is a multiple of it */

    void (*lin[PANEL_KINDS])(const lin_tile *t);
    /* x[k] to int8, symmetric per group; scale[g], sum[g] = scale * sum of codes. */
    void (*quantise)(const float *x, int64_t k, int group, int8_t *q, float *scale, float *sum);
    /* y[row][i] = silu(gate[row][i]) * up[row][i], i < n <= 16; rows of gate and up as in a tile.
     */
    void (*swiglu)(const float *gate, const float *up, int n_rows, int n, float *y, int64_t stride);

    void (*rmsnorm)(const float *x, const float *w, float eps, int64_t n, float *y);
    float (*dot)(const float *x, const float *y, int64_t n);
    /* y *= sigmoid(g) */
    void (*gate)(float *y, const float *g, int64_t n);
    /* y[i] = f(x[i]); in place is fine */
    void (*sigmoid)(const float *x, int64_t n, float *y);
    void (*exp)(const float *x, int64_t n, float *y);

    /* x[d] into the cache; the scale of I8. */
    float (*kv_store[KERNEL_KV_KINDS])(const float *x, int d, void *out);
    /* s = q k^T * k_scale * scale */
    void (*attn_scores[KERNEL_KV_KINDS])(const attn_tile *t);
    /* One query's scores at positions [low, high) of the tile to probabilities times v_scale
     * (NULL = 1), 0 elsewhere; returns the factor for what was gathered before. */
    float (*attn_softmax)(float *s, int low, int high, const float *v_scale, attn_run *run);
    /* acc = acc * correct + p v */
    void (*attn_values[KERNEL_KV_KINDS])(const attn_tile *t);

    /* c = silu(sum_j w[ch, j] p_j[ch]) over n channels; p_0 oldest, w [n, 4]. */
    void (*gdn_conv)(const float *const p[4], const float *w, int64_t n, float *y);
    /* x *= rsqrt(sum x^2 + 1e-6) * scale */
    void (*gdn_unit)(float *x, int n, float scale);
    void (*gdn_gates)(const float *a, const float *b, const float *neg_a, const float *dt_bias,
                      int n, float *g, float *beta);
    void (*gdn_slices)(const gdn_run *r);
    /* y = rmsnorm(y; w, eps) * silu(z) */
    void (*gdn_out)(float *y, const float *z, const float *w, float eps, int n);

    float (*max)(const float *x, int64_t n);
    /* sum exp(x - max) */
    double (*sum_exp)(const float *x, int64_t n, float max);
    cpu_best (*argmax)(const float *x, int64_t n);
    /* argmax of z + gumbel(key, id0 + i) over z = x[i] / t >= least */
    cpu_best (*gumbel_argmax)(const float *x, int64_t n, int32_t id0, float t, float least,
                              rng_key key);
    /* noise of 16 ids */
    void (*gumbel16)(const int32_t *ids, rng_key key, float *noise);
    /* y = scale * x, then softcap * tanh(y / softcap) when softcap > 0 */
    void (*softcap)(const float *x, int64_t n, float scale, float softcap, float *y);
    /* y = x / t; masked ids (bit clear) -inf; mask NULL = all allowed. */
    void (*masked_div)(const float *x, int64_t n, const uint32_t *mask, float t, float *y);
} cpu_kernels;

extern const cpu_kernels cpu_kernels_scalar;
#if defined(__x86_64__)
extern const cpu_kernels cpu_kernels_avx2, cpu_kernels_avx512, cpu_kernels_avx512vnni,
    cpu_kernels_amx;
#endif

#endif
