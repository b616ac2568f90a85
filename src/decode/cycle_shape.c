/* Shapes of cycles on a backend with graphs.
 *
 * A graph is captured for numbers that the host knows; what lies in device memory may change under
 * it. Lanes, the rows of each and their lengths are device data, so what is left are sums, and
 * these are rounded up to few classes: rows behind all lanes and lanes without rows are allowed by
 * every op and cost little. The captures of a whole workload are then bounded by the classes and
 * not by how many ways there are to fill them. One lane alone is a class of its own: surplus lanes
 * would lead attention to tiles that suit several. */
#include "decode/cycle_priv.h"

int cycle_class(int n, int most)
{
    static const int few[] = {1, 2, 4, 8, 12, 16, 24, 32};
    int up = (n + 31) / 32 * 32;
    for (int i = 0; i < 8 && n <= 32; i++) {
        up = few[i];
        if (up >= n) break;
    }
    return up < most ? up : most;
}

/* 1, 3, 7 or 15: blocks of 2, 4, 8, 16. */
static int width_class(int n, int most)
{
    int up = 1;
    if (n == 0) return 0;
    while (up < n) up = 2 * up + 1;
    return up < most ? up : most;
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

cycle_shape cycle_shape_of(const cycle_lane *lanes, int L)
{
    cycle_shape s = {.L = L};
    for (int l = 0; l < L; l++) {
        int rows = lanes[l].n_draft + 1;
        s.T += rows;
        s.D += lanes[l].n_draft > 0;
        if (rows > s.max_rows) s.max_rows = rows;
    }
    s.W = s.max_rows - 1;
    return s;
}

cycle_shape cycle_shape_pad(const cycle_shape *s, int n_slots, int max_draft)
{
    cycle_shape up = {.T = cycle_class(s->T, n_slots * (max_draft + 1)),
                      .D = s->D > 0 ? cycle_class(s->D, n_slots) : 0,
                      .W = width_class(s->W, max_draft)};
    if (s->W == 0) up.T = cycle_class(s->T, n_slots);
    up.L = s->L == 1 ? 1 : smaller(up.T, n_slots);
    up.max_rows = s->W == 0 ? 1 : smaller(up.T, max_draft + 1);
    return up;
}
