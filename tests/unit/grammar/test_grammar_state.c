/* One reply in progress: steps, rollback, forks, limits. */
#include "fixture_grammar.h"
#include "support/grammar_walk.h"

static grammar *open_any(void)
{
    err e = {0};
    grammar *g = NULL;
    grammar_json_options opt = {0, false};
    CHECK_OK(fixture_schema(&g, "{'type':'array'}", &opt, &e), &e);
    return g;
}

static bool feed(grammar_state *s, const char *text)
{
    return grammar_state_advance_bytes(s, str_from(text));
}

TEST(a_refused_step_changes_nothing)
{
    err e = {0};
    grammar *g = open_any();
    grammar_state *s = NULL;
    CHECK_OK(grammar_state_open(&s, g, NULL, 4, &e), &e);
    assert_true(feed(s, "[1,"));
    assert_false(feed(s, "2,]"));
    assert_false(feed(s, "]"));
    assert_int_equal(grammar_state_steps(s), 1);
    assert_true(feed(s, "2]"));
    assert_true(grammar_state_can_end(s));
    assert_false(feed(s, " "));
    grammar_state_close(s);
    grammar_close(g);
}

TEST(rolling_back_returns_to_the_same_place)
{
    err e = {0};
    grammar *g = open_any();
    grammar_state *s = NULL;
    CHECK_OK(grammar_state_open(&s, g, NULL, 8, &e), &e);
    assert_true(feed(s, "[[\"a"));
    for (int round = 0; round < 3000; round++) { /* long enough for frames to be compacted */
        assert_true(feed(s, "\",[[{\"k\":[1"));
        assert_true(feed(s, "],\"m\":\"\xc3"));
        assert_false(feed(s, "\""));
        assert_true(feed(s, "\xa9\"}"));
        grammar_state_rollback(s, 3);
        if (round % 100 == 0) assert_true(feed(s, "x"));
    }
    assert_true(feed(s, "\"]]"));
    assert_true(grammar_state_can_end(s));
    grammar_state_close(s);
    grammar_close(g);
}

TEST(the_oldest_steps_are_forgotten_first)
{
    err e = {0};
    grammar *g = open_any();
    grammar_state *s = NULL;
    CHECK_OK(grammar_state_open(&s, g, NULL, 3, &e), &e);
    assert_true(feed(s, "[1"));
    for (int i = 0; i < 20; i++) assert_true(feed(s, ",1"));
    assert_true(grammar_state_steps(s) >= 3);
    grammar_state_rollback(s, 3);
    assert_true(feed(s, "]"));
    grammar_state_close(s);
    grammar_close(g);
}

TEST(a_fork_goes_its_own_way)
{
    err e = {0};
    grammar *g = open_any();
    grammar_state *s = NULL, *other = NULL;
    CHECK_OK(grammar_state_open(&s, g, NULL, 3, &e), &e);
    assert_true(feed(s, "[{\"a\":["));
    CHECK_OK(grammar_state_fork(&other, s, &e), &e);
    assert_true(feed(s, "1]}]"));
    assert_true(feed(other, "\"x\"]"));
    assert_true(grammar_state_can_end(s));
    assert_false(grammar_state_can_end(other));
    assert_true(feed(other, "}]"));
    assert_true(grammar_state_can_end(other));
    grammar_state_close(s);
    grammar_state_close(other);
    grammar_close(g);
}

TEST(nesting_has_a_limit_and_what_is_open_can_be_closed)
{
    err e = {0};
    grammar *g = open_any();
    grammar_state *s = NULL;
    int depth = 0;
    CHECK_OK(grammar_state_open(&s, g, NULL, 2, &e), &e);
    while (depth < 3000 && feed(s, "[")) depth++;
    assert_in_range(depth, 200, 2999);
    for (int i = 0; i < depth; i++) assert_true(feed(s, "]"));
    assert_true(grammar_state_can_end(s));
    grammar_state_close(s);
    grammar_close(g);
}

TEST(end_tokens_fit_only_at_the_end_and_nothing_after_them)
{
    err e = {0};
    int32_t eos[2] = {FIXTURE_EOS, 258};
    str piece = STR("[]");
    vocab *v = fixture_vocab(&piece, 1);
    grammar *g = open_any();
    grammar_tokens *t = NULL;
    grammar_state *s = NULL;
    uint32_t words[16];
    CHECK_OK(grammar_tokens_open(&t, v, vocab_count(v), eos, 2, &e), &e);
    CHECK_OK(grammar_state_open(&s, g, t, 4, &e), &e);
    assert_false(grammar_state_advance(s, FIXTURE_EOS));
    assert_false(grammar_state_advance(s, 258)); /* ordinary bytes, but an end token here */
    assert_true(grammar_state_advance(s, 2 + '['));
    assert_false(grammar_state_advance(s, FIXTURE_SPECIAL));
    assert_false(grammar_state_advance(s, 100000));
    assert_false(grammar_state_advance(s, -1));
    assert_true(grammar_state_advance(s, 2 + ']'));
    assert_int_equal(grammar_state_mask(s, words), 2);
    assert_true(grammar_state_advance(s, 258));
    assert_int_equal(grammar_state_mask(s, words), 0);
    assert_false(grammar_state_advance(s, FIXTURE_EOS));
    assert_false(grammar_state_can_end(s));
    grammar_state_rollback(s, 1);
    assert_true(grammar_state_can_end(s));
    grammar_state_close(s);
    grammar_tokens_close(t);
    grammar_close(g);
    vocab_close(v);
}

TEST(opening_and_forking_fail_cleanly)
{
    err e = {0};
    grammar *g = open_any();
    grammar_state *s = NULL;
    CHECK_STATUS(grammar_state_open(&s, g, NULL, -1, &e), ERR_INVALID);
    int64_t before = mem_count().n_live;
    for (int64_t n = 1;; n++) {
        mem_fail_at(n);
        status st = grammar_state_open(&s, g, NULL, 2, &e);
        mem_fail_at(0);
        if (st == ERR_OK) {
            assert_true(n > 5);
            break;
        }
        CHECK_STATUS(st, ERR_NOMEM);
        assert_null(s);
        assert_int_equal(mem_count().n_live, before);
    }
    grammar_state_close(s);
    assert_int_equal(mem_count().n_live, before);
    grammar_close(g);
}

static uint64_t pick(void *ctx, uint64_t below)
{
    return test_random(ctx) % below;
}

TEST(no_state_is_a_dead_end)
{
    static const char *const schemas[] = {
        "{'type':'string','pattern':'^(ab|ba){2,3}c?$','minLength':5}",
        "{'type':'number','exclusiveMinimum':0.99,'maximum':1}",
        ("{'type':'object','properties':{'a':{'type':'string','format':'ipv6'},'b':{'type':"
         "'integer','multipleOf':17,'minimum':30,'maximum':60}},'required':['b'],"
         "'maxProperties':2}"),
        "{'type':'array','items':{'type':'string','format':'date-time','maxLength':22}}",
    };
    uint64_t seed = test_seed();
    err e = {0};
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        grammar *g = NULL;
        CHECK_OK(fixture_schema(&g, schemas[i], NULL, &e), &e);
        for (int k = 0; k < 20; k++) {
            buf text;
            buf_init(&text);
            grammar_walk(g, 60, pick, &seed, &text); /* asserts inside */
            buf_fini(&text);
        }
        grammar_close(g);
    }
}
