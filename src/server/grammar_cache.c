#include "server/grammar_cache_priv.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

void grammar_cache_init(grammar_cache *c, size_t limit)
{
    *c = (grammar_cache){.limit = limit, .is_open = true};
    mutex_init(&c->lock);
}

static void drop(grammar_cache *c, cached_grammar *x)
{
    c->n_bytes -= x->n_key;
    grammar_close(x->grammar);
    mem_free(x->key);
    *x = (cached_grammar){0};
}

void grammar_cache_fini(grammar_cache *c)
{
    if (!c->is_open) return;
    for (int i = 0; i < GRAMMAR_CACHE_ENTRIES; i++) drop(c, &c->entries[i]);
    mutex_fini(&c->lock);
    *c = (grammar_cache){0};
}

static cached_grammar *find(grammar_cache *c, str key, uint64_t hash)
{
    for (int i = 0; i < GRAMMAR_CACHE_ENTRIES; i++) {
        cached_grammar *x = &c->entries[i];
        if (x->grammar && x->hash == hash && str_equal((str){x->key, x->n_key}, key)) return x;
    }
    return NULL;
}

grammar *grammar_cache_get(grammar_cache *c, str key, bool *is_whole)
{
    grammar *g = NULL;
    uint64_t hash = hash_str(key, 0);
    mutex_lock(&c->lock);
    cached_grammar *x = find(c, key, hash);
    if (x) {
        x->used = ++c->tick;
        *is_whole = x->is_whole;
        g = grammar_hold(x->grammar);
    }
    mutex_unlock(&c->lock);
    return g;
}

static cached_grammar *oldest(grammar_cache *c)
{
    cached_grammar *x = NULL;
    for (int i = 0; i < GRAMMAR_CACHE_ENTRIES; i++)
        if (c->entries[i].grammar && (!x || c->entries[i].used < x->used)) x = &c->entries[i];
    return x;
}

/* An entry that is free, with room for n bytes. */
static cached_grammar *make_room(grammar_cache *c, size_t n)
{
    while (c->n_bytes + n > c->limit) drop(c, oldest(c));
    for (int i = 0; i < GRAMMAR_CACHE_ENTRIES; i++)
        if (!c->entries[i].grammar) return &c->entries[i];
    cached_grammar *x = oldest(c);
    drop(c, x);
    return x;
}

void grammar_cache_put(grammar_cache *c, str key, grammar *g, bool is_whole)
{
    char *copy = key.len <= c->limit ? mem_new(key.len) : NULL;
    if (!copy) return;
    memcpy(copy, key.ptr, key.len);
    uint64_t hash = hash_str(key, 0);
    mutex_lock(&c->lock);
    /* Another request may have compiled the same meanwhile. */
    cached_grammar *x = find(c, key, hash);
    if (x) {
        mem_free(copy);
    } else {
        x = make_room(c, key.len);
        *x = (cached_grammar){grammar_hold(g), is_whole, hash, 0, copy, key.len};
        c->n_bytes += key.len;
    }
    x->used = ++c->tick;
    mutex_unlock(&c->lock);
}
