/* token_trie: the bytes of all tokens that may be said, as a tree in preorder.
 *
 * Node i stands for a run of bytes: that of its parent and byte[i]. Its subtree is i .. end[i] - 1,
 * so the next sibling is end[i]. Special tokens, holes and empty tokens are not in it.
 * Thread: any; never changes. */
#ifndef RIPTIDE_GRAMMAR_TOKEN_TRIE_PRIV_H
#define RIPTIDE_GRAMMAR_TOKEN_TRIE_PRIV_H

#include "base/err.h"
#include "token/vocab.h"

typedef struct {
    int n_nodes, n_ids, longest; /* longest: bytes, the most nodes on a path */
    uint8_t *byte;               /* [n_nodes] */
    uint32_t *end;               /* [n_nodes] */
    uint32_t *first;             /* [n_nodes + 1] tokens of node i: ids[first[i] .. first[i + 1]] */
    int32_t *ids;                /* [n_ids] */
} token_trie;

/* Ids from V on and those of `without` are left out. Owns its arrays: token_trie_close. */
status token_trie_open(token_trie *t, const vocab *v, int V, const int32_t *without, int n_without,
                       err *e);
void token_trie_close(token_trie *t);

#endif
