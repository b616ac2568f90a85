/* Masks against trying every token, one by one. */
#include "fixture_grammar.h"
#include "grammar/schema_check.h"

enum { PIECES = 500, WORDS_MOST = 64, STEPS = 60 };

static bool bit(const uint32_t *words, int32_t id)
{
    return words[id / 32] >> (id % 32) & 1;
}

/* Pieces of texts that JSON is made of, so that many cross the borders of values. */
static vocab *random_vocab(arena *a, uint64_t *seed)
{
    static const char *const parts[] = {
        "{",     "}",    "[",    "]",        ",",        ":",        "'",   "'a':", "','",
        "':'",   "'}",   "a",    "b",        "c",        "ab",       "1",   "12",   "0",
        "-",     ".",    "e",    "true",     "tr",       "null",     "\\",  "\\n",  "\\u00",
        "4",     "\xc3", "\xa9", "\xc3\xa9", "\xf0\x9f", "\x98\x80", " ",   "\n",   "  ",
        "false", "x-",   "5",    "'b'",      "},{",      "],",       "'k'", "']}"};
    int n_parts = sizeof parts / sizeof *parts;
    static str pieces[PIECES];
    for (int i = 0; i < PIECES; i++) {
        buf b;
        buf_init(&b);
        int n = 1 + (int)(test_random(seed) % 4);
        for (int k = 0; k < n; k++)
            buf_put_str(&b, fixture_quotes(a, parts[test_random(seed) % (uint64_t)n_parts]));
        pieces[i] = (str){arena_copy(a, b.ptr, b.len), b.len};
        buf_fini(&b);
    }
    return fixture_vocab(pieces, PIECES);
}

/* The mask says of every token what advance says. */
static int check_mask(grammar_state *s, int V, uint32_t *words)
{
    int n = grammar_state_mask(s, words), counted = 0;
    for (int32_t id = 0; id < V; id++) {
        int steps = grammar_state_steps(s);
        bool fits = grammar_state_advance(s, id);
        if (fits) grammar_state_rollback(s, 1);
        assert_true(grammar_state_steps(s) == steps || grammar_state_steps(s) == steps - 1);
        if (fits != bit(words, id)) fail_msg("token %d: mask %d, advance %d", id, !fits, fits);
        counted += fits;
    }
    assert_int_equal(n, counted);
    return n;
}

/* A random allowed token; the end token seldom. */
static int32_t draw(const uint32_t *words, int n, int V, uint64_t *seed)
{
    for (;;) {
        int skip = (int)(test_random(seed) % (uint64_t)n);
        for (int32_t id = 0; id < V; id++) {
            if (!bit(words, id) || skip-- > 0) continue;
            if (id == FIXTURE_EOS && n > 1 && test_random(seed) % 8) break;
            return id;
        }
    }
}

static void walk(const grammar *g, grammar_tokens *t, int V, uint64_t *seed)
{
    err e = {0};
    grammar_state *s = NULL;
    uint32_t words[WORDS_MOST];
    CHECK_OK(grammar_state_open(&s, g, t, 4, &e), &e);
    for (int i = 0; i < STEPS; i++) {
        int n = check_mask(s, V, words);
        assert_true(n > 0); /* no dead ends */
        int32_t id = draw(words, n, V, seed);
        assert_true(grammar_state_advance(s, id));
        if (id == FIXTURE_EOS) {
            assert_int_equal(check_mask(s, V, words), 0);
            break;
        }
    }
    grammar_state_close(s);
}

static const char *const SCHEMAS[] = {
    "{'type':'object','properties':{'a':{'type':'string'},'b':{'type':'integer'},'ab':{'enum':['a',"
    "'b','ab']}},'required':['b']}",
    "{'type':'array','items':{'type':'string','maxLength':3,'minLength':1},'maxItems':5}",
    "{'type':'array','items':{'type':'string','pattern':'^[ab]{2,4}$'},'minItems':2}",
    "{'type':'array','items':{'type':'string','pattern':'^[ab]+$','maxLength':5,'minLength':2}}",
    "{'type':'array','items':{'type':'number','minimum':-12.5,'maximum':51}}",
    "{'type':'array','items':{'type':'integer','multipleOf':5}}",
    "true",
    "{'$ref':'#/$defs/n','$defs':{'n':{'type':'object','properties':{'k':{'type':'array','items':"
    "{'$ref':'#/$defs/n'}},'a':{'type':['null','boolean']}},'additionalProperties':false}}}",
    "{'anyOf':[{'type':'string','format':'date'},{'type':'array','items':{'const':'ab'}},{'type':"
    "'string','minLength':2,'maxLength':2}]}",
    "{'type':'object','additionalProperties':{'type':'integer'},'minProperties':2,"
    "'maxProperties':3}",
};

TEST(a_mask_is_what_advance_takes)
{
    uint64_t seed = test_seed();
    arena a;
    err e = {0};
    arena_init(&a, 0);
    for (size_t i = 0; i < sizeof SCHEMAS / sizeof *SCHEMAS; i++) {
        grammar *g = NULL;
        grammar_tokens *t = NULL;
        int32_t eos = FIXTURE_EOS;
        vocab *v = random_vocab(&a, &seed);
        int V = vocab_count(v) + 5;
        grammar_json_options opt = {(int)(i % 3), false};
        CHECK_OK(fixture_schema(&g, SCHEMAS[i], &opt, &e), &e);
        CHECK_OK(grammar_tokens_open(&t, v, V, &eos, 1, &e), &e);
        for (int k = 0; k < 3; k++) walk(g, t, V, &seed);
        grammar_tokens_close(t);
        grammar_close(g);
        vocab_close(v);
    }
    arena_fini(&a);
}

