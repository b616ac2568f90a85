#include "load/keys_priv.h"

#include <stdarg.h>
#include <stdio.h>

#include "load/safetensors_priv.h"

void keys_init(keys *k, const json *object, const char *label, const char *file, err *e)
{
    *k = (keys){object, label, file, e, ERR_OK};
}

const json *keys_find(const keys *k, const char *key)
{
    const json *v = json_get(k->object, key);
    return json_is(v, JSON_NULL) ? NULL : v;
}

void keys_fail(keys *k, status s, const char *key, const char *fmt, ...)
{
    if (k->s != ERR_OK) return;
    char text[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const json *v = keys_find(k, key);
    long pos = v ? (long)v->pos : -1;
    k->s = err_set(k->e, s, safetensors_where(k->file), pos, "%s%.60s %s", k->label, key, text);
}

/* The value when it is there and nothing failed before. */
static const json *take(keys *k, const char *key)
{
    return k->s == ERR_OK ? keys_find(k, key) : NULL;
}

bool keys_int64(keys *k, const char *key, int64_t min, int64_t max, int64_t *out)
{
    const json *v = take(k, key);
    int64_t n;
    if (!v) return false;
    if (!json_to_int64(v, &n)) {
        keys_fail(k, ERR_FORMAT, key, "must be a whole number");
    } else if (n < min || n > max) {
        keys_fail(k, ERR_FORMAT, key, "is %lld, must be %lld to %lld", (long long)n, (long long)min,
                  (long long)max);
    } else {
        *out = n;
        return true;
    }
    return false;
}

bool keys_int(keys *k, const char *key, int min, int max, int *out)
{
    int64_t n;
    if (!keys_int64(k, key, min, max, &n)) return false;
    *out = (int)n;
    return true;
}

bool keys_double(keys *k, const char *key, double min, double max, double *out)
{
    const json *v = take(k, key);
    double x;
    if (!v) return false;
    if (!json_to_double(v, &x)) {
        keys_fail(k, ERR_FORMAT, key, "must be a number");
    } else if (!(x >= min && x <= max)) {
        keys_fail(k, ERR_FORMAT, key, "is %g, must be %g to %g", x, min, max);
    } else {
        *out = x;
        return true;
    }
    return false;
}

bool keys_float(keys *k, const char *key, double min, double max, float *out)
{
    double x;
    if (!keys_double(k, key, min, max, &x)) return false;
    *out = (float)x;
    return true;
}

bool keys_bool(keys *k, const char *key, bool *out)
{
    const json *v = take(k, key);
    if (!v) return false;
    if (json_to_bool(v, out)) return true;
    keys_fail(k, ERR_FORMAT, key, "must be true or false");
    return false;
}

bool keys_str(keys *k, const char *key, str *out)
{
    const json *v = take(k, key);
    if (!v) return false;
    if (json_to_str(v, out)) return true;
    keys_fail(k, ERR_FORMAT, key, "must be a string");
    return false;
}

const json *keys_container(keys *k, const char *key, json_kind kind)
{
    const json *v = take(k, key);
    if (!v || v->kind == kind) return v;
    keys_fail(k, ERR_FORMAT, key, "must be %s", kind == JSON_OBJECT ? "an object" : "a list");
    return NULL;
}

void keys_need_int(keys *k, const char *key, int min, int max, int *out)
{
    if (k->s == ERR_OK && !keys_find(k, key)) keys_fail(k, ERR_FORMAT, key, "is missing");
    keys_int(k, key, min, max, out);
}

void keys_need_double(keys *k, const char *key, double min, double max, double *out)
{
    if (k->s == ERR_OK && !keys_find(k, key)) keys_fail(k, ERR_FORMAT, key, "is missing");
    keys_double(k, key, min, max, out);
}
