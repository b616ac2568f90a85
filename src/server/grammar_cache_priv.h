/* grammar_cache: compiled grammars by what they were compiled from; bounded, the one not used for
 * longest goes. Agents send the same tools with every request.
 *
 * Thread: any. */
#ifndef RIPTIDE_SERVER_GRAMMAR_CACHE_PRIV_H
#define RIPTIDE_SERVER_GRAMMAR_CACHE_PRIV_H

#include "base/thread.h"
#include "grammar/grammar.h"

enum { GRAMMAR_CACHE_ENTRIES = 32, GRAMMAR_CACHE_BYTES = 8 << 20 };

typedef struct {
    grammar *grammar; /* held */
    bool is_whole;    /* nothing of its source was left out */
    uint64_t hash, used;
    char *key; /* owned */
    size_t n_key;
} cached_grammar;

typedef struct {
    mutex lock; /* protects the rest */
    cached_grammar entries[GRAMMAR_CACHE_ENTRIES];
    size_t n_bytes; /* of all keys; at most limit */
    size_t limit;
    uint64_t tick;
    bool is_open;
} grammar_cache;

void grammar_cache_init(grammar_cache *c, size_t limit);
void grammar_cache_fini(grammar_cache *c); /* twice is harmless */

/* The grammar under a key, held for the caller; NULL when it is not there. */
grammar *grammar_cache_get(grammar_cache *c, str key, bool *is_whole);
/* Keep it too. What is larger than the limit, or finds no memory, is not kept. */
void grammar_cache_put(grammar_cache *c, str key, grammar *g, bool is_whole);

#endif
