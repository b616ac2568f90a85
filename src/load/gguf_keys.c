#include "load/gguf_keys_priv.h"

#include <stdarg.h>
#include <stdio.h>

#include "load/safetensors_priv.h"

void gguf_keys_init(gguf_keys *k, const gguf *g, const char *prefix, err *e)
{
    *k = (gguf_keys){g, prefix, e, ERR_OK};
}

const gguf_value *gguf_keys_find(const gguf_keys *k, const char *key)
{
    char full[128];
    if (k->s != ERR_OK) return NULL;
    snprintf(full, sizeof full, "%s%s", k->prefix, key);
    return gguf_find(k->g, full);
}

void gguf_keys_fail(gguf_keys *k, status s, const char *key, const char *fmt, ...)
{
    if (k->s != ERR_OK) return;
    char text[160];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    k->s = err_set(k->e, s, safetensors_where(gguf_path(k->g)), -1, "key '%s%.60s' %s", k->prefix,
                   key, text);
}

bool gguf_keys_int64(gguf_keys *k, const char *key, int64_t min, int64_t max, int64_t *out)
{
    const gguf_value *v = gguf_keys_find(k, key);
    int64_t n;
    if (!v) return false;
    if (v->is_array || v->type == GGUF_BOOL || !gguf_int_at(v, 0, &n)) {
        gguf_keys_fail(k, ERR_FORMAT, key, "must be a whole number");
    } else if (n < min || n > max) {
        gguf_keys_fail(k, ERR_FORMAT, key, "is %lld, must be %lld to %lld", (long long)n,
                       (long long)min, (long long)max);
    } else {
        *out = n;
        return true;
    }
    return false;
}

bool gguf_keys_int(gguf_keys *k, const char *key, int min, int max, int *out)
{
    int64_t n;
    if (!gguf_keys_int64(k, key, min, max, &n)) return false;
    *out = (int)n;
    return true;
}

bool gguf_keys_double(gguf_keys *k, const char *key, double min, double max, double *out)
{
    const gguf_value *v = gguf_keys_find(k, key);
    double x = 0;
    float f;
    int64_t n;
    if (!v) return false;
    bool is_number = !v->is_array;
    if (v->type == GGUF_F32) {
        memcpy(&f, v->data, is_number ? 4 : 0);
        x = is_number ? (double)f : 0;
    } else if (v->type == GGUF_F64) {
        memcpy(&x, v->data, is_number ? 8 : 0);
    } else {
        is_number = is_number && v->type != GGUF_BOOL && gguf_int_at(v, 0, &n);
        x = is_number ? (double)n : 0;
    }
    if (!is_number) {
        gguf_keys_fail(k, ERR_FORMAT, key, "must be a number");
    } else if (!(x >= min && x <= max)) {
        gguf_keys_fail(k, ERR_FORMAT, key, "is %g, must be %g to %g", x, min, max);
    } else {
        *out = x;
        return true;
    }
    return false;
}

bool gguf_keys_float(gguf_keys *k, const char *key, double min, double max, float *out)
{
    double x;
    if (!gguf_keys_double(k, key, min, max, &x)) return false;
    *out = (float)x;
    return true;
}

bool gguf_keys_bool(gguf_keys *k, const char *key, bool *out)
{
    const gguf_value *v = gguf_keys_find(k, key);
    if (!v) return false;
    if (v->is_array || v->type != GGUF_BOOL) {
        gguf_keys_fail(k, ERR_FORMAT, key, "must be true or false");
        return false;
    }
    *out = v->data[0] != 0;
    return true;
}

bool gguf_keys_str(gguf_keys *k, const char *key, str *out)
{
    const gguf_value *v = gguf_keys_find(k, key);
    int64_t at = 0;
    if (!v) return false;
    if (v->is_array || v->type != GGUF_STRING) {
        gguf_keys_fail(k, ERR_FORMAT, key, "must be a string");
        return false;
    }
    *out = gguf_next_string(v, &at);
    return true;
}

int gguf_keys_ints(gguf_keys *k, const char *key, int min, int max, int cap, int *out)
{
    const gguf_value *v = gguf_keys_find(k, key);
    if (!v) return -1;
    if (!v->is_array || v->n > cap) {
        gguf_keys_fail(k, ERR_FORMAT, key, "must be a list of at most %d numbers", cap);
        return -1;
    }
    for (int i = 0; i < (int)v->n; i++) {
        int64_t n;
        if (!gguf_int_at(v, i, &n) || n < min || n > max) {
            gguf_keys_fail(k, ERR_FORMAT, key, "must be a list of numbers from %d to %d", min, max);
            return -1;
        }
        out[i] = (int)n;
    }
    return (int)v->n;
}

void gguf_keys_need_int(gguf_keys *k, const char *key, int min, int max, int *out)
{
    if (k->s == ERR_OK && !gguf_keys_find(k, key)) gguf_keys_fail(k, ERR_FORMAT, key, "is missing");
    gguf_keys_int(k, key, min, max, out);
}
