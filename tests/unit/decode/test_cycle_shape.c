#include "decode/cycle_priv.h"
#include "support/test.h"

TEST(a_class_holds_what_it_stands_for)
{
    for (int most = 1; most <= 300; most++)
        for (int n = 1; n <= most; n++) {
            int c = cycle_class(n, most);
            assert_in_range(c, n, most);
            assert_int_equal(cycle_class(c, most), c);
        }
}

TEST(classes_are_few_up_to_32_and_then_by_32)
{
    static const int want[] = {1, 2, 4, 8, 12, 16, 24, 32, 64, 96, 128};
    int last = 0, n = 0;
    for (int i = 1; i <= 128; i++) {
        int c = cycle_class(i, 1024);
        if (c == last) continue;
        assert_int_equal(c, want[n++]);
        last = c;
    }
    assert_int_equal(n, 11);
}

static cycle_shape pad(int n_slots, int max_draft, const int *widths, int L)
{
    cycle_lane lanes[64] = {{0}};
    for (int l = 0; l < L; l++) lanes[l].n_draft = widths[l];
    cycle_shape s = cycle_shape_of(lanes, L), up = cycle_shape_pad(&s, n_slots, max_draft);
    assert_in_range(up.T, s.T, n_slots * (max_draft + 1));
    assert_in_range(up.L, s.L, n_slots);
    assert_in_range(up.D, s.D, n_slots);
    assert_in_range(up.W, s.W, max_draft);
    assert_in_range(up.max_rows, s.max_rows, max_draft + 1);
    return up;
}

#define EXPECT(s, t, l, rows, d, w)           \
    do {                                      \
        assert_int_equal((s).T, t);           \
        assert_int_equal((s).L, l);           \
        assert_int_equal((s).max_rows, rows); \
        assert_int_equal((s).D, d);           \
        assert_int_equal((s).W, w);           \
    } while (0)

TEST(shapes_are_padded_to_what_fits_the_slots)
{
    EXPECT(pad(4, 7, (int[]){0}, 1), 1, 1, 1, 0, 0);
    EXPECT(pad(4, 7, (int[]){7}, 1), 8, 1, 8, 1, 7);
    EXPECT(pad(4, 7, (int[]){4}, 1), 8, 1, 8, 1, 7);
    EXPECT(pad(4, 7, (int[]){0, 0, 0}, 3), 4, 4, 1, 0, 0);
    EXPECT(pad(3, 7, (int[]){0, 0, 0}, 3), 3, 3, 1, 0, 0);
    EXPECT(pad(4, 7, (int[]){3, 0, 2}, 3), 8, 4, 8, 2, 3);
    EXPECT(pad(2, 1, (int[]){1, 1}, 2), 4, 2, 2, 2, 1);
    EXPECT(pad(3, 4, (int[]){4, 4, 3}, 3), 15, 3, 5, 3, 4);
}
