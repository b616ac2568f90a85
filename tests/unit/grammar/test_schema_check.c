/* The judge; the official suite is tests/oracle/schema_suite.py. */
#include "fixture_grammar.h"
#include "grammar/schema_check.h"
#include "support/grammar_walk.h"

static status judge(const char *schema, const char *value, bool *valid, err *e)
{
    arena a;
    const json *s = NULL, *v = NULL;
    arena_init(&a, 0);
    status st = json_parse(&a, fixture_quotes(&a, schema), "schema", 128, 0, &s, e);
    if (st == ERR_OK) st = json_parse(&a, fixture_quotes(&a, value), "value", 400, 0, &v, e);
    if (st == ERR_OK) st = schema_check(s, s, v, valid, e);
    arena_fini(&a);
    return st;
}

TEST(values_are_judged_keyword_by_keyword)
{
    static const struct {
        const char *schema, *good, *bad;
    } cases[] = {
        {"{'type':'integer'}", "1.0", "1.5"},
        {"{'enum':[1,{'a':1,'b':2}]}", "{'b':2.0,'a':1}", "{'a':1}"},
        {"{'uniqueItems':true}", "[1,2]", "[1,1.0]"},
        {"{'contains':{'const':1},'maxContains':1}", "[1,2]", "[1,1]"},
        {"{'not':{'type':'null'}}", "1", "null"},
        {"{'if':{'minimum':5},'then':{'maximum':9},'else':{'minimum':1}}", "7", "0"},
        {"{'dependentRequired':{'a':['b']}}", "{'a':1,'b':1}", "{'a':1}"},
        {"{'dependentSchemas':{'a':{'maxProperties':1}}}", "{'a':1}", "{'a':1,'b':2}"},
        {"{'oneOf':[{'minimum':1},{'maximum':3}]}", "4", "2"},
        {"{'minLength':2}", "'\xf0\x9f\x98\x80x'", "'\xf0\x9f\x98\x80'"},
        {"{'pattern':'b+$'}", "'abb'", "'abba'"},
        {"{'minProperties':2}", "{'a':1,'b':1}", "{'a':1,'a':2}"},
        {"{'properties':{'a':{'type':'null'}}}", "{'a':1,'a':null}", "{'a':null,'a':1}"},
        {"{'items':[{'type':'null'}],'additionalItems':false}", "[null]", "[null,1]"},
        {"{'$ref':'#/$defs/x~1y%25','$defs':{'x/y%':{'type':'null'}}}", "null", "1"},
        {"{'$ref':'#name','$defs':{'a':{'$anchor':'name','type':'null'}}}", "null", "1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool good = false, bad = true;
        err e = {0};
        CHECK_OK(judge(cases[i].schema, cases[i].good, &good, &e), &e);
        CHECK_OK(judge(cases[i].schema, cases[i].bad, &bad, &e), &e);
        if (!good || bad) fail_msg("%s: good %d, bad %d", cases[i].schema, good, bad);
    }
}

TEST(what_cannot_be_judged_is_an_error_with_its_place)
{
    bool valid;
    err e = {0};
    CHECK_STATUS(judge("{'items':{'unevaluatedItems':false}}", "[[]]", &valid, &e),
                 ERR_UNSUPPORTED);
    assert_string_equal(e.where, "#/items/unevaluatedItems");
    CHECK_STATUS(judge("{'$ref':'other.json'}", "1", &valid, &e), ERR_UNSUPPORTED);
    CHECK_STATUS(judge("{'type':'odd'}", "1", &valid, &e), ERR_FORMAT);
    CHECK_STATUS(judge("{'pattern':'('}", "'a'", &valid, &e), ERR_FORMAT);
    CHECK_STATUS(judge("{'$ref':'#'}", "1", &valid, &e), ERR_LIMIT);
}

static uint64_t pick(void *ctx, uint64_t below)
{
    return test_random(ctx) % below;
}

static const char *const SCHEMAS[] = {
    "{'type':'object','properties':{'a':{'type':'string','maxLength':4},'b':{'type':'integer',"
    "'minimum':-5,'maximum':117},'c':{'enum':['x',1.5,null,[1]]}},'required':['b'],"
    "'additionalProperties':{'type':'boolean'},'minProperties':2,'maxProperties':4}",
    "{'type':'array','items':{'anyOf':[{'type':'string','pattern':'^a[bc]*$','minLength':2,"
    "'maxLength':6},{'type':'number','exclusiveMinimum':-1.5,'multipleOf':0.25}]},'maxItems':6}",
    "{'$ref':'#/$defs/n','$defs':{'n':{'type':'object','properties':{'k':{'type':'array','items':"
    "{'$ref':'#/$defs/n'},'maxItems':2},'v':{'type':['null','boolean']}},'required':['v'],"
    "'additionalProperties':false}}}",
    "{'patternProperties':{'^x':{'type':'integer'},'y$':{'maximum':5}},'propertyNames':{"
    "'maxLength':3},'additionalProperties':{'type':'string','format':'date'},'type':'object'}",
    "{'oneOf':[{'properties':{'t':{'const':'a'},'v':{'type':'integer'}},'required':['t']},"
    "{'properties':{'t':{'const':'b'},'v':{'type':'string'}},'required':['t','v']}],"
    "'type':'object','allOf':[{'maxProperties':2}]}",
    "{'prefixItems':[{'type':'string','format':'uuid'},{'not':false}],'items':{'type':'string',"
    "'format':'email','maxLength':12},'type':'array','minItems':1,'maxItems':4}",
};

TEST(what_the_automaton_finishes_the_judge_accepts)
{
    uint64_t seed = test_seed();
    int n_whole = 0;
    for (size_t i = 0; i < sizeof SCHEMAS / sizeof *SCHEMAS; i++) {
        err e = {0};
        grammar *g = NULL;
        CHECK_OK(fixture_schema(&g, SCHEMAS[i], NULL, &e), &e);
        for (int k = 0; k < 25; k++) {
            bool valid = false;
            arena a;
            const json *s = NULL, *v = NULL;
            buf text;
            arena_init(&a, 0);
            buf_init(&text);
            if (grammar_walk(g, 160, pick, &seed, &text)) {
                n_whole++;
                CHECK_OK(json_parse(&a, fixture_quotes(&a, SCHEMAS[i]), "s", 64, 0, &s, &e), &e);
                CHECK_OK(json_parse(&a, buf_str(&text), "v", 400, 0, &v, &e), &e);
                CHECK_OK(schema_check(s, s, v, &valid, &e), &e);
                bool is_twice = json_parse(&a, buf_str(&text), "v", 400, JSON_UNIQUE_KEYS, &v,
                                           NULL);
                if (!valid && !is_twice) fail_msg("%s: %s", SCHEMAS[i], text.ptr);
            }
            buf_fini(&text);
            arena_fini(&a);
        }
        grammar_close(g);
    }
    assert_true(n_whole > 40);
}
