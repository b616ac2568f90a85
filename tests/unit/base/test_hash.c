#include "base/hash.h"
#include "support/test.h"

TEST(equal_bytes_and_seed_give_equal_hashes)
{
    char a[] = "some bytes", b[] = "some bytes";
    assert_true(hash_bytes(a, sizeof a, 5) == hash_bytes(b, sizeof b, 5));
    assert_true(hash_str(STR("some"), 1) == hash_bytes("somewhere", 4, 1));
}

TEST(seed_length_and_order_of_a_chain_matter)
{
    assert_true(hash_str(STR("a"), 0) != hash_str(STR("a"), 1));
    assert_true(hash_str(STR("a"), 0) != hash_bytes("a\0", 2, 0));
    uint64_t ab = hash_str(STR("b"), hash_str(STR("a"), 0));
    uint64_t ba = hash_str(STR("a"), hash_str(STR("b"), 0));
    assert_true(ab != ba);
}

/* XXH3_64bits of nothing with seed 0, as the algorithm's specification gives it: stored hashes
 * (cache files) must mean the same in every build. */
TEST(the_function_is_xxh3)
{
    assert_true(hash_bytes(NULL, 0, 0) == 0x2d06800538d394c2u);
}

TEST(no_collision_among_a_hundred_thousand_short_keys)
{
    enum { SLOTS = 1 << 20 };
    static uint64_t table[SLOTS];
    for (int i = 0; i < 100000; i++) {
        char key[16];
        int n = snprintf(key, sizeof key, "k%d", i);
        uint64_t h = hash_bytes(key, (size_t)n, 0) | 1, at = h >> 44;
        for (; table[at % SLOTS]; at++) assert_true(table[at % SLOTS] != h);
        table[at % SLOTS] = h;
    }
}
