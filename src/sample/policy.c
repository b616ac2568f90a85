#include "sample/policy.h"

#include <math.h>

policy policy_neutral(void)
{
    return (policy){.temperature = 1, .top_p = 1, .repetition = 1};
}

static status check_range(double v, double low, double high, bool low_is_open, const char *name,
                          err *e)
{
    bool is_inside = isfinite(v) && (low_is_open ? v > low : v >= low) && v <= high;
    if (is_inside) return ERR_OK;
    return err_set(e, ERR_INVALID, name, -1, "%g is outside %c%g, %g]", v, low_is_open ? '(' : '[',
                   low, high);
}

static status check_bias(const policy *p, int V, err *e)
{
    if (p->n_bias < 0 || p->n_bias > POLICY_BIAS_MAX)
        return err_set(e, ERR_INVALID, "logit_bias", -1, "%d entries, at most %d", p->n_bias,
                       POLICY_BIAS_MAX);
    for (int i = 0; i < p->n_bias; i++) {
        if (p->bias[i].id < 0 || p->bias[i].id >= V)
            return err_set(e, ERR_INVALID, "logit_bias", -1, "token %d is not below %d",
                           (int)p->bias[i].id, V);
        if (isnan(p->bias[i].value))
            return err_set(e, ERR_INVALID, "logit_bias", -1, "token %d has no number",
                           (int)p->bias[i].id);
    }
    return ERR_OK;
}

status policy_check(policy *p, int V, err *e)
{
    TRY(check_range(p->temperature, 0, 2, false, "temperature", e));
    TRY(check_range(p->top_p, 0, 1, true, "top_p", e));
    TRY(check_range(p->min_p, 0, 1, false, "min_p", e));
    TRY(check_range(p->repetition, 0, 1e6, true, "repetition_penalty", e));
    TRY(check_range(p->presence, -2, 2, false, "presence_penalty", e));
    TRY(check_range(p->frequency, -2, 2, false, "frequency_penalty", e));
    if (p->top_k < -1)
        return err_set(e, ERR_INVALID, "top_k", -1, "%lld, want >= -1", (long long)p->top_k);
    TRY(check_bias(p, V, e));
    if (p->top_k < 0 || p->top_k >= V) p->top_k = 0;
    if (p->temperature > 0 && p->temperature < 0.01) p->temperature = 0.01;
    return ERR_OK;
}

bool policy_has_penalties(const policy *p)
{
    return p->repetition != 1 || p->presence != 0 || p->frequency != 0;
}
