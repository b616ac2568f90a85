/* Grammars from texts, and small vocabularies. */
#ifndef RIPTIDE_TESTS_FIXTURE_GRAMMAR_H
#define RIPTIDE_TESTS_FIXTURE_GRAMMAR_H

#include "base/mem.h"
#include "grammar/grammar.h"
#include "support/test.h"
#include "token/vocab_priv.h"

/* The schema's text, quotes written as ' to keep tests readable. */
static inline str fixture_quotes(arena *a, const char *text)
{
    size_t n = strlen(text);
    char *copy = arena_copy(a, text, n);
    for (size_t i = 0; i < n; i++)
        if (copy[i] == '\'') copy[i] = '"';
    return (str){copy, n};
}

static inline status fixture_schema(grammar **g, const char *text, const grammar_json_options *opt,
                                    err *e)
{
    arena a;
    const json *schema = NULL;
    arena_init(&a, 0);
    status s = json_parse(&a, fixture_quotes(&a, text), "test", 128, 0, &schema, e);
    if (s == ERR_OK) s = grammar_open_schema(g, schema, opt, NULL, e);
    arena_fini(&a);
    return s;
}

/* Whether the grammar takes the text to its end. */
static inline bool fixture_takes(const grammar *g, const char *text)
{
    arena a;
    err e = {0};
    grammar_state *s = NULL;
    arena_init(&a, 0);
    CHECK_OK(grammar_state_open(&s, g, NULL, 1, &e), &e);
    bool ok = grammar_state_advance_bytes(s, fixture_quotes(&a, text)) && grammar_state_can_end(s);
    grammar_state_close(s);
    arena_fini(&a);
    return ok;
}

enum { FIXTURE_EOS = 0, FIXTURE_SPECIAL = 1 };

/* Ids 0 and 1 are special tokens, then all bytes, then the pieces. */
static inline vocab *fixture_vocab(const str *pieces, int n)
{
    err e = {0};
    vocab *v = NULL;
    int total = 2 + 256 + n;
    str *texts = mem_new_array((size_t)total, sizeof *texts);
    uint8_t *flags = mem_new((size_t)total);
    char *bytes = mem_new(256);
    texts[FIXTURE_EOS] = STR("<|end|>");
    texts[FIXTURE_SPECIAL] = STR("\"}");
    flags[0] = flags[1] = VOCAB_ADDED | VOCAB_SPECIAL;
    for (int b = 0; b < 256; b++) {
        bytes[b] = (char)b;
        texts[2 + b] = (str){bytes + b, 1};
        flags[2 + b] = VOCAB_ADDED;
    }
    for (int i = 0; i < n; i++) {
        texts[258 + i] = pieces[i];
        flags[258 + i] = VOCAB_ADDED;
    }
    CHECK_OK(vocab_open(&v, texts, flags, total, "test", &e), &e);
    mem_free(texts);
    mem_free(flags);
    mem_free(bytes);
    return v;
}

#endif
