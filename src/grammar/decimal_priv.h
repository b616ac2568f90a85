/* decimal: the exact value of a JSON number, whatever its size. */
#ifndef RIPTIDE_GRAMMAR_DECIMAL_PRIV_H
#define RIPTIDE_GRAMMAR_DECIMAL_PRIV_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"

/* digits * 10^exponent, the digits without zeros at either end; zero has none. */
typedef struct {
    bool is_negative;
    int n;
    const char *digits;
    int64_t exponent;
} decimal;

enum { DECIMAL_DIGITS_MOST = 4096, DECIMAL_EXPONENT_MOST = 1000000 };

/* False without memory, or when it has more digits or a larger exponent than the limits. */
bool decimal_read(arena *a, const json *number, decimal *out);
int decimal_compare(const decimal *x, const decimal *y);
static inline bool decimal_is_integer(const decimal *d)
{
    return d->n == 0 || d->exponent >= 0;
}

enum { DECIMAL_SCALE_MOST = 100000000 };

/* The divisor as p / 10^k with p below DECIMAL_SCALE_MOST; false when that cannot be, or when it is
 * not above zero. k may be negative only as zeros already in p. */
bool decimal_scale(const decimal *d, uint64_t *p, int *k);
/* Whether x is a multiple of m, which is above zero and has at most 17 digits (else false). */
bool decimal_is_multiple(const decimal *x, const decimal *m);

/* Append in one form for each value: without exponent where that takes at most 400 digits. */
void decimal_put(buf *b, const decimal *d);

#endif
