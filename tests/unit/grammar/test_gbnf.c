/* Grammar texts: what they match, and where they are refused. */
#include "fixture_grammar.h"

typedef struct {
    const char *text;
    const char *takes[6];
    const char *refuses[6];
} gbnf_case;

static bool takes(const grammar *g, const char *text)
{
    err e = {0};
    grammar_state *s = NULL;
    CHECK_OK(grammar_state_open(&s, g, NULL, 1, &e), &e);
    bool took = grammar_state_advance_bytes(s, str_from(text)) && grammar_state_can_end(s);
    grammar_state_close(s);
    return took;
}

TEST(rules_match_whole_texts)
{
    static const gbnf_case cases[] = {
        {"root ::= \"a\" b* # comment\nb ::= [x-z] | \"q\"{2,3}\n",
         {"a", "axqqz", "aqqqqq"},
         {"", "aq", "b"}},
        {"s ::= \"x\"\nroot ::= s s", {"xx"}, {"x"}},
        {"first ::= second\nsecond ::= \"only\"", {"only"}, {"onl"}},
        {"root ::= obj\nobj ::= \"{\" (pair (\",\" pair)*)? \"}\"\npair ::= str \":\" val\n"
         "val ::= obj | str | [0-9]+\nstr ::= \"\\\"\" [^\"\\\\]* \"\\\"\"",
         {"{}", "{\"a\":{\"b\":12},\"c\":\"\xc3\xa9\"}"},
         {"{", "{\"a\":}", "{\"a\":1,}"}},
        {"root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(", "())", ")("}},
        {"root ::= [^a-z\\]\\n] . \"\\x41\\u00e9\\U0001F600\"",
         {"A\nA\xc3\xa9\xf0\x9f\x98\x80"},
         {"a.A\xc3\xa9\xf0\x9f\x98\x80"}},
        {"root ::= (\"a\" |\n \"b\" |\n\n \"c\"\n)+ \".\"\n\n", {"abc.", "c."}, {"."}},
        {"root ::= item{2,}\nitem ::= \"-\" list\nlist ::= \"[\" list? \"]\"",
         {"-[]-[[]]"},
         {"-[]", "-[[]-[]"}},
        {"root ::= (\"a\" r){2,4}\nr ::= \"(\" r \")\" | \"x\"",
         {"axax", "a(x)axaxax"},
         {"ax", "axaxaxaxax"}},
        {"root ::= ([a-c]? r?)* \".\"\nr ::= \"<\" r \">\" | \"!\"", {".", "a<!>b!."}, {"<."}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err e = {0};
        grammar *g = NULL;
        CHECK_OK(grammar_open_gbnf(&g, str_from(cases[i].text), &e), &e);
        for (int k = 0; k < 6 && cases[i].takes[k]; k++)
            if (!takes(g, cases[i].takes[k]))
                fail_msg("%s refuses '%s'", cases[i].text, cases[i].takes[k]);
        for (int k = 0; k < 6 && cases[i].refuses[k]; k++)
            if (takes(g, cases[i].refuses[k]))
                fail_msg("%s takes '%s'", cases[i].text, cases[i].refuses[k]);
        grammar_close(g);
    }
}

TEST(what_is_refused_is_named_with_its_byte)
{
    static const struct {
        const char *text, *status;
        int pos;
    } cases[] = {
        {"", "FORMAT", 0},
        {"root", "FORMAT", 0},
        {"root ::= b", "FORMAT", 9},
        {"root ::= \"a", "FORMAT", 9},
        {"root ::= [a", "FORMAT", 9},
        {"root ::= (\"a\"", "FORMAT", 9},
        {"root ::= \"a\")", "FORMAT", 12},
        {"root ::= \"\\q\"", "FORMAT", 10},
        {"root ::= \"a\"{3,2}", "FORMAT", 12},
        {"root ::= \"a\"{x}", "FORMAT", 12},
        {"root ::= \"a\"\nroot ::= \"b\"", "FORMAT", 13},
        {"root ::= [z-a]", "FORMAT", 10},
        {"root ::= %", "FORMAT", 9},
        {"root ::= \"\\ud800\"", "FORMAT", 10},
        {"root ::= root \"x\" | \"y\"", "UNSUPPORTED", -1},
        {"root ::= a root | \"y\"\na ::= \"x\"?", "UNSUPPORTED", -1},
        {"root ::= \"x\" root", "INVALID", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err e = {0};
        grammar *g = NULL;
        status s = grammar_open_gbnf(&g, str_from(cases[i].text), &e);
        if (strcmp(status_name(s), cases[i].status) != 0 || e.pos != cases[i].pos)
            fail_msg("%s: %s at %ld: %s", cases[i].text, status_name(s), e.pos, e.msg);
        assert_string_equal(e.where, "grammar");
    }
}

/* users.md H1 */
TEST(sixty_thousand_groups_are_a_limit)
{
    err e = {0};
    grammar *g = NULL;
    buf b;
    buf_init(&b);
    buf_put_c(&b, "root ::= ");
    for (int i = 0; i < 60000; i++) buf_put_byte(&b, '(');
    CHECK_STATUS(grammar_open_gbnf(&g, buf_str(&b), &e), ERR_LIMIT);
    buf_fini(&b);
}

TEST(every_failed_allocation_is_reported_and_nothing_leaks)
{
    static const char text[] = "root ::= a+ [x-z]{2} | \"end\" root2\na ::= \"q\" | root2\n"
                               "root2 ::= \"(\" root2 \")\" | [0-9]";
    err e = {0};
    int64_t before = mem_count().n_live;
    for (int64_t n = 1;; n++) {
        grammar *g = NULL;
        mem_fail_at(n);
        status s = grammar_open_gbnf(&g, str_from(text), &e);
        mem_fail_at(0);
        grammar_close(g);
        assert_int_equal(mem_count().n_live, before);
        if (s == ERR_OK) {
            assert_true(n > 10);
            break;
        }
        CHECK_STATUS(s, ERR_NOMEM);
        assert_null(g);
    }
}
