#include "cache/prefix_tree.h"

#include <string.h>

#include "base/asserts.h"
#include "base/hash.h"
#include "base/mem.h"

enum { NONE = -1 };

typedef struct {
    int32_t ids[PREFIX_BLOCK];
    int32_t parent, next; /* next in the bucket */
    int32_t depth;        /* 0 = no node */
    int32_t n_children;
    uint32_t bucket;
} node;

struct prefix_tree {
    int n_blocks, n_nodes;
    uint32_t mask;    /* buckets - 1, a power of two less one */
    node *nodes;      /* owned [n_blocks] */
    int32_t *buckets; /* owned [mask + 1] first node, or NONE */
};

status prefix_tree_open(prefix_tree **out, int n_blocks, err *e)
{
    if (n_blocks < 1)
        return err_set(e, ERR_INVALID, "prefix_tree", -1, "%d blocks, want >= 1", n_blocks);
    uint32_t n_buckets = 1;
    while (n_buckets < (uint32_t)n_blocks) n_buckets *= 2;
    prefix_tree *t = mem_new(sizeof *t);
    if (t) {
        t->n_blocks = n_blocks;
        t->mask = n_buckets - 1;
        t->nodes = mem_new_array((size_t)n_blocks, sizeof *t->nodes);
        t->buckets = mem_new_array(n_buckets, sizeof *t->buckets);
    }
    if (!t || !t->nodes || !t->buckets) {
        prefix_tree_close(t);
        return err_set(e, ERR_NOMEM, "prefix_tree", -1, "%d blocks", n_blocks);
    }
    for (uint32_t i = 0; i < n_buckets; i++) t->buckets[i] = NONE;
    *out = t;
    return ERR_OK;
}

void prefix_tree_close(prefix_tree *t)
{
    if (!t) return;
    mem_free(t->nodes);
    mem_free(t->buckets);
    mem_free(t);
}

static uint32_t bucket_of(const prefix_tree *t, int32_t parent, const int32_t *ids)
{
    uint64_t h = hash_bytes(ids, PREFIX_BLOCK * sizeof *ids, (uint64_t)(int64_t)parent);
    return (uint32_t)h & t->mask;
}

int32_t prefix_tree_find(const prefix_tree *t, int32_t parent, const int32_t *ids)
{
    for (int32_t b = t->buckets[bucket_of(t, parent, ids)]; b != NONE; b = t->nodes[b].next) {
        const node *n = &t->nodes[b];
        if (n->parent == parent && memcmp(n->ids, ids, sizeof n->ids) == 0) return b;
    }
    return NONE;
}

void prefix_tree_add(prefix_tree *t, int32_t parent, const int32_t *ids, int32_t block)
{
    node *n = &t->nodes[block];
    ASSERT(block >= 0 && block < t->n_blocks && n->depth == 0);
    ASSERT(parent == PREFIX_ROOT || t->nodes[parent].depth > 0);
    memcpy(n->ids, ids, sizeof n->ids);
    n->parent = parent;
    n->n_children = 0;
    n->depth = 1;
    if (parent != PREFIX_ROOT) {
        n->depth = t->nodes[parent].depth + 1;
        t->nodes[parent].n_children++;
    }
    n->bucket = bucket_of(t, parent, ids);
    n->next = t->buckets[n->bucket];
    t->buckets[n->bucket] = block;
    t->n_nodes++;
}

void prefix_tree_remove(prefix_tree *t, int32_t block)
{
    node *n = &t->nodes[block];
    ASSERT(n->depth > 0 && n->n_children == 0);
    int32_t *at = &t->buckets[n->bucket];
    while (*at != block) at = &t->nodes[*at].next;
    *at = n->next;
    if (n->parent != PREFIX_ROOT) t->nodes[n->parent].n_children--;
    n->depth = 0;
    t->n_nodes--;
}

bool prefix_tree_has(const prefix_tree *t, int32_t block)
{
    return t->nodes[block].depth > 0;
}

int32_t prefix_tree_parent(const prefix_tree *t, int32_t block)
{
    return t->nodes[block].parent;
}

int prefix_tree_depth(const prefix_tree *t, int32_t block)
{
    return t->nodes[block].depth;
}

int prefix_tree_n_children(const prefix_tree *t, int32_t block)
{
    return t->nodes[block].n_children;
}

int prefix_tree_n_nodes(const prefix_tree *t)
{
    return t->n_nodes;
}
