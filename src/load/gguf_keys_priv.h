/* gguf_keys: checked values of a GGUF file, by key; the sibling of keys_priv.h.
 *
 * The first failure sticks in `s`; after it every call does nothing, so that a table of keys can
 * be read in a row and checked once. Messages name the whole key with its prefix. */
#ifndef RIPTIDE_LOAD_GGUF_KEYS_PRIV_H
#define RIPTIDE_LOAD_GGUF_KEYS_PRIV_H

#include "load/gguf_priv.h"

typedef struct {
    const gguf *g;
    const char *prefix; /* "qwen35." or "", put in front of every key */
    err *e;
    status s;
} gguf_keys;

void gguf_keys_init(gguf_keys *k, const gguf *g, const char *prefix, err *e);

/* The value, or NULL when it is absent or something failed before. */
const gguf_value *gguf_keys_find(const gguf_keys *k, const char *key);

/* Each reads the key into *out when it is there and returns whether it was; *out then lies in
 * [min, max]. Absent: *out stays as it is. Of another kind or out of range: FORMAT. */
bool gguf_keys_int64(gguf_keys *k, const char *key, int64_t min, int64_t max, int64_t *out);
bool gguf_keys_int(gguf_keys *k, const char *key, int min, int max, int *out);
bool gguf_keys_double(gguf_keys *k, const char *key, double min, double max, double *out);
bool gguf_keys_float(gguf_keys *k, const char *key, double min, double max, float *out);
bool gguf_keys_bool(gguf_keys *k, const char *key, bool *out);
bool gguf_keys_str(gguf_keys *k, const char *key, str *out);
/* An array of integers or bools into out[cap], each in [min, max]; returns how many, or -1 when it
 * is absent or fails. A longer array fails. */
int gguf_keys_ints(gguf_keys *k, const char *key, int min, int max, int cap, int *out);

/* The same, but a failure when the key is absent. */
void gguf_keys_need_int(gguf_keys *k, const char *key, int min, int max, int *out);

/* Record a failure about `key`, unless one is recorded already. */
void gguf_keys_fail(gguf_keys *k, status s, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
