/* leaf_number: the decimal texts of the numbers within bounds and of a divisor, as a leaf. */
#ifndef RIPTIDE_GRAMMAR_LEAF_NUMBER_PRIV_H
#define RIPTIDE_GRAMMAR_LEAF_NUMBER_PRIV_H

#include "grammar/decimal_priv.h"
#include "grammar/leaf_priv.h"

typedef struct {
    bool is_integer;
    bool has_lower, lower_excluded, has_upper, upper_excluded;
    decimal lower, upper;
    uint64_t divisor; /* 0 = none: multiples of divisor / 10^scale */
    int scale;
} number_bounds;

enum { LEAF_NUMBER_DIGITS_MOST = 400, LEAF_NUMBER_DIVISOR_MOST = 20000 };

/* Without bounds and divisor also with exponents; with any, without. No "-0" where only zero and
 * above is allowed.
 *
 * out      *out is NULL when there is no such number
 * Returns  LIMIT for bounds of too many digits or a large divisor, NOMEM */
status leaf_number_build(arena *result, int64_t *work, const number_bounds *b, const char *where,
                         const leaf **out, err *e);

#endif
