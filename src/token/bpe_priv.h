/* bpe: merging the bytes of a word into tokens.
 *
 * A word starts as one token a byte. Of all neighbours that have a merge, the one of lowest rank
 * (leftmost on a tie) is merged, until none has. O(n log n) in the bytes of a word.
 * Thread: a bpe never changes; a bpe_work belongs to one call at a time. */
#ifndef RIPTIDE_TOKEN_BPE_PRIV_H
#define RIPTIDE_TOKEN_BPE_PRIV_H

#include "base/err.h"
#include "token/token_ids.h"
#include "token/vocab_priv.h"

typedef struct bpe bpe;

/* Two pieces in the byte alphabet; rank is the place in the list, a repeated pair takes its last.
 */
typedef struct {
    str left, right;
} bpe_merge;

/* v              borrowed for the life of *b
 * merges         [n] borrowed during the call
 * keeps_pieces   a word that is a piece as a whole is that piece, whatever the merges say
 * Returns        FORMAT when a merge names no piece, or the vocabulary lacks a byte that
 *                well-formed UTF-8 can contain */
status bpe_open(bpe **b, const vocab *v, const bpe_merge *merges, int n, bool keeps_pieces,
                const char *name, err *e);
void bpe_close(bpe *b);

/* Room for merging long words; grows to the longest and is used again. */
typedef struct {
    int64_t cap;     /* bytes of the longest word it has room for */
    int32_t *symbol; /* [cap] token that starts at this byte, or -1 inside one */
    int32_t *next;   /* [cap] where the token after it starts */
    int32_t *prev;   /* [cap] where the token before it starts */
    uint32_t *rank;  /* [cap] of the merge with the token after it, or NO_MERGE */
    uint64_t *heap;  /* [2 * cap] rank << 32 | position, least first */
} bpe_work;
void bpe_work_fini(bpe_work *w); /* leaves zeros */

/* Append the tokens of a word of 1 to 2^30 bytes. Returns NOMEM, or OK; `out` is as before on
 * failure. */
status bpe_encode(const bpe *b, bpe_work *w, str word, token_ids *out);

#endif
