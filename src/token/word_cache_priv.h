/* word_cache: the tokens of words seen lately, so that a repeated word is not merged again.
 *
 * A fixed table, one word a slot, the newest wins: 2 MB whatever the text. Long words and words
 * of many tokens are not kept; they seldom come again. Inlined, as it runs once a word.
 * Thread: one at a time. */
#ifndef RIPTIDE_TOKEN_WORD_CACHE_PRIV_H
#define RIPTIDE_TOKEN_WORD_CACHE_PRIV_H

#include "base/str.h"
#include "token/word_hash_priv.h"

enum {
    WORD_CACHE_BYTES = 32, /* longest word that is kept */
    WORD_CACHE_IDS = 7,    /* most tokens of one */
    WORD_CACHE_BITS = 15   /* log2 of the slots */
};

/* One line of the processor's cache. A word of n < 32 bytes is followed by zeros; `length` tells
 * it from one that really ends in zeros. 0 means an empty slot. */
typedef struct {
    uint64_t key[WORD_CACHE_BYTES / 8];
    int32_t ids[WORD_CACHE_IDS];
    uint16_t length, n;
} word_cache_slot;
_Static_assert(sizeof(word_cache_slot) == 64, "one cache line");

typedef struct {
    word_cache_slot *slots; /* [1 << WORD_CACHE_BITS] aligned to 64 */
} word_cache;

/* Text looked up here must be readable up to this many bytes beyond its end. */
enum { WORD_CACHE_SLACK = 8 };

static inline void word_cache_key(str word, uint64_t key[WORD_CACHE_BYTES / 8])
{
    for (size_t i = 0; i < WORD_CACHE_BYTES / 8; i++) {
        uint64_t eight = 0;
        if (i * 8 < word.len) {
            memcpy(&eight, word.ptr + i * 8, sizeof eight);
            size_t n_left = word.len - i * 8;
            if (n_left < 8) eight &= ((uint64_t)1 << (8 * n_left)) - 1;
        }
        key[i] = eight;
    }
}

/* The slot where a word of 1 to WORD_CACHE_BYTES bytes is or would be; *has tells which. `key` is
 * what word_cache_put needs. */
static inline word_cache_slot *word_cache_find(const word_cache *c, str word,
                                               uint64_t key[WORD_CACHE_BYTES / 8], bool *has)
{
    word_cache_key(word, key);
    uint64_t h = word_hash_mix(key[0], key[1]);
    if (word.len > 16) h = word_hash_mix(h ^ key[2], key[3]);
    word_cache_slot *slot = &c->slots[h >> 8 & ((1u << WORD_CACHE_BITS) - 1)];
    *has = slot->length == word.len && slot->key[0] == key[0] && slot->key[1] == key[1] &&
           slot->key[2] == key[2] && slot->key[3] == key[3];
    return slot;
}

static inline void word_cache_put(word_cache_slot *slot, const uint64_t key[WORD_CACHE_BYTES / 8],
                                  size_t length, const int32_t *ids, int n)
{
    if (n > WORD_CACHE_IDS) return;
    memcpy(slot->key, key, sizeof slot->key);
    memcpy(slot->ids, ids, (size_t)n * sizeof *ids);
    slot->length = (uint16_t)length;
    slot->n = (uint16_t)n;
}

#endif
