#include "grammar/constraint.h"

#include "fixture_grammar.h"

/* Ids: the fixture's special tokens 0 (end) and 1, byte b at 2 + b, then these. */
enum { BYTE = 2, PIECE = 258 };
static const str pieces[] = {STR("</think>"),  STR("</"), STR("think"), STR(">\n"),   STR("\n\n"),
                             STR("<function"), STR("=f"), STR("a=1"),   STR("\n\n\n")};
enum {
    CLOSE = PIECE,
    OPEN_CUT,
    THINK,
    CUT_END,
    TWO_LINES,
    FUNCTION,
    EQUALS,
    HARMLESS,
    THREE_LINES
};
enum { N_PIECES = sizeof pieces / sizeof *pieces, V = PIECE + N_PIECES + 3, WORDS = (V + 31) / 32 };

static vocab *the_vocab;
static constraint_vocab *shared;
static grammar *the_grammar;

static void begin(void)
{
    err e = {0};
    int32_t eos = FIXTURE_EOS;
    the_vocab = fixture_vocab(pieces, N_PIECES);
    constraint_model m = {.v = the_vocab, .V = V, .eos = &eos, .n_eos = 1, .reasoning_end = CLOSE};
    CHECK_OK(constraint_vocab_open(&shared, &m, &e), &e);
    CHECK_OK(constraint_vocab_need_tokens(shared, &e), &e);
    CHECK_OK(grammar_open_regex(&the_grammar, STR("[ab]{2}"), &e), &e);
}

static void end(void)
{
    grammar_close(the_grammar);
    constraint_vocab_close(shared);
    vocab_close(the_vocab);
}

static constraint *open_wish(constraint_wish w)
{
    err e = {0};
    constraint *c = NULL;
    CHECK_OK(constraint_open(&c, shared, &w, 8, &e), &e);
    return c;
}

static bool allows(constraint *c, int32_t id)
{
    uint32_t row[WORDS];
    constraint_fill(c, NULL, 0, row);
    return row[id / 32] >> (id % 32) & 1;
}

static void take(constraint *c, int32_t id)
{
    assert_true(allows(c, id));
    assert_int_equal(constraint_take(c, &id, 1), 1);
}

static void refuse(constraint *c, int32_t id)
{
    assert_false(allows(c, id));
    assert_int_equal(constraint_take(c, &id, 1), 0);
}

TEST(the_grammar_begins_behind_reasoning_and_two_line_ends)
{
    begin();
    constraint *c = open_wish((constraint_wish){
        .grammar = the_grammar, .starts_in_reasoning = true, .reasoning_most = -1});
    assert_true(constraint_is_needed(c, 0));
    take(c, BYTE + 'x');
    take(c, BYTE + 'a');
    refuse(c, FIXTURE_EOS); /* an answer without an answer */
    assert_false(constraint_has_begun(c));
    take(c, CLOSE);
    assert_true(constraint_has_begun(c));
    refuse(c, THREE_LINES);
    refuse(c, BYTE + 'x');
    refuse(c, CLOSE);
    take(c, BYTE + '\n');
    refuse(c, TWO_LINES);
    take(c, BYTE + '\n');
    refuse(c, BYTE + '\n');
    take(c, BYTE + 'b');
    refuse(c, BYTE + '\n');
    take(c, BYTE + 'a');
    refuse(c, BYTE + 'a');
    take(c, FIXTURE_EOS);
    constraint_close(c);
    end();
}

TEST(reasoning_under_a_grammar_cannot_end_by_text_or_open_a_call)
{
    begin();
    constraint *c = open_wish((constraint_wish){
        .grammar = the_grammar, .starts_in_reasoning = true, .reasoning_most = -1});
    take(c, BYTE + '<'); /* "<</think" is a beginning too */
    take(c, OPEN_CUT);
    take(c, THINK);
    refuse(c, BYTE + '>');
    refuse(c, CUT_END);
    take(c, BYTE + ' ');
    take(c, CUT_END);
    take(c, FUNCTION);
    refuse(c, BYTE + '=');
    refuse(c, EQUALS);
    take(c, HARMLESS); /* "<functiona=1" */
    take(c, CLOSE);
    take(c, TWO_LINES);
    take(c, BYTE + 'a');
    constraint_close(c);
    end();
}

TEST(a_limit_leaves_only_the_end_of_reasoning)
{
    begin();
    constraint *c = open_wish((constraint_wish){.starts_in_reasoning = true, .reasoning_most = 3});
    assert_false(constraint_is_needed(c, 2));
    assert_true(constraint_is_needed(c, 3));
    take(c, BYTE + 'x');
    take(c, FIXTURE_EOS); /* nothing forbids it without a grammar */
    take(c, BYTE + 'x');
    assert_true(constraint_is_needed(c, 0));
    refuse(c, BYTE + 'x');
    refuse(c, FIXTURE_EOS);
    take(c, CLOSE);
    assert_false(constraint_is_needed(c, 8));
    take(c, CLOSE);
    constraint_close(c);

    /* Text that a reader takes for the end: no end is forced into the answer behind it. */
    c = open_wish((constraint_wish){.starts_in_reasoning = true, .reasoning_most = 4});
    take(c, OPEN_CUT);
    take(c, THINK);
    take(c, CUT_END);
    assert_false(constraint_is_needed(c, 8));
    constraint_close(c);
    end();
}

TEST(reasoning_that_goes_round_ends)
{
    begin();
    constraint *c = open_wish(
        (constraint_wish){.starts_in_reasoning = true, .reasoning_most = -1, .ends_loops = true});
    int n = 0;
    for (; n < 1000 && !constraint_is_needed(c, 0); n++) take(c, BYTE + 'a' + n % 2);
    assert_in_range(n, 100, 400);
    refuse(c, BYTE + 'a');
    take(c, CLOSE);
    assert_false(constraint_is_needed(c, 8));
    constraint_close(c);
    end();
}

