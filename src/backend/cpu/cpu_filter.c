#include "backend/cpu/cpu_filter_priv.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_policy_priv.h"
#include "backend/cpu/cpu_topk_priv.h"

/* z are counted in bins by their distance from the maximum; only the bin that a filter cuts
 * through is sorted. The last bin takes everything from 32 down, e^-32 of the best. */
enum { BINS = 4096, BINS_PER_UNIT = 128, EXP_RUN = 256 };

typedef struct {
    float z;
    int32_t id;
} member;

typedef struct {
    member *members; /* [V] of the bin in hand */
    double mass[BINS];
    int32_t count[BINS];
} bins;

int64_t cpu_filter_bytes(int64_t V)
{
    return cpu_align64((int64_t)sizeof(bins)) + V * (int64_t)sizeof(member);
}

static int bin_of(float z, float max)
{
    float distance = (max - z) * BINS_PER_UNIT;
    return distance < BINS - 1 ? (int)distance : BINS - 1;
}

static bool is_in(float z, float least)
{
    return z >= least && z > -INFINITY;
}

static void fill_bins(bins *b, const cpu_kernels *k, const float *z, int64_t V, float max,
                      float least)
{
    memset(b->mass, 0, sizeof b->mass);
    memset(b->count, 0, sizeof b->count);
    for (int64_t at = 0; at < V; at += EXP_RUN) {
        float e[EXP_RUN];
        int n = V - at < EXP_RUN ? (int)(V - at) : EXP_RUN;
        for (int i = 0; i < n; i++) e[i] = z[at + i] - max;
        k->exp(e, n, e);
        for (int i = 0; i < n; i++) {
            if (!is_in(z[at + i], least)) continue;
            int bin = bin_of(z[at + i], max);
            b->count[bin]++;
            b->mass[bin] += (double)e[i];
        }
    }
}

static bool is_before(member a, member b)
{
    return a.z != b.z ? a.z > b.z : a.id < b.id;
}

/* Heap sort, last in order on top. */
static void sink(member *m, int i, int n)
{
    member moved = m[i];
    for (int child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && is_before(m[child], m[child + 1])) child++;
        if (!is_before(moved, m[child])) break;
        m[i] = m[child];
    }
    m[i] = moved;
}

static void sort_members(member *m, int n)
{
    for (int i = n / 2 - 1; i >= 0; i--) sink(m, i, n);
    while (n > 1) {
        member last = m[0];
        m[0] = m[--n];
        m[n] = last;
        sink(m, 0, n);
    }
}

/* The members of a bin in order. */
static int open_bin(bins *b, int bin, const float *z, int64_t V, float max, float least)
{
    int n = 0;
    for (int64_t i = 0; i < V; i++)
        if (is_in(z[i], least) && bin_of(z[i], max) == bin)
            b->members[n++] = (member){z[i], (int32_t)i};
    sort_members(b->members, n);
    return n;
}

/* Keep the bins before `bin` and its n_kept best members. */
static float cut_bin(const bins *b, int n_members, int n_kept, float *z)
{
    float least = b->members[n_kept - 1].z;
    for (int i = n_kept; i < n_members && b->members[i].z == least; i++)
        z[b->members[i].id] = -INFINITY;
    return least;
}

/* The bin in which the running count passes top_k; what lies before it goes to *before. */
static int find_count(const bins *b, int64_t top_k, int64_t *before)
{
    *before = 0;
    for (int i = 0; i < BINS; i++) {
        if (*before + b->count[i] >= top_k) return i;
        *before += b->count[i];
    }
    return -1; /* fewer than top_k survive so far */
}

/* Cut z at top_p of the mass over bins [0, n_bins). */
static float cut_mass(bins *b, const sample_policy *p, float *z, int64_t V, float max, float least,
                      int n_bins)
{
    double total = 0, got = 0;
    int last = 0, bin = -1;
    for (int i = 0; i < n_bins; i++) total += b->mass[i];
    double want = (double)p->top_p * total;
    for (int i = 0; i < n_bins && bin < 0; i++) {
        if (b->count[i] == 0) continue;
        last = i;
        if (got + b->mass[i] >= want)
            bin = i;
        else
            got += b->mass[i];
    }
    if (bin < 0) return least; /* rounding: all of it is just short of top_p of all of it */
    int n = open_bin(b, last, z, V, max, least), n_kept = 0;
    while (n_kept < n) {
        got += exp((double)b->members[n_kept++].z - (double)max);
        if (got >= want) break;
    }
    return cut_bin(b, n, n_kept, z);
}

static void cut_by_bins(cpu_filter *f, const cpu_kernels *k, const sample_policy *p, float *z,
                        int64_t V, float max)
{
    bins *b = f->mem;
    b->members = (member *)((char *)f->mem + cpu_align64((int64_t)sizeof *b));
    int n_bins = BINS;
    fill_bins(b, k, z, V, max, f->least);
    if (p->top_k > 0) {
        int64_t before;
        int bin = find_count(b, p->top_k, &before);
        if (bin >= 0) {
            int n = open_bin(b, bin, z, V, max, f->least), n_kept = (int)(p->top_k - before);
            f->least = cut_bin(b, n, n_kept, z);
            b->count[bin] = n_kept;
            b->mass[bin] = 0;
            for (int i = 0; i < n_kept; i++)
                b->mass[bin] += exp((double)b->members[i].z - (double)max);
            n_bins = bin + 1;
        }
    }
    if (p->top_p < 1) f->least = cut_mass(b, p, z, V, max, f->least, n_bins);
}

void cpu_filter_run(cpu_filter *f, const cpu_kernels *k, const sample_policy *p, float *z,
                    int64_t V, float max)
{
    f->n_few = 0;
    f->least = cpu_policy_least(p, max);
    if (max == -INFINITY) return;
    if (p->top_k > 0 && p->top_k <= FILTER_FEW) {
        cpu_topk_row(k, z, V, p->top_k, f->few_ids, f->few_z);
        f->n_few = cpu_policy_keep(p, f->few_z, p->top_k);
    } else if (p->top_k > 0 || p->top_p < 1) {
        cut_by_bins(f, k, p, z, V, max);
    }
}
