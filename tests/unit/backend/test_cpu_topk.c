#include "backend/cpu/cpu_topk_priv.h"
#include "cpu_tables.h"

/* The k best by plain selection. */
static void select_plain(const float *x, int n, int k, int32_t *ids)
{
    for (int i = 0; i < k; i++) {
        int best = -1;
        for (int j = 0; j < n; j++) {
            bool is_taken = false;
            for (int t = 0; t < i; t++) is_taken = is_taken || ids[t] == j;
            if (!is_taken && (best < 0 || x[j] > x[best])) best = j;
        }
        ids[i] = best;
    }
}

TEST(finds_the_largest_in_order_with_ties_to_the_lower_id)
{
    const cpu_kernels *k[CPU_TABLES];
    int n_tables = cpu_tables(k);
    uint64_t seed = test_seed();
    static float x[3000];
    static const int sizes[] = {1, 5, 255, 256, 257, 3000};
    for (size_t s = 0; s < 6; s++) {
        for (int grid = 0; grid < 2; grid++) {
            int n = sizes[s];
            int32_t ids[20], want[20];
            float vals[20];
            fill_normal(&seed, x, n, 2);
            for (int i = 0; grid && i < n; i++) x[i] = roundf(x[i]);
            select_plain(x, n, 20, want);
            for (int t = 0; t < n_tables; t++) {
                cpu_topk_row(k[t], x, n, 20, ids, vals);
                for (int i = 0; i < 20; i++) {
                    assert_int_equal(ids[i], want[i]);
                    assert_true(vals[i] == (want[i] < 0 ? -INFINITY : x[want[i]]));
                }
            }
        }
    }
}
