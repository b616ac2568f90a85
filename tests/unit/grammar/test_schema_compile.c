/* Schemas against texts; errors and their places. Quotes are written as '. */
#include "fixture_grammar.h"

static const grammar_json_options COMPACT = {0, false};

typedef struct {
    const char *schema;
    const char *takes[8];
    const char *refuses[10];
} schema_case;

static void check_case(const schema_case *c)
{
    err e = {0};
    grammar *g = NULL;
    CHECK_OK(fixture_schema(&g, c->schema, &COMPACT, &e), &e);
    for (int i = 0; i < 8 && c->takes[i]; i++)
        if (!fixture_takes(g, c->takes[i])) fail_msg("%s refuses %s", c->schema, c->takes[i]);
    for (int i = 0; i < 10 && c->refuses[i]; i++)
        if (fixture_takes(g, c->refuses[i])) fail_msg("%s takes %s", c->schema, c->refuses[i]);
    grammar_close(g);
}

static const schema_case CASES[] = {
    {"{'type':'object','properties':{'a':{'type':'integer'},'b':{'type':'string'}},"
     "'required':['a'],'additionalProperties':false}",
     {"{'a':1}", "{'a':-20,'b':'x'}"},
     {"{}", "{'b':'x'}", "{'b':'x','a':1}", "{'a':1,}", "{'a':1,'c':2}", "{'a':1.5}", "{'a':01}"}},
    {"{'type':'object','properties':{'a':{},'b':{},'c':{}},'additionalProperties':false}",
     {"{}", "{'a':null}", "{'b':[1,{}]}", "{'a':1,'c':'x'}", "{'b':1,'c':2}"},
     {"{'b':1,'a':2}", "{,'a':1}", "{'a':1'b':2}", "{'a':}"}},
    {"{'type':'object','properties':{'a':{'type':'null'}},'additionalProperties':"
     "{'type':'boolean'}}",
     {"{}", "{'a':null,'b':true}", "{'b':true,'c':false}", "{'aa':true}"},
     {"{'a':true}", "{'b':true,'a':true}", "{'b':null}", "{'\\u0061':true}"}},
    {"{'patternProperties':{'^x':{'type':'integer'}},'additionalProperties':false,"
     "'type':'object','minProperties':1,'maxProperties':2}",
     {"{'x':1}", "{'xy':1,'x':2}"},
     {"{}", "{'y':1}", "{'x':'a'}", "{'x':1,'xa':2,'xb':3}"}},
    {"{'propertyNames':{'pattern':'^[a-c]+$','maxLength':2},'type':'object'}",
     {"{}", "{'ab':1,'c':2}"},
     {"{'abc':1}", "{'d':1}"}},
    {"{'type':'array','items':{'type':'integer'},'minItems':2,'maxItems':4}",
     {"[1,2]", "[1,2,3,4]"},
     {"[]", "[1]", "[1,2,3,4,5]", "[1,]", "[1 2]", "['a','b']"}},
    {"{'type':'array','prefixItems':[{'type':'string'},{'type':'integer'}],'items':false}",
     {"[]", "['a']", "['a',1]"},
     {"[1]", "['a',1,2]", "['a','b']"}},
    {"{'type':'array','items':{'type':'array','maxItems':0},'maxItems':1}",
     {"[]", "[[]]"},
     {"[[],[]]", "[[1]]"}},
    {"{'type':'string','minLength':2,'maxLength':3}",
     {"'ab'", "'abc'", "'\\n\\u00e9'", "'\\ud83d\\ude00x'",
      "'\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80'"},
     {"'a'", "'abcd'", "'a\\n\\n\\n'", "'ab", "'a\\q'", "'\\ud83dab'", "'a\nb'",
      "'\\ud83d\\ude00'"}},
    {"{'type':'string','pattern':'^[a-z]+-\\\\d{2,3}$'}",
     {"'ab-12'", "'x-123'"},
     {"'-12'", "'ab-1'", "'ab-1234'", "'AB-12'", "'ab-12 '"}},
    {"{'type':'string','pattern':'b'}", {"'b'", "'abc'", "'\\nb\\u001f'"}, {"''", "'ac'"}},
    {"{'type':'string','pattern':'^a*$','minLength':3,'maxLength':4}",
     {"'aaa'", "'aaaa'"},
     {"'aa'", "'aaaaa'", "'aab'"}},
    {"{'type':'string','pattern':'^(aa)*$','minLength':3,'maxLength':7}",
     {"'aaaa'", "'aaaaaa'"},
     {"'aa'", "'aaa'", "'aaaaaaa'", "'aaaaaaaa'"}},
    {"{'enum':['a','ab',1,1.50,null,{'x':[true]},'\\u00e9\\n']}",
     {"'a'", "'ab'", "1", "1.5", "null", "{'x':[true]}", "'\xc3\xa9\\n'"},
     {"'b'", "'abc'", "2", "1.50", "true", "{'x':[false]}", "{}"}},
    {"{'const':'x','type':'string'}", {"'x'"}, {"'y'", "''"}},
    {"{'enum':['a',1,2],'type':'integer','minimum':2}", {"2"}, {"1", "'a'"}},
    {"{'type':['string','null'],'maxLength':1}", {"null", "'a'"}, {"'ab'", "1"}},
    {"{'anyOf':[{'type':'integer'},{'type':'string','maxLength':1}]}",
     {"12", "'a'"},
     {"'ab'", "1.5"}},
    {"{'oneOf':[{'type':'integer'},{'type':'string'}]}", {"12", "'a'"}, {"null"}},
    {"{'oneOf':[{'properties':{'k':{'const':'a'},'x':{}},'required':['k'],"
     "'additionalProperties':false},{'properties':{'k':{'const':'b'},'y':{}},'required':['k'],"
     "'additionalProperties':false}],'type':'object'}",
     {"{'k':'a','x':1}", "{'k':'b','y':1}"},
     {"{'k':'a','y':1}", "{'k':'c'}", "{}"}},
    {"{'allOf':[{'properties':{'a':{'type':'integer'}}},{'properties':{'a':{'minimum':5},"
     "'b':{'type':'null'}},'required':['a']}],'type':'object'}",
     {"{'a':5}", "{'a':7,'b':null}"},
     {"{}", "{'a':4}", "{'a':7,'b':1}"}},
    {"{'$ref':'#/$defs/node','$defs':{'node':{'type':'object','properties':{'v':{'type':'integer'},"
     "'kids':{'type':'array','items':{'$ref':'#/$defs/node'}}},'required':['v'],"
     "'additionalProperties':false}}}",
     {"{'v':1}", "{'v':1,'kids':[]}", "{'v':1,'kids':[{'v':2,'kids':[{'v':3}]},{'v':4}]}"},
     {"{'kids':[]}", "{'v':1,'kids':[{}]}", "{'v':1,'kids':[{'v':2}"}},
    {"{'type':'integer','minimum':-12,'exclusiveMaximum':105}",
     {"-12", "0", "104", "-9", "99"},
     {"-13", "105", "1000", "-100", "1.0", "1e1", ""}},
    {"{'type':'number','exclusiveMinimum':0.25,'maximum':10}",
     {"0.26", "10", "10.0", "0.2500001", "9.99"},
     {"0.25", "0.2", "0", "-1", "10.01", "11", "1e0", "10."}},
    {"{'type':'number','multipleOf':0.25,'minimum':-1}",
     {"0.25", "0.5", "3", "-0.75", "1.0"},
     {"0.3", "-1.25", "0.251"}},
    {"{'type':'integer','multipleOf':7}", {"0", "7", "-14", "7007"}, {"6", "8", "71"}},
    {"{'type':'number'}",
     {"1", "-1.5e-7", "1E5", "0.0", "-0"},
     {"01", "1.", ".5", "+1", "1e", "--1"}},
    {"{'type':'string','format':'date'}", {"'2024-02-29'"}, {"'2023-02-29'", "'2024-13-01'"}},
    {"true", {"1", "[{'a':[]}]", "''"}, {"", "[", "nul"}},
    {"{'type':'boolean','title':'t','description':'d','default':1,'$comment':'c','x-other':{}}",
     {"true"},
     {"null"}},
};

