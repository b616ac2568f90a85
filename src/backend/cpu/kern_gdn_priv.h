/* kern_gdn: the gated delta rule and what comes before and after it. Included by kernels_*.c only.
 *
 * State slices hold 16 columns of dv, [dk][16]: columns never meet, so a slice may go to any
 * thread. Sums over dk are two chains (even and odd k), added at the end. */
#ifndef RIPTIDE_BACKEND_CPU_KERN_GDN_PRIV_H
#define RIPTIDE_BACKEND_CPU_KERN_GDN_PRIV_H

#include "backend/cpu/cpu_kernels_priv.h"
#include "backend/cpu/kern_row_priv.h"

static void gdn_conv(const float *const p[4], const float *w, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i += 16) {
        int64_t m = n - i < 16 ? n - i : 16;
        float last[64] = {0};
        v16 taps[4];
        if (m < 16) memcpy(last, w + i * 4, (size_t)m * 4 * sizeof *w);
        v16_load_by4(m < 16 ? last : w + i * 4, taps);
        v16 s = v16_mul(taps[0], v16_load_n(p[0] + i, m));
        for (int j = 1; j < 4; j++) s = v16_fma(taps[j], v16_load_n(p[j] + i, m), s);
        v16_store_n(y + i, v16_silu(s), m);
    }
}

static void gdn_unit(float *x, int n, float scale)
{
    float f = 1.0f / __builtin_sqrtf(row_dot(x, x, n) + 1e-6f) * scale;
    for (int i = 0; i < n; i += 16)
        v16_store_n(x + i, v16_mul(v16_load_n(x + i, n - i), v16_set1(f)), n - i);
}

static void gdn_gates(const float *a, const float *b, const float *neg_a, const float *dt_bias,
                      int n, float *g, float *beta)
{
    for (int i = 0; i < n; i += 16) {
        v16 dt = v16_add(v16_load_n(a + i, n - i), v16_load_n(dt_bias + i, n - i));
        v16_store_n(g + i, v16_mul(v16_load_n(neg_a + i, n - i), v16_softplus(dt)), n - i);
        v16_store_n(beta + i, v16_sigmoid(v16_load_n(b + i, n - i)), n - i);
    }
}

/* m = S^T k */
V16_FORM void gdn_recall(const float *S, const float *k, int dk, int N, v16 m[GDN_SLICES])
{
    v16 s[GDN_SLICES][2];
    for (int n = 0; n < N; n++) s[n][0] = s[n][1] = v16_zero();
    for (int i = 0; i < dk; i++) {
        v16 x = v16_set1(k[i]);
        for (int n = 0; n < N; n++)
            s[n][0] = v16_fma(v16_load(S + ((int64_t)n * dk + i) * GDN_LANES), x, s[n][0]);
        if (++i == dk) break;
        x = v16_set1(k[i]);
        for (int n = 0; n < N; n++)
            s[n][1] = v16_fma(v16_load(S + ((int64_t)n * dk + i) * GDN_LANES), x, s[n][1]);
    }
    for (int n = 0; n < N; n++) m[n] = v16_add(s[n][0], s[n][1]);
}

/* S <- decay S + k d^T;  o = S^T q;  m = S^T next_k for element i of dk; `chain` is its parity. */
V16_FN void gdn_step(float *S, int dk, int i, int chain, v16 decay, const v16 *d, const float *q,
                     const float *k, const float *next_k, int N, v16 o[GDN_SLICES][2],
                     v16 m[GDN_SLICES][2])
{
    v16 kv = v16_set1(k[i]), qv = v16_set1(q[i]), nv = v16_set1(next_k[i]);
    for (int n = 0; n < N; n++) {
        float *at = S + ((int64_t)n * dk + i) * GDN_LANES;
        v16 s = v16_fma(kv, d[n], v16_mul(v16_load(at), decay));
        v16_store(at, s);
        o[n][chain] = v16_fma(s, qv, o[n][chain]);
        m[n][chain] = v16_fma(s, nv, m[n][chain]);
    }
}

/* n floats of a row that is read later: rows lie too far apart for the processor to guess. */
V16_FN void gdn_prefetch(const float *x, int n)
{
    for (int i = 0; i < n; i += 16) __builtin_prefetch(x + i);
}

V16_FORM void gdn_rows(const gdn_run *r, int N)
{
    const int dk = r->dk, T = r->T;
    const int64_t stride = r->row_stride;
    float *S = r->state;
    v16 m[GDN_SLICES];
    gdn_recall(S, r->k, dk, N, m);
    for (int t = 0; t < T; t++) {
        const float *q = r->q + t * stride, *k = r->k + t * stride, *v = r->v + t * stride;
        const float *next_k = t + 1 < T ? k + stride : k;
        v16 decay = v16_exp(v16_set1(r->g[t * r->gate_stride]));
        v16 beta = v16_set1(r->beta[t * r->gate_stride]);
        v16 d[GDN_SLICES], o[GDN_SLICES][2], s[GDN_SLICES][2];
        if (t + 2 < T) {
            gdn_prefetch(q + stride, dk);
            gdn_prefetch(k + 2 * stride, dk);
            gdn_prefetch(v + stride, N * GDN_LANES);
        }
        for (int n = 0; n < N; n++) {
            v16 miss = v16_sub(v16_load(v + n * GDN_LANES), v16_mul(m[n], decay));
            d[n] = v16_mul(beta, miss);
            o[n][0] = o[n][1] = s[n][0] = s[n][1] = v16_zero();
        }
        int i = 0;
        for (; i + 2 <= dk; i += 2) {
            gdn_step(S, dk, i, 0, decay, d, q, k, next_k, N, o, s);
            gdn_step(S, dk, i + 1, 1, decay, d, q, k, next_k, N, o, s);
        }
        if (i < dk) gdn_step(S, dk, i, 0, decay, d, q, k, next_k, N, o, s);
        for (int n = 0; n < N; n++) {
            m[n] = v16_add(s[n][0], s[n][1]);
            if (r->out)
                v16_store(r->out + t * r->out_stride + n * GDN_LANES, v16_add(o[n][0], o[n][1]));
        }
    }
}

static void gdn_slices(const gdn_run *r)
{
    if (r->T == 0) return;
    if (r->n_slices == 2)
        gdn_rows(r, 2);
    else
        gdn_rows(r, 1);
}

static void gdn_out(float *y, const float *z, const float *w, float eps, int n)
{
    row_rmsnorm(y, w, eps, n, y);
    for (int i = 0; i < n; i += 16) {
        v16 s = v16_silu(v16_load_n(z + i, n - i));
        v16_store_n(y + i, v16_mul(v16_load_n(y + i, n - i), s), n - i);
    }
}

#endif
