/* added: the tokens that are matched in text as a whole, before normalising or splitting.
 *
 * Leftmost match first, the longest of those that begin there. Thread: any; never changes. */
#ifndef RIPTIDE_TOKEN_ADDED_PRIV_H
#define RIPTIDE_TOKEN_ADDED_PRIV_H

#include "base/err.h"
#include "base/str.h"

typedef struct {
    str content; /* well-formed UTF-8, not empty */
    int32_t id;
    bool single_word;    /* only where no word character stands beside it */
    bool lstrip, rstrip; /* takes the white space before, after it with it */
    bool normalized;     /* matched in normalised text */
    bool special;
} added_token;

/* A set of added tokens as a tree of bytes. Siblings are a list; node 0 is the root. */
typedef struct {
    int32_t child, sibling; /* node, 0 for none */
    int32_t token;          /* index that ends here, or -1 */
    unsigned char byte;
} added_node;

typedef struct {
    added_node *nodes;
    int n_nodes;
    int32_t first[256]; /* child of the root by byte, 0 for none */
    const added_token *tokens;
} added_set;

/* A set of tokens[i] under the text patterns[i], for all i with a pattern that is not empty; of
 * equal patterns the first special one, else the first. Borrows tokens for the life of the set,
 * patterns during the call. Returns  NOMEM */
status added_set_init(added_set *s, const added_token *tokens, const str *patterns, int n, err *e);
void added_set_fini(added_set *s); /* leaves zeros; twice is harmless */

/* The token whose pattern is exactly this, or NULL. */
const added_token *added_set_get(const added_set *s, str pattern);

/* The first match within text[from, to), the longest there; NULL when there is none. */
const added_token *added_set_match(const added_set *s, str text, size_t from, size_t to,
                                   size_t *start, size_t *stop);

/* Where the match [*start, *stop) in `text` really begins and ends once the token's own rules are
 * applied; `from` is the end of the token before. False when a word character beside it forbids
 * it. */
bool added_token_fit(const added_token *t, str text, size_t from, size_t *start, size_t *stop);

#endif
