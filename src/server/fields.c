#include "server/fields_priv.h"

const json *field_find(const json *object, const char *name)
{
    const json *v = json_get(object, name);
    return json_is(v, JSON_NULL) ? NULL : v;
}

const char *field_kind(const json *v)
{
    switch (v->kind) {
    case JSON_NULL: return "null";
    case JSON_FALSE:
    case JSON_TRUE: return "a boolean";
    case JSON_NUMBER: return "a number";
    case JSON_STRING: return "a string";
    case JSON_ARRAY: return "an array";
    default: return "an object";
    }
}

static status wrong(const json *v, const char *name, const char *want, err *e)
{
    return err_set(e, ERR_INVALID, name, -1, "is %s, want %s", field_kind(v), want);
}

status field_bool(const json *object, const char *name, bool *out, err *e)
{
    const json *v = field_find(object, name);
    if (!v || json_to_bool(v, out)) return ERR_OK;
    return wrong(v, name, "true or false", e);
}

status field_int(const json *object, const char *name, int64_t min, int64_t max, int64_t *out,
                 err *e)
{
    int64_t n;
    const json *v = field_find(object, name);
    if (!v) return ERR_OK;
    if (v->kind != JSON_NUMBER) return wrong(v, name, "an integer", e);
    int shown = (int)(v->text.len < 40 ? v->text.len : 40);
    if (!json_to_int64(v, &n))
        return err_set(e, ERR_INVALID, name, -1, "%.*s is no integer", shown, v->text.ptr);
    if (n < min || n > max)
        return err_set(e, ERR_INVALID, name, -1, "%lld is outside [%lld, %lld]", (long long)n,
                       (long long)min, (long long)max);
    *out = n;
    return ERR_OK;
}

status field_double(const json *object, const char *name, double *out, err *e)
{
    const json *v = field_find(object, name);
    if (!v) return ERR_OK;
    if (v->kind != JSON_NUMBER) return wrong(v, name, "a number", e);
    if (json_to_double(v, out)) return ERR_OK;
    return err_set(e, ERR_INVALID, name, -1, "is too large a number");
}

status field_str(const json *object, const char *name, str *out, err *e)
{
    const json *v = field_find(object, name);
    if (!v || json_to_str(v, out)) return ERR_OK;
    return wrong(v, name, "a string", e);
}

status field_array(const json *object, const char *name, const json **out, err *e)
{
    const json *v = field_find(object, name);
    if (!v) return ERR_OK;
    if (v->kind != JSON_ARRAY) return wrong(v, name, "an array", e);
    *out = v;
    return ERR_OK;
}

status field_object(const json *object, const char *name, const json **out, err *e)
{
    const json *v = field_find(object, name);
    if (!v) return ERR_OK;
    if (v->kind != JSON_OBJECT) return wrong(v, name, "an object", e);
    *out = v;
    return ERR_OK;
}

status field_check_metadata(const json *object, err *e)
{
    const json *own = NULL;
    TRY(field_object(object, "metadata", &own, e));
    for (const json *v = own ? own->first : NULL; v; v = v->next)
        if (v->kind != JSON_STRING)
            return err_set(e, ERR_INVALID, "metadata", -1, "\"%.*s\" is %s, want a string",
                           (int)(v->key.len < 40 ? v->key.len : 40), v->key.ptr, field_kind(v));
    return ERR_OK;
}