TEST(rows_of_proposals_are_the_masks_of_taking_them_one_by_one)
{
    begin();
    uint64_t seed = test_seed();
    for (int round = 0; round < 200; round++) {
        constraint_wish w = {.grammar = the_grammar,
                             .starts_in_reasoning = true,
                             .reasoning_most = round % 3 ? round % 5 : -1,
                             .ends_loops = round & 1};
        constraint *c = open_wish(w), *stepped = open_wish(w);
        const int32_t likely[] = {CLOSE,       BYTE + 'a', BYTE + 'b', BYTE + '\n', TWO_LINES,
                                  FIXTURE_EOS, OPEN_CUT,   THINK,      BYTE + '>'};
        for (int cycle = 0; cycle < 6; cycle++) {
            int32_t ids[7];
            static uint32_t rows[8 * WORDS], row[WORDS];
            for (int i = 0; i < 7; i++)
                ids[i] = likely[test_random(&seed) % (sizeof likely / sizeof *likely)];
            constraint_fill(c, ids, 7, rows);
            int taken = 0;
            for (int i = 0; i <= 7; i++) {
                constraint_fill(stepped, NULL, 0, row);
                assert_memory_equal(rows + i * WORDS, row, sizeof row);
                if (i == 7 || constraint_take(stepped, &ids[i], 1) == 0) break;
                taken++;
            }
            assert_int_equal(constraint_take(c, ids, taken), taken);
        }
        constraint_close(c);
        constraint_close(stepped);
    }
    end();
}

TEST(proposals_that_cannot_follow_give_way_to_the_only_text_there_is)
{
    err e = {0};
    grammar *g = NULL;
    begin();
    CHECK_OK(grammar_open_regex(&g, STR("[xy](a=1){2}b"), &e), &e);
    constraint *c = open_wish(
        (constraint_wish){.grammar = g, .starts_in_reasoning = true, .reasoning_most = -1});
    int32_t in_reasoning[] = {FIXTURE_EOS, 5};
    assert_false(constraint_guess(c, in_reasoning, 2)); /* nothing is certain there */
    take(c, CLOSE);
    int32_t open[] = {BYTE + 'z', 7}, right[] = {BYTE + 'x', BYTE + 'a', BYTE + '='};
    assert_false(constraint_guess(c, open, 2)); /* x or y */
    assert_int_equal(open[0], BYTE + 'z');
    assert_false(constraint_guess(c, right, 3)); /* right as they are, if not the longest */
    int32_t wrong[] = {BYTE + 'y', 9, 9, 9, 9, 9, 9};
    assert_true(constraint_guess(c, wrong, 7));
    const int32_t want[] = {BYTE + 'y', HARMLESS, HARMLESS, BYTE + 'b', FIXTURE_EOS, 9, 9};
    assert_memory_equal(wrong, want, sizeof want);
    /* Nothing has moved. */
    refuse(c, BYTE + 'a');
    assert_int_equal(constraint_take(c, wrong, 5), 5);
    constraint_close(c);
    grammar_close(g);
    end();
}

TEST(what_a_model_lacks_is_refused)
{
    err e = {0};
    constraint *c = NULL;
    begin();
    constraint_vocab *bare = NULL;
    constraint_model m = {.v = the_vocab, .V = V, .reasoning_end = -1};
    CHECK_OK(constraint_vocab_open(&bare, &m, &e), &e);
    CHECK_OK(constraint_vocab_need_tokens(bare, &e), &e);
    constraint_wish w = {.starts_in_reasoning = true, .reasoning_most = 3};
    CHECK_STATUS(constraint_open(&c, bare, &w, 8, &e), ERR_UNSUPPORTED);
    w = (constraint_wish){.grammar = the_grammar, .reasoning_most = -1};
    CHECK_STATUS(constraint_open(&c, bare, &w, 8, &e), ERR_UNSUPPORTED);
    constraint_vocab_close(bare);
    end();
}

TEST(every_failed_allocation_is_reported_and_leaks_nothing)
{
    begin();
    int32_t eos = FIXTURE_EOS;
    constraint_model m = {.v = the_vocab, .V = V, .eos = &eos, .n_eos = 1, .reasoning_end = CLOSE};
    int64_t live = mem_count().n_live;
    bool is_done = false;
    for (int n = 1; !is_done; n++) {
        constraint_vocab *v = NULL;
        constraint *c = NULL;
        err e = {0};
        mem_fail_at(n);
        status s = constraint_vocab_open(&v, &m, &e);
        if (s == ERR_OK) s = constraint_vocab_need_tokens(v, &e);
        constraint_wish w = {
            .grammar = the_grammar, .starts_in_reasoning = true, .reasoning_most = 1};
        if (s == ERR_OK) s = constraint_open(&c, v, &w, 8, &e);
        mem_fail_at(0);
        if (s != ERR_OK) CHECK_STATUS(s, ERR_NOMEM);
        is_done = s == ERR_OK;
        constraint_close(c);
        constraint_vocab_close(v);
        assert_int_equal(mem_count().n_live, live);
        assert_true(n < 500);
    }
    end();
}

TEST(a_held_grammar_lives_until_its_last_owner_closes_it)
{
    err e = {0};
    int64_t live = mem_count().n_live;
    grammar *g = NULL;
    CHECK_OK(grammar_open_regex(&g, STR("a"), &e), &e);
    assert_ptr_equal(grammar_hold(g), g);
    grammar_close(g);
    assert_true(fixture_takes(g, "a"));
    grammar_close(g);
    assert_int_equal(mem_count().n_live, live);
}
