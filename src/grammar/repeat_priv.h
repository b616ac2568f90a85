/* repeat: does a sequence of tokens go round in an exact circle?
 *
 * It does when the same 1 to REPEAT_PERIOD_MOST tokens have come REPEAT_TIMES times in a row, and
 * REPEAT_LEAST tokens at least in all. Thread: one at a time. A plain value: copies are
 * independent.
 */
#ifndef RIPTIDE_GRAMMAR_REPEAT_PRIV_H
#define RIPTIDE_GRAMMAR_REPEAT_PRIV_H

#include <stdbool.h>
#include <stdint.h>

enum { REPEAT_PERIOD_MOST = 256, REPEAT_TIMES = 5, REPEAT_LEAST = 320 };

/* All zero at the beginning. */
typedef struct {
    int32_t ids[REPEAT_PERIOD_MOST]; /* the last ones, a ring */
    int32_t run[REPEAT_PERIOD_MOST]; /* by period - 1: tokens that equal the one a period before */
    int64_t n;                       /* tokens so far */
} repeat;

void repeat_push(repeat *r, int32_t id);
/* Whether it goes round, or may after n more tokens. */
bool repeat_is_round(const repeat *r, int n);

#endif
