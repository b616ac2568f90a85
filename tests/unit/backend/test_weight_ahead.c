#include "backend/cuda/weight_ahead_priv.h"
#include "support/test.h"

static ahead_table table;
static const char weight[64];

static ahead_spans spans_of(int i)
{
    ahead_spans s = {0};
    ahead_add(&s, weight + i, 1600, 10 + i, 2, 800);
    return s;
}

static int first_rows(const ahead_spans *s)
{
    return s->n ? s->span[0].n_rows : -1;
}

TEST(what_followed_the_last_time_is_known)
{
    ahead_clear(&table);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 5; i++) {
            ahead_spans own = spans_of(i), next = ahead_note(&table, weight + i, &own);
            int want = round == 0 ? -1 : 10 + (i + 1) % 5;
            assert_int_equal(first_rows(&next), want);
        }
    }
}

TEST(another_order_is_learned)
{
    ahead_clear(&table);
    static const int order[] = {0, 1, 2, 0, 2, 1, 0};
    ahead_spans next = {0};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        ahead_spans own = spans_of(order[i]);
        next = ahead_note(&table, weight + order[i], &own);
    }
    assert_int_equal(first_rows(&next), 12); /* 2 came behind 0 the last time */
    ahead_spans own = spans_of(1);
    ahead_clear(&table);
    next = ahead_note(&table, weight + 1, &own);
    assert_int_equal(next.n, 0);
}

TEST(a_full_table_forgets_none_and_learns_no_more)
{
    ahead_clear(&table);
    for (int i = 0; i < 2 * AHEAD_LAUNCHES_MAX; i++) {
        ahead_spans own = spans_of(0);
        ahead_note(&table, (const char *)0x10000 + 512 * i, &own);
    }
    assert_int_equal(table.n, AHEAD_LAUNCHES_MAX / 2);
    ahead_spans own = spans_of(0), next = ahead_note(&table, (const char *)0x10000, &own);
    assert_int_equal(next.n, 1);
}

TEST(every_run_gets_the_same_share_and_none_passes_its_row)
{
    uint64_t seed = test_seed();
    for (int i = 0; i < 2000; i++) {
        ahead_spans s = {0};
        int n = 1 + (int)(test_random(&seed) % 5);
        for (int k = 0; k < n; k++) {
            int64_t brick = 16 + (int64_t)(test_random(&seed) % 80) * 16;
            int64_t n_bricks = 1 + (int64_t)(test_random(&seed) % 300);
            int slices = 1 + (int)(test_random(&seed) % 8);
            int64_t each = (n_bricks + slices - 1) / slices;
            slices = (int)((n_bricks + each - 1) / each);
            ahead_add(&s, weight, n_bricks * brick, 1 + (int64_t)(test_random(&seed) % 5000),
                      slices, each * brick);
        }
        assert_int_equal(s.n, n < AHEAD_SPANS_MAX ? n : AHEAD_SPANS_MAX);
        int64_t budget = (int64_t)(test_random(&seed) % (64 << 20)), sum = 0;
        ahead_fit(&s, budget);
        for (int k = 0; k < s.n; k++) {
            const ahead_span *p = &s.span[k];
            assert_int_equal(p->bytes % 16, 0);
            assert_true(p->bytes <= p->slice_bytes);
            assert_true((int64_t)(p->n_slices - 1) * p->slice_bytes + p->bytes <= p->row_bytes);
            sum += (int64_t)p->bytes * p->n_rows * p->n_slices;
        }
        /* Slices are counted whole, though a row's last may be shorter. */
        assert_true(sum <= 2 * budget);
        assert_true(sum <= ahead_total(&s));
    }
}

TEST(what_does_not_fit_is_left_out)
{
    ahead_spans s = {0};
    ahead_add(&s, weight, 16, 0, 1, 16);
    ahead_add(&s, weight, 16, INT32_MAX, 2, 16);
    ahead_add(&s, weight, 16, 1, 1, (int64_t)INT32_MAX + 1);
    assert_int_equal(s.n, 0);
}