TEST(texts_are_taken_and_refused_as_the_schema_says)
{
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) check_case(&CASES[i]);
}

/* users.md J1, J3, J5 */
TEST(schemas_that_break_others_work)
{
    static const schema_case cases[] = {
        {"{'type':'string','pattern':'^hello there indeed\\\\!$'}",
         {"'hello there indeed!'"},
         {"'hello there indeed'", "'hello there indeed\\\\!'"}},
        {"{'type':'object','properties':{'tree':{'anyOf':[{'type':'string'},"
         "{'$ref':'#/properties/list/items'}]},'list':{'type':'array','items':{'type':'object',"
         "'properties':{'n':{'type':'integer'}},'required':['n'],'additionalProperties':false}}},"
         "'additionalProperties':false}",
         {"{'tree':'x'}", "{'tree':{'n':1},'list':[{'n':2}]}"},
         {"{'tree':{}}", "{'tree':1}"}},
        {"{'type':'integer','maximum':20000000000}", {"20000000000", "-5"}, {"20000000001"}},
        {"{'type':'integer','maximum':9007199254740991,'minimum':-9007199254740991}",
         {"9007199254740991", "-9007199254740991"},
         {"9007199254740992", "-9007199254740992"}},
        {"{'type':'integer','exclusiveMaximum':9223372036854776000}",
         {"9223372036854775999", "0"},
         {"9223372036854776000", "10000000000000000000"}},
        {"{'type':'string','maxLength':10000}", {"'x'"}, {"'\\q'"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&cases[i]);
}

TEST(a_long_bound_costs_a_counter)
{
    err e = {0};
    grammar *g = NULL;
    buf b;
    CHECK_OK(fixture_schema(&g,
                            "{'type':'array','maxItems':100000,'items':{'type':'string',"
                            "'maxLength':50000}}",
                            &COMPACT, &e),
             &e);
    buf_init(&b);
    buf_put_c(&b, "['");
    for (int i = 0; i < 50000; i++) buf_put_byte(&b, 'x');
    size_t filled = b.len;
    buf_put_c(&b, "','']");
    assert_true(fixture_takes(g, b.ptr));
    b.len = filled;
    buf_put_c(&b, "x']");
    assert_false(fixture_takes(g, b.ptr));
    buf_fini(&b);
    grammar_close(g);
}

TEST(white_space_is_bounded_where_it_may_stand)
{
    err e = {0};
    grammar *g = NULL;
    grammar_json_options opt = {2, false};
    CHECK_OK(fixture_schema(&g,
                            "{'type':'object','properties':{'a':{'items':{'type':'integer'}}},"
                            "'required':['a']}",
                            &opt, &e),
             &e);
    assert_true(fixture_takes(g, "{'a':[1,2]}"));
    assert_true(fixture_takes(g, "{\n 'a':  [ 1,\n\n2 ]\r\n}"));
    assert_false(fixture_takes(g, "{   'a':1}"));
    assert_false(fixture_takes(g, "{'a' :1}"));
    assert_false(fixture_takes(g, "{'a':1}  "));
    assert_false(fixture_takes(g, " {'a':1}"));
    grammar_close(g);
}

TEST(errors_name_the_place)
{
    static const struct {
        const char *schema, *status, *where;
    } cases[] = {
        {"{'properties':{'a':{'not':{'type':'null'}}}}", "UNSUPPORTED", "#/properties/a/not"},
        {"{'items':{'if':true}}", "UNSUPPORTED", "#/items/if"},
        {"{'contains':{}}", "UNSUPPORTED", "#/contains"},
        {"{'uniqueItems':true}", "UNSUPPORTED", "#/uniqueItems"},
        {"{'type':'string','format':'odd'}", "UNSUPPORTED", "#/format"},
        {"{'type':'string','pattern':'(?=a)'}", "UNSUPPORTED", "#/pattern"},
        {"{'type':'string','pattern':'(a'}", "FORMAT", "#/pattern"},
        {"{'$ref':'http://x/y'}", "UNSUPPORTED", "#/$ref"},
        {"{'$ref':'#/nowhere'}", "FORMAT", "#/$ref"},
        {"{'properties':{'a/b':{'type':'odd'}}}", "FORMAT", "#/properties/a~1b/type"},
        {"{'oneOf':[{'type':'integer'},{'type':'number'}]}", "UNSUPPORTED", "#/oneOf"},
        {"{'minLength':'x'}", "FORMAT", "#/minLength"},
        {"{'dependentRequired':{'a':['b']}}", "UNSUPPORTED", "#/dependentRequired"},
        {"{'unevaluatedProperties':false}", "UNSUPPORTED", "#/unevaluatedProperties"},
        {"{'multipleOf':0}", "FORMAT", "#/multipleOf"},
        {"{'type':'number','multipleOf':123456789}", "UNSUPPORTED", "#/multipleOf"},
        {"[]", "FORMAT", "#"},
        {"{'properties':3}", "FORMAT", "#/properties"},
        {"false", "INVALID", "#"},
        {"{'type':'string','minLength':3,'maxLength':2}", "INVALID", "#"},
        {"{'type':'integer','minimum':1.2,'maximum':1.8}", "INVALID", "#"},
        {"{'type':'object','properties':{'a':false},'required':['a']}", "INVALID", "#"},
        {"{'type':'string','pattern':'^a$','minLength':2}", "INVALID", "#"},
        {"{'$ref':'#/$defs/a','$defs':{'a':{'type':'object','properties':{'a':{'$ref':"
         "'#/$defs/a'}},'required':['a']}}}",
         "INVALID", "#"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err e = {0};
        grammar *g = NULL;
        status s = fixture_schema(&g, cases[i].schema, &COMPACT, &e);
        if (strcmp(status_name(s), cases[i].status) != 0 || strcmp(e.where, cases[i].where) != 0)
            fail_msg("%s: %s at %s (%s)", cases[i].schema, status_name(s), e.where, e.msg);
        assert_null(g);
    }
}

TEST(lenient_leaves_out_and_says_so)
{
    arena a;
    err e = {0};
    grammar *g = NULL;
    grammar_notes notes;
    const json *schema = NULL;
    grammar_json_options opt = {0, true};
    arena_init(&a, 0);
    CHECK_OK(json_parse(&a,
                        fixture_quotes(&a, "{'type':'array','uniqueItems':true,'items':{'type':"
                                           "'string','format':'odd','maxLength':1}}"),
                        "test", 64, 0, &schema, &e),
             &e);
    CHECK_OK(grammar_open_schema(&g, schema, &opt, &notes, &e), &e);
    assert_int_equal(notes.n_left_out, 2);
    assert_string_equal(notes.first, "#/uniqueItems");
    assert_true(fixture_takes(g, "['a','a']"));
    assert_false(fixture_takes(g, "['ab']"));
    grammar_close(g);
    arena_fini(&a);
}

TEST(an_optional_part_that_cannot_be_is_left_away)
{
    static const schema_case one = {
        "{'type':'object','properties':{'a':{'type':'string','pattern':'^x$','minLength':2},"
        "'b':{}},'additionalProperties':false}",
        {"{}", "{'b':1}"},
        {"{'a':'x'}", "{'a'"}};
    check_case(&one);
}

/* Each is within its own limits; all together must not take for ever. */
TEST(many_costly_patterns_are_refused)
{
    err e = {0};
    grammar *g = NULL;
    buf b;
    buf_init(&b);
    buf_put_c(&b, "{'properties':{");
    for (int i = 0; i < 200; i++)
        buf_printf(&b, "%s'p%d':{'type':'string','pattern':'^x%d(a|b)*a(a|b){10}$'}", i ? "," : "",
                   i, i);
    buf_put_c(&b, "}}");
    CHECK_STATUS(fixture_schema(&g, b.ptr, &COMPACT, &e), ERR_UNSUPPORTED);
    assert_true(strncmp(e.where, "#/properties/p", 14) == 0);
    buf_fini(&b);
}

TEST(every_failed_allocation_is_reported_and_nothing_leaks)
{
    static const char schema[] =
        "{'type':'object','properties':{'a':{'type':'string','pattern':'^[a-c]+$','maxLength':9},"
        "'b':{'enum':['x','y',1.5]},'c':{'type':'array','items':{'$ref':'#'}},"
        "'d':{'anyOf':[{'type':'integer','minimum':3},{'oneOf':[{'type':'null'},"
        "{'const':true}]}]}},"
        "'propertyNames':{'maxLength':5},'patternProperties':{'^z':{}},'required':['a']}";
    arena a;
    err e = {0};
    const json *tree = NULL;
    arena_init(&a, 0);
    CHECK_OK(json_parse(&a, fixture_quotes(&a, schema), "test", 64, 0, &tree, &e), &e);
    int64_t before = mem_count().n_live;
    for (int64_t n = 1;; n++) {
        grammar *g = NULL;
        mem_fail_at(n);
        status s = grammar_open_schema(&g, tree, NULL, NULL, &e);
        mem_fail_at(0);
        if (s == ERR_OK) {
            grammar_close(g);
            assert_true(n > 20);
            break;
        }
        if (s != ERR_NOMEM) fail_msg("allocation %d: %s %s", (int)n, status_name(s), e.msg);
        assert_null(g);
        assert_int_equal(mem_count().n_live, before);
    }
    assert_int_equal(mem_count().n_live, before);
    arena_fini(&a);
}
