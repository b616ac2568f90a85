#include "base/mem.h"
#include "support/test.h"
#include "token/word_cache_priv.h"

typedef struct {
    word_cache cache;
    char text[WORD_CACHE_BYTES + WORD_CACHE_SLACK];
} world;

static void begin_world(world *w)
{
    memset(w, 0, sizeof *w);
    w->cache.slots = mem_new_aligned(sizeof(word_cache_slot) << WORD_CACHE_BITS, 64);
    assert_non_null(w->cache.slots);
}

/* Looks up text[0, n), whatever stands behind it. */
static word_cache_slot *find(world *w, size_t n, uint64_t *key, bool *has)
{
    return word_cache_find(&w->cache, (str){w->text, n}, key, has);
}

TEST(a_word_is_found_by_all_its_bytes_and_its_length)
{
    world w;
    uint64_t key[WORD_CACHE_BYTES / 8];
    bool has;
    begin_world(&w);
    for (size_t n = 1; n <= WORD_CACHE_BYTES; n++) {
        int32_t ids[2] = {(int32_t)n, -1};
        memset(w.text, 'x', sizeof w.text);
        word_cache_slot *slot = find(&w, n, key, &has);
        assert_false(has);
        word_cache_put(slot, key, n, ids, 2);
        memset(w.text + n, 'y', sizeof w.text - n); /* behind the word: must not matter */
        assert_ptr_equal(find(&w, n, key, &has), slot);
        assert_true(has && slot->n == 2 && slot->ids[0] == (int32_t)n);
    }
    mem_free(w.cache.slots);
}

/* Put every word into the slot of another: only all of the key tells them apart. */
TEST(another_word_in_the_slot_is_not_taken_for_it)
{
    world w;
    uint64_t key[WORD_CACHE_BYTES / 8], other[WORD_CACHE_BYTES / 8];
    bool has;
    begin_world(&w);
    for (size_t n = 1; n <= WORD_CACHE_BYTES; n++) {
        int32_t id = 1;
        for (size_t i = 0; i < n; i++) {
            memset(w.text, 'x', sizeof w.text);
            word_cache_slot *slot = find(&w, n, key, &has);
            w.text[i] = 'z';
            word_cache_key((str){w.text, n}, other);
            word_cache_put(slot, other, n, &id, 1);
            memset(w.text, 'x', sizeof w.text);
            find(&w, n, key, &has);
            assert_false(has);
        }
        /* the same with one more byte, which is a zero */
        memset(w.text, 0, sizeof w.text);
        word_cache_slot *slot = find(&w, n, key, &has);
        word_cache_put(slot, key, n + 1, &id, 1);
        find(&w, n, key, &has);
        assert_false(has);
    }
    mem_free(w.cache.slots);
}

TEST(a_word_of_many_tokens_is_not_kept)
{
    world w;
    uint64_t key[WORD_CACHE_BYTES / 8];
    int32_t ids[WORD_CACHE_IDS + 1] = {0};
    bool has;
    begin_world(&w);
    memset(w.text, 'x', sizeof w.text);
    word_cache_slot *slot = find(&w, 9, key, &has);
    word_cache_put(slot, key, 9, ids, WORD_CACHE_IDS + 1);
    find(&w, 9, key, &has);
    assert_false(has);
    word_cache_put(slot, key, 9, ids, WORD_CACHE_IDS);
    find(&w, 9, key, &has);
    assert_true(has);
    mem_free(w.cache.slots);
}
