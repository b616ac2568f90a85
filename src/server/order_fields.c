/* When a request has its turn, and how long that may take. */
#include "server/fields_priv.h"
#include "server/generation_priv.h"

enum { TIMEOUT_MAX_S = 7 * 24 * 3600 };

/* `timeout`: seconds. */
static status parse_timeout(const json *body, int64_t *timeout_ms, err *e)
{
    double seconds = 0;
    if (!field_find(body, "timeout")) return ERR_OK;
    TRY(field_double(body, "timeout", &seconds, e));
    if (!(seconds > 0 && seconds <= TIMEOUT_MAX_S))
        return err_set(e, ERR_INVALID, "timeout", -1, "want more than 0 and at most %d seconds",
                       TIMEOUT_MAX_S);
    *timeout_ms = seconds < 0.001 ? 1 : (int64_t)(seconds * 1000);
    return ERR_OK;
}

status order_fields_parse(const json *body, generation_request *r, err *e)
{
    static const struct {
        const char *name;
        int priority;
    } known[] = {{"background", -1}, {"normal", 0}, {"foreground", 1}};
    str name = STR("normal");
    TRY(parse_timeout(body, &r->timeout_ms, e));
    TRY(field_str(body, "priority", &name, e));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!str_is(name, known[i].name)) continue;
        r->priority = known[i].priority;
        return ERR_OK;
    }
    return err_set(e, ERR_INVALID, "priority", -1,
                   "\"%.*s\": want \"foreground\", \"normal\" or \"background\"",
                   (int)(name.len < 40 ? name.len : 40), name.ptr);
}
