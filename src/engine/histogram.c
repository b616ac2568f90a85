#include "engine/histogram.h"

#include <math.h>

const double histogram_bounds[HISTOGRAM_CLASSES - 1] = {
    0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000};

void histogram_add(histogram *h, double ms)
{
    int i = 0;
    if (!(ms > 0)) ms = 0;
    while (i < HISTOGRAM_CLASSES - 1 && ms > histogram_bounds[i]) i++;
    h->count[i]++;
    h->n++;
    h->sum_ms += ms;
}

double histogram_quantile(const histogram *h, double q)
{
    int64_t below = 0;
    if (h->n == 0) return 0;
    for (int i = 0; i < HISTOGRAM_CLASSES - 1; i++) {
        below += h->count[i];
        if ((double)below >= q * (double)h->n) return histogram_bounds[i];
    }
    return INFINITY;
}
