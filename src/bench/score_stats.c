#include <math.h>
#include <stdlib.h>

#include "base/asserts.h"
#include "base/hash.h"
#include "bench/score_priv.h"

typedef struct {
    int first;        /* id of the best */
    double top, next; /* logits of the two best */
    double log_sum;   /* log of the sum of exp, so that log p(v) = x[v] - log_sum */
} row;

static bool read_row(const float *x, int V, row *r)
{
    *r = (row){.top = -INFINITY, .next = -INFINITY};
    for (int v = 0; v < V; v++) {
        double at = (double)x[v];
        if (!isfinite(at)) return false;
        if (at > r->top) {
            r->next = r->top;
            r->top = at;
            r->first = v;
        } else if (at > r->next) {
            r->next = at;
        }
    }
    double sum = 0;
    for (int v = 0; v < V; v++) sum += exp((double)x[v] - r->top);
    r->log_sum = r->top + log(sum);
    return true;
}

status score_add(score *s, const float *got, const float *reference, int V, int32_t token)
{
    row q, p;
    ASSERT(s->n < s->cap && token >= 0 && token < V);
    if (!read_row(got, V, &q) || !read_row(reference, V, &p)) return ERR_INVALID;
    double kl = 0, off = 0, norm = 0;
    for (int v = 0; v < V; v++) {
        double log_p = (double)reference[v] - p.log_sum, log_q = (double)got[v] - q.log_sum;
        double d = (double)got[v] - (double)reference[v];
        kl += exp(log_p) * (log_p - log_q);
        off += d * d;
        norm += (double)reference[v] * (double)reference[v];
    }
    if (kl < 0) kl = 0; /* a rounding of two equal rows */
    s->norms[s->n++] = (float)(off == 0 ? 0 : sqrt(off / norm));
    s->kl += kl;
    if (kl > s->worst_kl) s->worst_kl = kl;
    s->nll += q.log_sum - (double)got[token];
    s->reference_nll += p.log_sum - (double)reference[token];
    bool is_same = q.first == p.first, is_clear = p.top - p.next > SCORE_GAP;
    s->n_same += is_same;
    s->n_clear += is_clear;
    s->n_clear_same += is_clear && is_same;
    s->output_hash = hash_bytes(&q.first, sizeof q.first, s->output_hash);
    return ERR_OK;
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

double score_median_norm(score *s)
{
    if (s->n == 0) return 0;
    qsort(s->norms, (size_t)s->n, sizeof *s->norms, by_value);
    return (double)s->norms[s->n / 2];
}
