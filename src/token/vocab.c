#include "token/vocab.h"

#include "base/asserts.h"
#include "base/mem.h"
#include "token/byte_alphabet_priv.h"
#include "token/vocab_priv.h"
#include "token/word_hash_priv.h"

struct vocab {
    int n, longest;
    uint32_t *start; /* [n + 1] into bytes */
    char *bytes;
    uint8_t *flags; /* [n] VOCAB_* and IN_MAP */
    int32_t *map;   /* [map_mask + 1] id + 1 of model pieces by the hash of their bytes, or 0 */
    uint32_t map_mask;
};

enum { IN_MAP = 8 }; /* a model piece whose text was in the alphabet */

static size_t map_slot(const vocab *v, str bytes)
{
    size_t slot = word_hash(bytes) & v->map_mask;
    while (v->map[slot] && !str_equal(vocab_bytes(v, v->map[slot] - 1), bytes))
        slot = (slot + 1) & v->map_mask;
    return slot;
}

static status fill_map(vocab *v, const char *name, err *e)
{
    for (int id = 0; id < v->n; id++) {
        if (!(v->flags[id] & IN_MAP)) continue;
        size_t slot = map_slot(v, vocab_bytes(v, id));
        if (v->map[slot])
            return err_set(e, ERR_FORMAT, name, -1, "tokens %d and %d have the same text",
                           (int)v->map[slot] - 1, id);
        v->map[slot] = id + 1;
    }
    return ERR_OK;
}

static void fill_bytes(vocab *v, const str *texts, const uint8_t *flags)
{
    size_t at = 0;
    for (int id = 0; id < v->n; id++) {
        v->start[id] = (uint32_t)at;
        v->flags[id] = flags[id];
        if (!flags[id]) continue;
        size_t n = texts[id].len;
        if ((flags[id] & VOCAB_MODEL) && byte_alphabet_decode(texts[id], v->bytes + at, &n))
            v->flags[id] |= IN_MAP;
        else if (texts[id].len > 0)
            memcpy(v->bytes + at, texts[id].ptr, n = texts[id].len);
        at += n;
        if ((int)n > v->longest) v->longest = (int)n;
    }
    v->start[v->n] = (uint32_t)at;
}

status vocab_open(vocab **out, const str *texts, const uint8_t *flags, int n, const char *name,
                  err *e)
{
    size_t n_bytes = 0, map_cap = 16;
    if (n < 1 || n > VOCAB_CAP)
        return err_set(e, ERR_INVALID, name, -1, "%d token ids, want 1 to %d", n, VOCAB_CAP);
    for (int id = 0; id < n; id++) n_bytes += flags[id] ? texts[id].len : 0;
    if (n_bytes > INT32_MAX)
        return err_set(e, ERR_INVALID, name, -1, "%zu bytes of token text", n_bytes);
    while (map_cap < (size_t)n + (size_t)n / 2) map_cap *= 2;

    vocab *v = mem_new(sizeof *v);
    status s = err_set(e, ERR_NOMEM, name, -1, "no memory for %d tokens", n);
    if (!v) return s;
    v->n = n;
    v->map_mask = (uint32_t)map_cap - 1;
    if (!(v->start = mem_new_array((size_t)n + 1, sizeof *v->start))) goto fail;
    if (!(v->bytes = mem_new(n_bytes))) goto fail;
    if (!(v->flags = mem_new((size_t)n))) goto fail;
    if (!(v->map = mem_new_array(map_cap, sizeof *v->map))) goto fail;
    fill_bytes(v, texts, flags);
    s = fill_map(v, name, e);
    if (s != ERR_OK) goto fail;
    *out = v;
    return ERR_OK;
fail:
    vocab_close(v);
    return s;
}

void vocab_close(vocab *v)
{
    if (!v) return;
    mem_free(v->start);
    mem_free(v->bytes);
    mem_free(v->flags);
    mem_free(v->map);
    mem_free(v);
}

int32_t vocab_find(const vocab *v, str bytes)
{
    return v->map[map_slot(v, bytes)] - 1;
}

bool vocab_is_piece(const vocab *v, int32_t id)
{
    return vocab_has(v, id) && (v->flags[id] & IN_MAP);
}

int vocab_count(const vocab *v)
{
    return v->n;
}

int vocab_longest(const vocab *v)
{
    return v->longest;
}

bool vocab_has(const vocab *v, int32_t id)
{
    return id >= 0 && id < v->n && v->flags[id];
}

str vocab_bytes(const vocab *v, int32_t id)
{
    if (id < 0 || id >= v->n) return STR("");
    return (str){v->bytes + v->start[id], v->start[id + 1] - v->start[id]};
}

bool vocab_is_special(const vocab *v, int32_t id)
{
    return vocab_has(v, id) && (v->flags[id] & VOCAB_SPECIAL);
}

bool vocab_is_added(const vocab *v, int32_t id)
{
    return vocab_has(v, id) && (v->flags[id] & VOCAB_ADDED);
}
