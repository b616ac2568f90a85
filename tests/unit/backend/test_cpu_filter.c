/* The filters against a full sort in double. */
#include <stdlib.h>

#include "backend/cpu/cpu_filter_priv.h"
#include "backend/cpu/cpu_policy_priv.h"
#include "base/mem.h"
#include "cpu_tables.h"

enum { V_MAX = 20000 };

static float z[V_MAX], before[V_MAX];
static int order[V_MAX];

static int by_z(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    if (before[x] != before[y]) return before[x] > before[y] ? -1 : 1;
    return x < y ? -1 : 1;
}

/* order[0 .. n) survive, by the definition in ops.h. `edge` is how close the mass came to top_p. */
static int survivors(const sample_policy *p, int V, double *edge)
{
    for (int i = 0; i < V; i++) order[i] = i;
    qsort(order, (size_t)V, sizeof *order, by_z);
    double max = (double)before[order[0]];
    int n = V;
    while (n > 0 && before[order[n - 1]] == -INFINITY) n--;
    if (p->min_p > 0)
        while ((double)before[order[n - 1]] < max + log((double)p->min_p)) n--;
    if (p->top_k > 0 && n > p->top_k) n = p->top_k;
    *edge = 1;
    if (!(p->top_p < 1)) return n;
    double mass = 0, got = 0;
    for (int i = 0; i < n; i++) mass += exp((double)before[order[i]] - max);
    for (int i = 0; i < n; i++) {
        got += exp((double)before[order[i]] - max);
        double d = fabs(got / mass - (double)p->top_p);
        if (d < *edge) *edge = d;
        if (got >= (double)p->top_p * mass) return i + 1;
    }
    return n;
}

static bool is_kept(const cpu_filter *f, int id)
{
    if (f->n_few == 0) return z[id] >= f->least && z[id] > -INFINITY;
    for (int i = 0; i < f->n_few; i++)
        if (f->few_ids[i] == id) return true;
    return false;
}

static void check_policy(const sample_policy *p, int V, cpu_filter *f, const cpu_kernels *k)
{
    double edge;
    memcpy(z, before, (size_t)V * sizeof *z);
    int n = survivors(p, V, &edge);
    cpu_filter_run(f, k, p, z, V, k->max(z, V));
    if (edge < 1e-6) return; /* f32 may rightly see the mass on the other side of top_p */
    for (int i = 0; i < V; i++)
        if (is_kept(f, order[i]) != (i < n))
            fail_msg("top_k %d top_p %g min_p %g V %d: rank %d of %d survivors is %s", p->top_k,
                     (double)p->top_p, (double)p->min_p, V, i, n, i < n ? "gone" : "kept");
}

static void check_all(const cpu_kernels *k, int V, cpu_filter *f)
{
    static const int top_k[] = {0, 1, 5, 64, 65, 300, 100000};
    static const float top_p[] = {1, 0.95f, 0.5f, 0.01f, 0, 0.9999f};
    static const float min_p[] = {0, 0.05f, 1e-4f, 1};
    for (size_t a = 0; a < 7; a++)
        for (size_t b = 0; b < 6; b++)
            for (size_t c = 0; c < 4; c++) {
                sample_policy p = {
                    .temperature = 1, .top_k = top_k[a], .top_p = top_p[b], .min_p = min_p[c]};
                check_policy(&p, V, f, k);
            }
}

TEST(keeps_what_a_full_sort_keeps)
{
    const cpu_kernels *k[CPU_TABLES];
    int n = cpu_tables(k);
    uint64_t seed = test_seed();
    static const int sizes[] = {1, 2, 17, 500, 4000};
    static cpu_filter f;
    f.mem = mem_new((size_t)cpu_filter_bytes(V_MAX));
    for (size_t s = 0; s < 5; s++) {
        int V = sizes[s];
        fill_normal(&seed, before, V, 3);
        check_all(k[n - 1], V, &f);
        for (int i = 0; i < V; i++) before[i] = roundf(before[i]); /* many ties */
        check_all(k[n - 1], V, &f);
        for (int i = 0; i < V; i += 2) before[i] = -INFINITY; /* masked */
        before[0] = 1;
        check_all(k[n - 1], V, &f);
        for (int i = 0; i < V; i++) before[i] = 2.5f; /* all equal */
        check_all(k[n - 1], V, &f);
        for (int i = 0; i < V; i++) before[i] *= (float)-i; /* far below: the last bin */
        check_all(k[n - 1], V, &f);
    }
    mem_free(f.mem);
}

TEST(nothing_allowed_leaves_nothing)
{
    const cpu_kernels *k[CPU_TABLES];
    static cpu_filter f;
    cpu_tables(k);
    f.mem = mem_new((size_t)cpu_filter_bytes(64));
    for (int i = 0; i < 64; i++) z[i] = -INFINITY;
    sample_policy p = {.temperature = 1, .top_k = 0, .top_p = 0.5f};
    cpu_filter_run(&f, k[0], &p, z, 64, -INFINITY);
    assert_int_equal(f.n_few, 0);
    mem_free(f.mem);
}
