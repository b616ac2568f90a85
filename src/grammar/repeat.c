#include "grammar/repeat_priv.h"

void repeat_push(repeat *r, int32_t id)
{
    int known = r->n < REPEAT_PERIOD_MOST ? (int)r->n : REPEAT_PERIOD_MOST;
    int at = (int)(r->n % REPEAT_PERIOD_MOST);
    for (int period = 1; period <= known; period++) {
        int before = at - period < 0 ? at - period + REPEAT_PERIOD_MOST : at - period;
        int32_t *run = &r->run[period - 1];
        *run = r->ids[before] != id ? 0 : *run < REPEAT_TIMES * REPEAT_LEAST ? *run + 1 : *run;
    }
    r->ids[at] = id;
    r->n++;
}

bool repeat_is_round(const repeat *r, int n)
{
    for (int period = 1; period <= REPEAT_PERIOD_MOST; period++) {
        int least = (REPEAT_TIMES - 1) * period;
        if (least + period < REPEAT_LEAST) least = REPEAT_LEAST - period;
        if (r->run[period - 1] + n >= least) return true;
    }
    return false;
}
