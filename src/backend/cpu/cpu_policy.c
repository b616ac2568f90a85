#include "backend/cpu/cpu_policy_priv.h"

#include <math.h>

float cpu_policy_penalise(const sample_policy *p, float y, uint32_t count_word, int n_more)
{
    double v = (double)y, count = (double)(count_word & ~SAMPLE_IN_PROMPT) + n_more;
    if (count > 0 || (count_word & SAMPLE_IN_PROMPT))
        v = v > 0 ? v / (double)p->repetition : v * (double)p->repetition;
    if (count > 0) v -= (double)p->frequency * count + (double)p->presence;
    return (float)v;
}

bool cpu_policy_has_penalty(const sample_policy *p)
{
    return p->repetition != 1 || p->frequency != 0 || p->presence != 0;
}

float cpu_policy_least(const sample_policy *p, float max)
{
    if (!(p->min_p > 0)) return -INFINITY;
    double least = (double)max + log((double)p->min_p);
    float f = (float)least;
    return (double)f < least ? nextafterf(f, INFINITY) : f; /* so that f32 compares as double */
}

int cpu_policy_keep(const sample_policy *p, const float *z, int n)
{
    float least = n > 0 ? cpu_policy_least(p, z[0]) : 0;
    while (n > 0 && (z[n - 1] < least || z[n - 1] == -INFINITY)) n--;
    if (p->top_k > 0 && p->top_k < n) n = p->top_k;
    if (!(p->top_p < 1) || n == 0) return n;
    double mass = 0, got = 0;
    for (int i = 0; i < n; i++) mass += exp((double)z[i] - (double)z[0]);
    double want = (double)p->top_p * mass;
    for (int i = 0; i < n; i++) {
        got += exp((double)z[i] - (double)z[0]);
        if (got >= want) return i + 1;
    }
    return n;
}
