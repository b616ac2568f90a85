#include "cache/prefix_tree.h"

#include "base/mem.h"
#include "support/test.h"

static prefix_tree *open_tree(int n)
{
    err e = {0};
    prefix_tree *t = NULL;
    CHECK_OK(prefix_tree_open(&t, n, &e), &e);
    return t;
}

/* 64 tokens that a number stands for. */
static const int32_t *tokens(int value)
{
    static int32_t ids[PREFIX_BLOCK];
    for (int i = 0; i < PREFIX_BLOCK; i++) ids[i] = value;
    return ids;
}

TEST(a_node_is_found_below_its_parent_only)
{
    prefix_tree *t = open_tree(4);
    prefix_tree_add(t, PREFIX_ROOT, tokens(1), 3);
    prefix_tree_add(t, 3, tokens(2), 0);
    assert_int_equal(prefix_tree_find(t, PREFIX_ROOT, tokens(1)), 3);
    assert_int_equal(prefix_tree_find(t, 3, tokens(2)), 0);
    assert_int_equal(prefix_tree_find(t, PREFIX_ROOT, tokens(2)), -1);
    assert_int_equal(prefix_tree_find(t, 0, tokens(2)), -1);
    assert_int_equal(prefix_tree_depth(t, 0), 2);
    assert_int_equal(prefix_tree_parent(t, 0), 3);
    assert_int_equal(prefix_tree_n_children(t, 3), 1);
    prefix_tree_close(t);
}

TEST(one_different_token_is_another_node)
{
    prefix_tree *t = open_tree(130);
    int32_t ids[PREFIX_BLOCK];
    prefix_tree_add(t, PREFIX_ROOT, tokens(7), 128);
    for (int i = 0; i < PREFIX_BLOCK; i++) {
        memcpy(ids, tokens(7), sizeof ids);
        ids[i] ^= 1;
        assert_int_equal(prefix_tree_find(t, PREFIX_ROOT, ids), -1);
        prefix_tree_add(t, PREFIX_ROOT, ids, i);
    }
    for (int i = 0; i < PREFIX_BLOCK; i++) {
        memcpy(ids, tokens(7), sizeof ids);
        ids[i] ^= 1;
        assert_int_equal(prefix_tree_find(t, PREFIX_ROOT, ids), i);
    }
    assert_int_equal(prefix_tree_n_nodes(t), PREFIX_BLOCK + 1);
    prefix_tree_close(t);
}

TEST(a_removed_node_is_gone_and_its_block_can_be_another)
{
    prefix_tree *t = open_tree(2);
    prefix_tree_add(t, PREFIX_ROOT, tokens(1), 0);
    prefix_tree_add(t, 0, tokens(2), 1);
    prefix_tree_remove(t, 1);
    assert_false(prefix_tree_has(t, 1));
    assert_int_equal(prefix_tree_find(t, 0, tokens(2)), -1);
    assert_int_equal(prefix_tree_n_children(t, 0), 0);
    prefix_tree_add(t, PREFIX_ROOT, tokens(2), 1);
    assert_int_equal(prefix_tree_depth(t, 1), 1);
    assert_int_equal(prefix_tree_find(t, PREFIX_ROOT, tokens(2)), 1);
    prefix_tree_close(t);
}

/* Against a list of what is there. */
TEST(random_adding_and_removing_finds_exactly_what_is_there)
{
    enum { N = 40 };
    int parent[N], value[N];
    bool is_there[N] = {0};
    uint64_t rng = test_seed();
    prefix_tree *t = open_tree(N);
    for (int step = 0; step < 4000; step++) {
        int b = (int)(test_random(&rng) % N), p = (int)(test_random(&rng) % N);
        int v = (int)(test_random(&rng) % 3);
        if (is_there[b] && prefix_tree_n_children(t, b) == 0) {
            prefix_tree_remove(t, b);
            is_there[b] = false;
        } else if (!is_there[b]) {
            if (!is_there[p]) p = PREFIX_ROOT;
            if (prefix_tree_find(t, p, tokens(v)) >= 0) continue;
            prefix_tree_add(t, p, tokens(v), b);
            is_there[b] = true;
            parent[b] = p;
            value[b] = v;
        }
        int n = 0;
        for (int i = 0; i < N; i++) {
            assert_int_equal(prefix_tree_has(t, i), is_there[i]);
            if (!is_there[i]) continue;
            n++;
            assert_int_equal(prefix_tree_find(t, parent[i], tokens(value[i])), i);
        }
        assert_int_equal(prefix_tree_n_nodes(t), n);
    }
    prefix_tree_close(t);
}

TEST(open_survives_an_allocator_that_fails)
{
    err e = {0};
    prefix_tree *t = NULL;
    int64_t live = mem_count().n_live;
    assert_int_equal(prefix_tree_open(&t, 0, &e), ERR_INVALID);
    for (int n = 1;; n++) {
        mem_fail_at(n);
        status s = prefix_tree_open(&t, 8, &e);
        mem_fail_at(0);
        if (s == ERR_OK) break;
        assert_int_equal(s, ERR_NOMEM);
        assert_int_equal(mem_count().n_live, live);
    }
    prefix_tree_close(t);
    assert_int_equal(mem_count().n_live, live);
}
