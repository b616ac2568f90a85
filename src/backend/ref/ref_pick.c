#include <string.h>

#include "backend/ref/ref_priv.h"

double ref_pick_penalise(const sample_policy *p, double y, uint32_t count_word, int n_more)
{
    double count = (double)(count_word & ~SAMPLE_IN_PROMPT) + n_more;
    if (count > 0 || (count_word & SAMPLE_IN_PROMPT)) {
        y = y > 0 ? y / (double)p->repetition : y * (double)p->repetition;
    }
    if (count > 0) y -= (double)p->frequency * count + (double)p->presence;
    return y;
}

/* ---- a heap of indices, best on top ------------------------------------------------------- */

typedef struct {
    const double *z;
    const int32_t *ids; /* what ties are decided by; NULL = the index itself */
    int32_t *at;
    int n;
} heap;

static bool is_better(const heap *h, int32_t a, int32_t b)
{
    if (h->z[a] != h->z[b]) return h->z[a] > h->z[b];
    return h->ids ? h->ids[a] < h->ids[b] : a < b;
}

static void sink(heap *h, int i)
{
    int32_t moved = h->at[i];
    for (;;) {
        int child = 2 * i + 1;
        if (child >= h->n) break;
        if (child + 1 < h->n && is_better(h, h->at[child + 1], h->at[child])) child++;
        if (!is_better(h, h->at[child], moved)) break;
        h->at[i] = h->at[child];
        i = child;
    }
    h->at[i] = moved;
}

/* Move the best to the place that its leaving frees, at[n]. */
static int32_t pop(heap *h)
{
    int32_t best = h->at[0];
    h->at[0] = h->at[--h->n];
    h->at[h->n] = best;
    if (h->n > 0) sink(h, 0);
    return best;
}

/* ---- filters ------------------------------------------------------------------------------ */

/* min_p: indices with z >= max z + log(min_p), in ascending order. */
static int keep_min_p(const sample_policy *p, const double *z, int n, double max, int32_t *keep)
{
    double least = p->min_p > 0 ? max + log((double)p->min_p) : -INFINITY;
    int n_kept = 0;
    for (int i = 0; i < n; i++) {
        if (z[i] >= least && z[i] > -INFINITY) keep[n_kept++] = i;
    }
    return n_kept;
}

int ref_pick_filter(const sample_policy *p, const double *z, const int32_t *ids, int n,
                    int32_t *keep)
{
    double max = -INFINITY;
    for (int i = 0; i < n; i++) {
        if (z[i] > max) max = z[i];
    }
    int n_kept = keep_min_p(p, z, n, max, keep);
    if (n_kept == 0) { /* nothing is allowed: the lowest id, for want of a better one */
        keep[0] = 0;
        return n > 0;
    }
    bool has_top_k = p->top_k > 0 && p->top_k < n_kept, has_top_p = p->top_p < 1;
    if (!has_top_k && !has_top_p) return n_kept;

    heap h = {z, ids, keep, n_kept};
    double mass = 0;
    if (!has_top_k) {
        for (int i = 0; i < n_kept; i++) mass += exp(z[keep[i]] - max);
    }
    for (int i = n_kept / 2 - 1; i >= 0; i--) sink(&h, i);
    if (has_top_k) { /* top_k: the k best, now at the end of keep in ascending order */
        for (int i = 0; i < p->top_k; i++) mass += exp(z[pop(&h)] - max);
        memmove(keep, keep + h.n, (size_t)p->top_k * sizeof *keep);
        n_kept = p->top_k;
        if (!has_top_p) return n_kept;
        h.n = n_kept;
        for (int i = n_kept / 2 - 1; i >= 0; i--) sink(&h, i);
    }
    /* top_p: the shortest descending run that holds top_p of the mass that is left */
    double want = (double)p->top_p * mass, got = 0;
    do {
        got += exp(z[pop(&h)] - max);
    } while (got < want && h.n > 0);
    memmove(keep, keep + h.n, (size_t)(n_kept - h.n) * sizeof *keep);
    return n_kept - h.n;
}
