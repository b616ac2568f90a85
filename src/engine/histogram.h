/* histogram: how often a time came out how long, in fixed classes.
 *
 * Plain data: copy it as a whole. Thread: one at a time. */
#ifndef RIPTIDE_ENGINE_HISTOGRAM_H
#define RIPTIDE_ENGINE_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_CLASSES = 17 };

/* Upper bounds in milliseconds, ascending; the last class has none. */
extern const double histogram_bounds[HISTOGRAM_CLASSES - 1];

typedef struct {
    int64_t n, count[HISTOGRAM_CLASSES]; /* of one class, not of those below it too */
    double sum_ms;
} histogram;

/* A time that is no number, or below 0, counts as 0. */
void histogram_add(histogram *h, double ms);

/* Upper bound of the class that the share q of the times is not above (0.5: the median's); INFINITY
 * for the last class, 0 without times. */
double histogram_quantile(const histogram *h, double q);

#endif
