/* prefix_tree: which KV blocks hold which tokens: a tree whose nodes are blocks of 64 tokens.
 *
 * A node is named by its block; its path from the root spells a prompt. Equality of the parent
 * and of all 64 tokens decides a match, a hash only chooses where to look. Which states hang on a
 * node and what may be evicted is decided in reuse.h. One tree serves one namespace: an engine's
 * model, backend, instruction set and formats.
 *
 * Invariant: a node's parent is the root or a node; only a node without children is removed.
 * Thread: the engine thread only; there is no lock. After open nothing allocates. */
#ifndef RIPTIDE_CACHE_PREFIX_TREE_H
#define RIPTIDE_CACHE_PREFIX_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { PREFIX_BLOCK = 64, PREFIX_ROOT = -1 };

typedef struct prefix_tree prefix_tree;

/* Room for n_blocks nodes, every block one. */
status prefix_tree_open(prefix_tree **t, int n_blocks, err *e);
void prefix_tree_close(prefix_tree *t); /* NULL is fine */

/* The child of parent (or PREFIX_ROOT) with exactly these tokens, or -1.
 *
 * ids  [PREFIX_BLOCK] */
int32_t prefix_tree_find(const prefix_tree *t, int32_t parent, const int32_t *ids);

/* Make block, which is no node yet, a child of parent; there is none with these tokens. */
void prefix_tree_add(prefix_tree *t, int32_t parent, const int32_t *ids, int32_t block);

/* Forget a node without children. */
void prefix_tree_remove(prefix_tree *t, int32_t block);

bool prefix_tree_has(const prefix_tree *t, int32_t block);
int32_t prefix_tree_parent(const prefix_tree *t, int32_t block);
int prefix_tree_depth(const prefix_tree *t, int32_t block); /* blocks from the root, >= 1 */
int prefix_tree_n_children(const prefix_tree *t, int32_t block);
int prefix_tree_n_nodes(const prefix_tree *t);

#endif
