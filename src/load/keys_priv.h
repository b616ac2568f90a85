/* keys: checked values of a JSON object, by key.
 *
 * The first failure sticks in `s`; after it every call does nothing, so that a table of keys can
 * be read in a row and checked once. A value that is null counts as absent.
 * Messages name the key with the object's label: "text_config.hidden_size is 0, must be …". */
#ifndef RIPTIDE_LOAD_KEYS_PRIV_H
#define RIPTIDE_LOAD_KEYS_PRIV_H

#include "base/err.h"
#include "base/json.h"

typedef struct {
    const json *object; /* may be NULL: then every key is absent */
    const char *label;  /* "text_config." or "" */
    const char *file;   /* for err.where */
    err *e;
    status s;
} keys;

void keys_init(keys *k, const json *object, const char *label, const char *file, err *e);

/* The value, or NULL when it is absent or null. */
const json *keys_find(const keys *k, const char *key);

/* Each reads the key into *out when it is there and returns whether it was; *out then lies in
 * [min, max]. Absent: *out stays as it is. Of another kind or out of range: FORMAT. */
bool keys_int64(keys *k, const char *key, int64_t min, int64_t max, int64_t *out);
bool keys_int(keys *k, const char *key, int min, int max, int *out);
bool keys_double(keys *k, const char *key, double min, double max, double *out);
bool keys_float(keys *k, const char *key, double min, double max, float *out);
bool keys_bool(keys *k, const char *key, bool *out);
bool keys_str(keys *k, const char *key, str *out);
/* The member of that kind (an object or an array), or NULL. */
const json *keys_container(keys *k, const char *key, json_kind kind);

/* The same, but a failure when the key is absent. */
void keys_need_int(keys *k, const char *key, int min, int max, int *out);
void keys_need_double(keys *k, const char *key, double min, double max, double *out);

/* Record a failure about `key`, unless one is recorded already. */
void keys_fail(keys *k, status s, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
