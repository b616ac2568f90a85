#include "server/sampling_fields_priv.h"

#include "server/fields_priv.h"

enum { STOPS_MAX = 16, STOP_LEN_MAX = 1024 };

/* Any integer is a seed; a negative one counts as its 64-bit pattern. */
static status parse_seed(const json *object, uint64_t *seed, err *e)
{
    int64_t negative;
    const json *v = field_find(object, "seed");
    if (!v || json_to_uint64(v, seed)) return ERR_OK;
    if (!json_to_int64(v, &negative))
        return err_set(e, ERR_INVALID, "seed", -1, "is %s, want an integer of 64 bits",
                       field_kind(v));
    *seed = (uint64_t)negative;
    return ERR_OK;
}

static status parse_bias(const json *object, int V, arena *a, policy *p, err *e)
{
    const json *bias = NULL;
    TRY(field_object(object, "logit_bias", &bias, e));
    if (!bias || bias->n == 0) return ERR_OK;
    if (bias->n > POLICY_BIAS_MAX)
        return err_set(e, ERR_INVALID, "logit_bias", -1, "%d entries, at most %d", bias->n,
                       POLICY_BIAS_MAX);
    policy_bias *out = arena_new_array(a, (size_t)bias->n, sizeof *out);
    if (!out) return err_set(e, ERR_NOMEM, "logit_bias", -1, "%d entries", bias->n);
    int n = 0;
    for (const json *v = bias->first; v; v = v->next) {
        int64_t id;
        double value;
        int shown = (int)(v->key.len < 40 ? v->key.len : 40);
        if (json_get_str(bias, v->key) != v) continue; /* repeated: the last one counts */
        if (!str_to_int64(v->key, &id) || id < 0 || id >= V)
            return err_set(e, ERR_INVALID, "logit_bias", -1, "\"%.*s\" is no token id below %d",
                           shown, v->key.ptr, V);
        if (!json_to_double(v, &value) || value < -100 || value > 100)
            return err_set(e, ERR_INVALID, "logit_bias", -1,
                           "the value of \"%.*s\" is no number in [-100, 100]", shown, v->key.ptr);
        out[n++] = (policy_bias){.id = (int32_t)id, .value = (float)value};
    }
    p->bias = out;
    p->n_bias = n;
    return ERR_OK;
}

status sampling_fields_parse(const json *object, int V, arena *a, policy *p, err *e)
{
    policy q = *p;
    TRY(field_double(object, "temperature", &q.temperature, e));
    TRY(field_double(object, "top_p", &q.top_p, e));
    TRY(field_int(object, "top_k", -1, INT64_MAX, &q.top_k, e));
    TRY(field_double(object, "min_p", &q.min_p, e));
    TRY(field_double(object, "presence_penalty", &q.presence, e));
    TRY(field_double(object, "frequency_penalty", &q.frequency, e));
    TRY(field_double(object, "repetition_penalty", &q.repetition, e));
    TRY(field_bool(object, "ignore_eos", &q.ignore_eos, e));
    TRY(parse_seed(object, &q.seed, e));
    TRY(parse_bias(object, V, a, &q, e));
    TRY(policy_check(&q, V, e));
    *p = q;
    return ERR_OK;
}

static status put_stop(const json *v, const char *name, str *list, int *n, err *e)
{
    str s;
    if (!json_to_str(v, &s))
        return err_set(e, ERR_INVALID, name, -1, "holds %s, want strings", field_kind(v));
    if (s.len > STOP_LEN_MAX)
        return err_set(e, ERR_INVALID, name, -1, "a string of %zu bytes, at most %d", s.len,
                       STOP_LEN_MAX);
    if (s.len > 0) list[(*n)++] = s;
    return ERR_OK;
}

status sampling_fields_stop(const json *object, const char *name, arena *a, const str **stop,
                            int *n, err *e)
{
    const json *v = field_find(object, name);
    if (!v) return ERR_OK;
    if (v->kind != JSON_STRING && v->kind != JSON_ARRAY)
        return err_set(e, ERR_INVALID, name, -1, "is %s, want a string or an array", field_kind(v));
    int count = v->kind == JSON_ARRAY ? v->n : 1, kept = 0;
    if (count > STOPS_MAX)
        return err_set(e, ERR_INVALID, name, -1, "%d strings, at most %d", count, STOPS_MAX);
    str *list = arena_new_array(a, (size_t)count, sizeof *list);
    if (!list) return err_set(e, ERR_NOMEM, name, -1, "%d strings", count);
    if (v->kind == JSON_STRING) TRY(put_stop(v, name, list, &kept, e));
    if (v->kind == JSON_ARRAY)
        for (const json *s = v->first; s; s = s->next) TRY(put_stop(s, name, list, &kept, e));
    *stop = list;
    *n = kept;
    return ERR_OK;
}
