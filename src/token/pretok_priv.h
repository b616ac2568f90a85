/* pretok: cutting text into words, which the BPE model then never merges across.
 *
 * Here are the patterns of the Qwen family, coded by hand; any other pattern goes through
 * split_regex. Both give the same words (a test compares them). Thread: any. */
#ifndef RIPTIDE_TOKEN_PRETOK_PRIV_H
#define RIPTIDE_TOKEN_PRETOK_PRIV_H

#include "base/str.h"

typedef enum {
    PRETOK_REGEX, /* not known here */
    PRETOK_QWEN2, /* Qwen 2, 2.5, 3: marks count as punctuation */
    PRETOK_QWEN35 /* Qwen 3.5 and later: marks count as letters */
} pretok_kind;

/* Which known pattern this text is, character for character. */
pretok_kind pretok_find(str pattern);

/* The pattern itself; empty for PRETOK_REGEX. */
str pretok_pattern(pretok_kind kind);

/* GPT-2's pattern, which a ByteLevel pre-tokeniser uses by itself. */
extern const char pretok_gpt2[];

/* Where the word that begins at text[pos] ends; kind is not PRETOK_REGEX, pos < text.len, text
 * well formed. Every byte belongs to some word. Looks at no byte outside text. */
size_t pretok_next(pretok_kind kind, str text, size_t pos);

#endif
