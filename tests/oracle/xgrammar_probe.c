/* links: grammar */
/* xgrammar_probe TOKENIZER V EOS: masks of a vocabulary, line by line; xgrammar.mjs asks.
 *
 *     s SCHEMA    compile, compact JSON; a reply begins    -> a mask, or STATUS WHERE: WORDS
 *     b           the reply begins again                   -> a mask
 *     a ID        take a token                             -> a mask, or "refused"
 *     w ID ...    how many bytes of each token fit here    -> numbers; nothing is taken
 *     t TEXT      whether the reply may begin with TEXT    -> 1 or 0; nothing is taken
 *
 * A mask is (V + 31) / 32 words of 8 hexadecimal digits each, without spaces. */
#include <stdio.h>
#include <stdlib.h>

#include "base/asserts.h"
#include "base/file.h"
#include "grammar/grammar.h"
#include "token/tokenizer.h"

enum { HISTORY = 64 };

typedef struct {
    int V;
    uint32_t *words;
    const vocab *v;
    grammar_tokens *tokens;
    grammar *g;
    grammar_state *s;
} probe;

static void put_mask(probe *p)
{
    grammar_state_mask(p->s, p->words);
    for (int i = 0; i < (p->V + 31) / 32; i++) printf("%08x", p->words[i]);
    printf("\n");
}

static void begin(probe *p)
{
    grammar_state_close(p->s);
    p->s = NULL;
    ASSERT(grammar_state_open(&p->s, p->g, p->tokens, HISTORY, NULL) == ERR_OK);
    put_mask(p);
}

static void compile(probe *p, str text)
{
    arena a;
    err e = {0};
    const json *schema = NULL;
    const grammar_json_options compact = {0, false};
    grammar_state_close(p->s);
    grammar_close(p->g);
    p->s = NULL;
    p->g = NULL;
    arena_init(&a, 0);
    status s = json_parse(&a, text, "schema", 200, 0, &schema, &e);
    if (s == ERR_OK) s = grammar_open_schema(&p->g, schema, &compact, NULL, &e);
    arena_fini(&a);
    if (s == ERR_OK)
        begin(p);
    else
        printf("%s %s: %s\n", status_name(s), e.where, e.msg);
}

/* Byte by byte, so that it does not lean on the tree that masks are made with. */
static int bytes_that_fit(probe *p, int32_t id)
{
    str bytes = vocab_bytes(p->v, id);
    int n = 0;
    ASSERT(bytes.len <= HISTORY);
    while (n < (int)bytes.len && grammar_state_advance_bytes(p->s, (str){bytes.ptr + n, 1})) n++;
    grammar_state_rollback(p->s, n);
    return n;
}

static void put_bytes_that_fit(probe *p, const char *ids)
{
    char *end;
    for (long id; id = strtol(ids, &end, 10), end != ids; ids = end)
        printf("%d ", bytes_that_fit(p, (int32_t)id));
    printf("\n");
}

static bool may_begin(const probe *p, str text)
{
    grammar_state *s = NULL;
    ASSERT(grammar_state_open(&s, p->g, NULL, 1, NULL) == ERR_OK);
    bool fits = grammar_state_advance_bytes(s, text);
    grammar_state_close(s);
    return fits;
}

static void answer(probe *p, str line)
{
    char what = line.ptr[0];
    str rest = {line.ptr + 2, line.len - 2};
    if (what == 's') {
        compile(p, rest);
        return;
    }
    ASSERT(p->s);
    if (what == 'b') begin(p);
    if (what == 't') printf("%d\n", may_begin(p, rest));
    if (what == 'w') put_bytes_that_fit(p, rest.ptr);
    if (what != 'a') return;
    if (grammar_state_advance(p->s, (int32_t)strtol(rest.ptr, NULL, 10)))
        put_mask(p);
    else
        printf("refused\n");
}

int main(int argc, char **argv)
{
    arena a;
    str text;
    err e;
    tokenizer *t = NULL;
    probe p = {0};
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    ASSERT(argc == 4);
    arena_init(&a, 0);
    ASSERT(file_read(&a, argv[1], 1 << 30, &text, &e) == ERR_OK);
    ASSERT(tokenizer_open(&t, text, argv[1], &e) == ERR_OK);
    p.v = tokenizer_vocab(t);
    p.V = (int)strtol(argv[2], NULL, 10);
    int32_t eos = (int32_t)strtol(argv[3], NULL, 10);
    p.words = arena_new_array(&a, (size_t)(p.V + 31) / 32, sizeof *p.words);
    ASSERT(p.words && grammar_tokens_open(&p.tokens, p.v, p.V, &eos, 1, &e) == ERR_OK);
    while ((n = getline(&line, &cap, stdin)) > 0) {
        if (line[n - 1] == '\n') line[--n] = 0;
        ASSERT(n >= 2);
        answer(&p, (str){line, (size_t)n});
        fflush(stdout);
    }
    free(line);
    grammar_state_close(p.s);
    grammar_close(p.g);
    grammar_tokens_close(p.tokens);
    tokenizer_close(t);
    arena_fini(&a);
    return 0;
}
