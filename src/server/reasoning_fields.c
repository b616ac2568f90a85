/* How long a request lets the model reason. */
#include "server/fields_priv.h"
#include "server/generation_priv.h"

status reasoning_fields_parse(const json *body, const chat_context *x, generation_request *r,
                              err *e)
{
    r->has_reasoning_limit = x->has_reasoning_limit;
    r->reasoning_most = x->reasoning_most;
    r->ends_loops = x->ends_loops;
    if (!field_find(body, "thinking_budget")) return ERR_OK;
    TRY(field_int(body, "thinking_budget", -1, INT64_MAX, &r->reasoning_most, e));
    r->has_reasoning_limit = r->reasoning_most >= 0;
    return ERR_OK;
}