TEST(a_grammar_text_and_a_regex_have_masks_too)
{
    uint64_t seed = test_seed();
    arena a;
    err e = {0};
    int32_t eos = FIXTURE_EOS;
    arena_init(&a, 0);
    vocab *v = random_vocab(&a, &seed);
    int V = vocab_count(v);
    for (int i = 0; i < 3; i++) {
        grammar *g = NULL;
        grammar_tokens *t = NULL;
        if (i == 0)
            CHECK_OK(grammar_open_regex(&g, STR("(a|b)+[-.]\\d{1,9}(x|[^a-z\"])*"), &e), &e);
        if (i == 1)
            CHECK_OK(grammar_open_gbnf(&g,
                                       STR("root ::= list+\nlist ::= \"[\" (item (\",\" item)*)? "
                                           "\"]\"\nitem ::= [a-c]+ | [0-9]{1,3} | list"),
                                       &e),
                     &e);
        if (i == 2)
            CHECK_OK(grammar_open_gbnf(
                         &g, STR("root ::= ([ab]* [bc]*){2,4} r\nr ::= \"1\" r | \"x\""), &e),
                     &e);
        CHECK_OK(grammar_tokens_open(&t, v, V, &eos, 1, &e), &e);
        for (int k = 0; k < 3; k++) walk(g, t, V, &seed);
        grammar_tokens_close(t);
        grammar_close(g);
    }
    vocab_close(v);
    arena_fini(&a);
}

/* Identity: what a mask is does not depend on what was asked before, of this grammar or others. */
TEST(masks_do_not_depend_on_caches)
{
    uint64_t seed = test_seed();
    arena a;
    err e = {0};
    int32_t eos = FIXTURE_EOS;
    uint32_t used[WORDS_MOST], fresh[WORDS_MOST];
    grammar *g[3] = {NULL};
    grammar_tokens *t = NULL;
    arena_init(&a, 0);
    vocab *v = random_vocab(&a, &seed);
    int V = vocab_count(v);
    CHECK_OK(grammar_tokens_open(&t, v, V, &eos, 1, &e), &e);
    for (int i = 0; i < 3; i++) CHECK_OK(fixture_schema(&g[i], SCHEMAS[i + 1], NULL, &e), &e);
    for (int round = 0; round < 6; round++) {
        grammar_state *s = NULL;
        CHECK_OK(grammar_state_open(&s, g[round % 3], t, 2, &e), &e);
        for (int i = 0; i < 12; i++) {
            grammar_tokens *own = NULL;
            grammar_state *other = NULL;
            int n = grammar_state_mask(s, used);
            CHECK_OK(grammar_tokens_open(&own, v, V, &eos, 1, &e), &e);
            CHECK_OK(grammar_state_fork(&other, s, &e), &e);
            grammar_state_use_tokens(other, own);
            assert_int_equal(grammar_state_mask(other, fresh), n);
            assert_memory_equal(used, fresh, (size_t)((V + 31) / 32) * 4);
            grammar_state_close(other);
            grammar_tokens_close(own);
            int32_t id = draw(used, n, V, &seed);
            if (id == FIXTURE_EOS) break;
            assert_true(grammar_state_advance(s, id));
        }
        grammar_state_close(s);
    }
    for (int i = 0; i < 3; i++) grammar_close(g[i]);
    grammar_tokens_close(t);
    vocab_close(v);
    arena_fini(&a);
}

TEST(a_mask_allocates_nothing)
{
    uint64_t seed = 7;
    arena a;
    err e = {0};
    int32_t eos = FIXTURE_EOS;
    uint32_t words[WORDS_MOST];
    grammar *g = NULL;
    grammar_tokens *t = NULL;
    grammar_state *s = NULL;
    arena_init(&a, 0);
    vocab *v = random_vocab(&a, &seed);
    CHECK_OK(grammar_tokens_open(&t, v, vocab_count(v), &eos, 1, &e), &e);
    CHECK_OK(fixture_schema(&g, SCHEMAS[0], NULL, &e), &e);
    CHECK_OK(grammar_state_open(&s, g, t, 2, &e), &e);
    mem_guard_begin("mask");
    for (int i = 0; i < 20; i++) {
        int n = grammar_state_mask(s, words);
        if (!grammar_state_advance(s, draw(words, n, vocab_count(v), &seed))) break;
        if (grammar_state_can_end(s)) break;
    }
    mem_guard_end();
    grammar_state_close(s);
    grammar_close(g);
    grammar_tokens_close(t);
    vocab_close(v);
    arena_fini(&a);
}

TEST(opening_a_vocabulary_fails_cleanly)
{
    err e = {0};
    int32_t eos = FIXTURE_EOS, wrong = 1000000;
    grammar_tokens *t = NULL;
    str piece = STR("abc");
    vocab *v = fixture_vocab(&piece, 1);
    CHECK_STATUS(grammar_tokens_open(&t, v, 0, &eos, 1, &e), ERR_INVALID);
    CHECK_STATUS(grammar_tokens_open(&t, v, 100, &wrong, 1, &e), ERR_INVALID);
    CHECK_STATUS(grammar_tokens_open(&t, v, 100, &eos, -1, &e), ERR_INVALID);
    int64_t before = mem_count().n_live;
    for (int64_t n = 1;; n++) {
        mem_fail_at(n);
        status s = grammar_tokens_open(&t, v, vocab_count(v), &eos, 1, &e);
        mem_fail_at(0);
        if (s == ERR_OK) {
            assert_true(n > 10);
            grammar_tokens_close(t);
            break;
        }
        CHECK_STATUS(s, ERR_NOMEM);
        assert_null(t);
        assert_int_equal(mem_count().n_live, before);
    }
    assert_int_equal(mem_count().n_live, before);
    vocab_close(v);
}
