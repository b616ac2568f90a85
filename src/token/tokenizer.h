/* tokenizer: text to token ids, equal to those of Hugging Face's `tokenizers`.
 *
 * Byte-level BPE as tokenizer.json describes it: added tokens are cut out first (leftmost, then
 * longest), the text between them is normalised (NFC), cut into words and merged. What a file asks
 * for and this cannot do is refused at open; nothing is guessed.
 *
 * Text that is not well-formed UTF-8 is encoded as if each ill-formed part were U+FFFD.
 * No tokens are put before or behind the text: chat templates do that.
 * Thread: any number may encode with one tokenizer at the same time. Each call borrows a working
 * set from a pool inside (made on demand, kept for the next call, given back by close). */
#ifndef RIPTIDE_TOKEN_TOKENIZER_H
#define RIPTIDE_TOKEN_TOKENIZER_H

#include "base/err.h"
#include "token/token_ids.h"
#include "token/vocab.h"

typedef struct tokenizer tokenizer;

/* Open from the text of a tokenizer.json, which is not needed afterwards.
 *
 * name     for err.where: the file's path
 * Returns  FORMAT, UNSUPPORTED (with err.pos in the text where there is one place), NOMEM */
status tokenizer_open(tokenizer **t, str json_text, const char *name, err *e);

/* What a GGUF file holds. Pieces of type 1 and merges are in the byte alphabet, of types 3 and 4
 * plain text. */
typedef struct {
    const str *pieces;    /* [n_pieces] */
    const int32_t *types; /* [n_pieces] 1 normal, 3 control, 4 user defined, 5 unused (a hole) */
    int n_pieces;
    const str *merges; /* [n_merges] "left right" */
    int n_merges;
    str pretokenizer; /* "qwen2" or "qwen35" */
} tokenizer_pieces;

/* Open from borrowed arrays, which are not needed afterwards. Text is normalised (NFC). */
status tokenizer_open_pieces(tokenizer **t, const tokenizer_pieces *p, const char *name, err *e);

void tokenizer_close(tokenizer *t); /* NULL is fine; no call may be running */

/* Part of a text. Added tokens are recognised only where `specials` is set: a template's own text
 * has it, the content of a message does not, so that "<|im_end|>" in a message stays text. */
typedef struct {
    str text;
    bool specials;
} tokenizer_segment;

/* Longest text of one call, in bytes. */
enum { TOKENIZER_TEXT_CAP = 1 << 28 };

/* Append the tokens of the segments, taken as one text: words and merges run across the borders,
 * an added token only lies in neighbouring segments that all have `specials` set.
 *
 * max_tokens  stop when there are more; 0 for no limit
 * ids         in and out; as before on failure
 * Returns     LIMIT when there are more tokens, or bytes than TOKENIZER_TEXT_CAP, or when the
 *             pattern of the file takes too long on this text; NOMEM
 * Cost        O(n log n) at worst; room of about 1 time the text, 32 times its longest word */
status tokenizer_encode_segments(const tokenizer *t, const tokenizer_segment *segments, int n,
                                 int64_t max_tokens, token_ids *ids, err *e);

/* The same for one segment. */
status tokenizer_encode(const tokenizer *t, str text, bool specials, int64_t max_tokens,
                        token_ids *ids, err *e);

/* The id of the added token with exactly this text, or -1. */
int32_t tokenizer_find_added(const tokenizer *t, str content);

/* Ids, their bytes, which are special. Borrows t. */
const vocab *tokenizer_vocab(const tokenizer *t);

#endif
