/* tags: timeout=300
 *
 * Answers under a grammar, on the bundled model with random draws: every finished one is valid, and
 * none of them depends on the draft, its width, the lanes or what else runs. */
#include "grammar/schema_check.h"
#include "model/engine_fixture.h"

static const char prompt_text[] =
    "<|im_start|>user\nExtract name, city and age as JSON: Mara, 31, lives in Oslo.<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n";
static const char thinking_text[] =
    "<|im_start|>user\nExtract name and city as JSON: Mara lives in Oslo.<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n";

enum { CHOICES = 4, TOKENS = 80 };

typedef struct {
    const char *name;
    bool has_draft;
    int draft_rows, n_lanes;
} setting;

static const setting plain = {"plain", false, -1, 1};
static const setting settings[] = {
    {"draft", true, -1, 1},
    {"draft 2, 4 lanes", true, 2, 4},
    {"draft auto, 3 lanes", true, ENGINE_ROWS_AUTO, 3},
    {"no draft, 4 lanes", false, -1, 4},
};

static const char *backend_name = "cpu"; /* what open_engine opens */

static engine *open_engine(const setting *v)
{
    engine_options o = {.model = "models/mini-dense",
                        .draft = v->has_draft ? "models/mini-dense-dflash2" : NULL,
                        .backend = backend_name,
                        .n_threads = 2,
                        .n_lanes = v->n_lanes,
                        .max_context = 512,
                        .draft_rows = v->draft_rows,
                        .guards_steps = true};
    return run_open(&o);
}

static const char *const schemas[] = {
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":12},"
    "\"age\":{\"type\":\"integer\",\"minimum\":3,\"maximum\":120}},\"required\":[\"name\",\"age\"],"
    "\"additionalProperties\":false}",
    "{\"type\":\"array\",\"minItems\":1,\"maxItems\":3,\"items\":{\"enum\":[\"red\",\"reddish\","
    "{\"a\":null},17]}}",
    /* users.md J1: a pattern with escapes. */
    "{\"type\":\"string\",\"pattern\":\"^hello there indeed\\\\!$\"}",
    /* J3: a tree whose reference leads into an array's item. */
    "{\"type\":\"object\",\"properties\":{\"kids\":{\"type\":\"array\",\"maxItems\":2,\"items\":"
    "{\"anyOf\":[{\"type\":\"string\",\"maxLength\":4},{\"$ref\":"
    "\"#/properties/kids/items/anyOf/0\"},{\"$ref\":\"#\"}]}}},\"additionalProperties\":false}",
    /* J5: bounds beyond 2^31, 2^53 and 2^63. */
    "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\",\"minimum\":0,\"maximum\":"
    "20000000000},{\"type\":\"integer\",\"maximum\":9007199254740991},{\"type\":\"integer\","
    "\"minimum\":9223372036854775807,\"exclusiveMaximum\":9223372036854776000}],\"items\":false,"
    "\"minItems\":3}",
};
enum { SCHEMAS = sizeof schemas / sizeof *schemas };

static const json *parse(arena *a, str text)
{
    err e = {0};
    const json *v = NULL;
    CHECK_OK(json_parse(a, text, "text", 64, 0, &v, &e), &e);
    return v;
}

static grammar *open_schema(const char *text)
{
    arena a;
    err e = {0};
    grammar *g = NULL;
    arena_init(&a, 0);
    CHECK_OK(grammar_open_schema(&g, parse(&a, str_from(text)), &(grammar_json_options){4, false},
                                 NULL, &e),
             &e);
    arena_fini(&a);
    return g;
}

static void expect_valid(const char *schema, const run_choice *c)
{
    arena a;
    err e = {0};
    bool is_valid = false;
    arena_init(&a, 0);
    const json *s = parse(&a, str_from(schema)), *v = parse(&a, (str){c->text, c->n_text});
    CHECK_OK(schema_check(s, s, v, &is_valid, &e), &e);
    if (!is_valid) fail_msg("%.*s does not satisfy %s", (int)c->n_text, c->text, schema);
    arena_fini(&a);
}

static engine_request request_of(const token_ids *ids, grammar *g, uint64_t seed)
{
    engine_request r = run_request(ids->ptr, ids->n, TOKENS, 1, seed);
    r.grammar = g;
    r.n = CHOICES;
    return r;
}

/* Every schema and one request without any at once; out[SCHEMAS] is the free one. */
static void generate(const setting *v, run_result *out)
{
    engine *en = open_engine(v);
    token_ids ids = run_encode(en, prompt_text);
    for (int i = 0; i <= SCHEMAS; i++) {
        grammar *g = i < SCHEMAS ? open_schema(schemas[i]) : NULL;
        run_submit(en, request_of(&ids, g, 5 + (uint64_t)i), &out[i]);
        grammar_close(g); /* the engine holds it */
        if (v->n_lanes == 1) run_all(en);
    }
    run_all(en);
    token_ids_fini(&ids);
    engine_close(en);
}

static void expect_valid_and_the_same(void)
{
    static run_result want[SCHEMAS + 1], got[SCHEMAS + 1];
    int n_finished = 0;
    generate(&plain, want);
    for (int i = 0; i < SCHEMAS; i++)
        for (int c = 0; c < CHOICES; c++) {
            if (want[i].choice[c].reason != ENGINE_STOP) continue;
            n_finished++;
            expect_valid(schemas[i], &want[i].choice[c]);
        }
    assert_true(n_finished >= SCHEMAS * CHOICES / 2);
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
        generate(&settings[k], got);
        for (int i = 0; i <= SCHEMAS; i++)
            for (int c = 0; c < CHOICES; c++)
                run_expect_same(&got[i].choice[c], &want[i].choice[c], settings[k].name);
        /* Of a text that cannot be otherwise the proposals are right whatever the draft says. */
        if (k == 0) assert_true(got[2].choice[0].usage.accepted > 3);
        if (settings[k].has_draft && settings[k].draft_rows != ENGINE_ROWS_AUTO)
            assert_true(got[0].choice[0].usage.drafted > 0);
    }
}

TEST(finished_answers_are_valid_and_the_same_however_they_are_computed)
{
    expect_valid_and_the_same();
}

/* One lane, and a request that goes first takes it away in the middle of the other's answer. */
static void expect_to_go_on_after_suspension(void)
{
    static run_result want, got, other;
    for (int interrupted = 0; interrupted < 2; interrupted++) {
        engine *en = open_engine(&settings[0]);
        token_ids ids = run_encode(en, thinking_text);
        grammar *g = open_schema(schemas[0]);
        engine_request r = request_of(&ids, g, 4), first = run_request(ids.ptr, ids.n, 6, 1, 2);
        r.n = 1;
        r.starts_in_reasoning = r.has_reasoning_limit = true;
        r.reasoning_most = 10;
        first.priority = 1;
        run_submit(en, r, interrupted ? &got : &want);
        for (int i = 0; interrupted && i < 8; i++) engine_step(en);
        if (interrupted) {
            assert_true(got.choice[0].n > 0 && !got.choice[0].is_done);
            run_submit(en, first, &other);
        }
        run_all(en);
        if (interrupted) assert_true(engine_stats(en).suspensions > 0);
        grammar_close(g);
        token_ids_fini(&ids);
        engine_close(en);
    }
    assert_true(other.choice[0].n > 0);
    run_expect_same(&got.choice[0], &want.choice[0], "suspended");
}

TEST(an_answer_that_is_suspended_goes_on_under_its_grammar)
{
    expect_to_go_on_after_suspension();
}

/* users.md J7: first the reasoning, then the grammar. */
static void expect_to_begin_behind_the_reasoning(void)
{
    static run_result want, got;
    for (int drafted = 0; drafted < 2; drafted++) {
        engine *en = open_engine(&settings[drafted ? 0 : 3]);
        token_ids ids = run_encode(en, thinking_text);
        grammar *g = open_schema(schemas[0]);
        engine_request r = request_of(&ids, g, 9);
        r.starts_in_reasoning = r.has_reasoning_limit = true;
        r.reasoning_most = 12;
        r.max_tokens = 150;
        run_submit(en, r, drafted ? &got : &want);
        run_all(en);
        grammar_close(g);
        token_ids_fini(&ids);
        engine_close(en);
    }
    for (int c = 0; c < CHOICES; c++) {
        run_choice *a = &want.choice[c];
        run_expect_same(&got.choice[c], a, "draft");
        int32_t close = -1;
        for (int i = 0; i < a->n && close < 0; i++)
            if (a->ids[i] == 2079) close = i; /* </think> of the bundled models */
        assert_in_range(close, 0, 12);
        assert_int_equal(a->reason, ENGINE_STOP);
        int at = str_find((str){a->text, a->n_text}, STR("{"), 0);
        assert_true(at >= 0);
        memmove(a->text, a->text + at, a->n_text - at);
        a->n_text -= at;
        expect_valid(schemas[0], a);
    }
}

TEST(the_grammar_begins_behind_the_reasoning)
{
    expect_to_begin_behind_the_reasoning();
}

TEST(a_limit_of_reasoning_ends_it_without_a_grammar_too)
{
    static run_result out;
    engine *en = open_engine(&settings[0]);
    token_ids ids = run_encode(en, thinking_text);
    for (int most = 0; most < 6; most += 5) {
        engine_request r = run_request(ids.ptr, ids.n, 30, 1, 3);
        r.starts_in_reasoning = r.has_reasoning_limit = true;
        r.reasoning_most = most;
        run_submit(en, r, &out);
        run_all(en);
        int n = 0;
        while (n < out.choice[0].n && out.choice[0].ids[n] != 2079) n++;
        assert_in_range(n, 0, most);
    }
    token_ids_fini(&ids);
    engine_close(en);
}

TEST(a_grammar_refuses_what_would_break_it)
{
    err e = {0};
    uint64_t id;
    static run_result out;
    engine *en = open_engine(&plain);
    token_ids ids = run_encode(en, prompt_text);
    grammar *g = open_schema(schemas[0]);
    engine_request r = request_of(&ids, g, 1);
    r.on_event = run_on_event;
    r.ctx = &out;
    r.policy.ignore_eos = true;
    CHECK_STATUS(engine_submit(en, &r, &id, &e), ERR_INVALID);
    assert_string_equal(e.where, "ignore_eos");
    r.policy.ignore_eos = false;
    r.has_reasoning_limit = true;
    r.reasoning_most = -1;
    CHECK_STATUS(engine_submit(en, &r, &id, &e), ERR_INVALID);
    grammar_close(g);
    token_ids_fini(&ids);
    engine_close(en);
}

static err failure;
static int n_tokens;
static void take_failure(void *ctx, const engine_event *ev)
{
    (void)ctx;
    n_tokens += ev->n_ids;
    if (ev->kind == ENGINE_FINISH && ev->error) failure = *ev->error;
}

/* A bias forbids the only way on. */
TEST(where_nothing_can_follow_the_choice_fails_with_words)
{
    for (int drafted = 0; drafted < 2; drafted++) {
        err e = {0};
        uint64_t id;
        grammar *g = NULL;
        engine *en = open_engine(drafted ? &settings[0] : &plain);
        token_ids ids = run_encode(en, prompt_text), no = run_encode(en, "~");
        assert_int_equal(no.n, 1);
        CHECK_OK(grammar_open_regex(&g, STR("ab~"), &e), &e);
        engine_request r = run_request(ids.ptr, ids.n, 20, 0, 1);
        policy_bias bias = {.id = no.ptr[0], .value = -100};
        r.grammar = g;
        r.policy.bias = &bias;
        r.policy.n_bias = 1;
        r.on_event = take_failure;
        failure = (err){0};
        n_tokens = 0;
        CHECK_OK(engine_submit(en, &r, &id, &e), &e);
        run_all(en);
        CHECK_STATUS(failure.code, ERR_LIMIT);
        assert_string_equal(failure.where, "grammar");
        assert_in_range(n_tokens, 1, 2);
        assert_int_equal(engine_stats(en).failed, 1);
        grammar_close(g);
        token_ids_fini(&ids);
        token_ids_fini(&no);
        engine_close(en);
    }
}

/* ---- on a GPU: masks come by a graph of their own (decode/cycle.h) -------------------------- */

static void use_cuda(void)
{
    run_need_backend("cuda");
    backend_name = "cuda";
}

TEST(finished_answers_are_valid_and_the_same_however_they_are_computed_on_cuda)
{
    use_cuda();
    expect_valid_and_the_same();
    backend_name = "cpu";
}

TEST(an_answer_that_is_suspended_goes_on_under_its_grammar_on_cuda)
{
    use_cuda();
    expect_to_go_on_after_suspension();
    backend_name = "cpu";
}

TEST(the_grammar_begins_behind_the_reasoning_on_cuda)
{
    use_cuda();
    expect_to_begin_behind_the_reasoning();
    backend_name = "cpu";
}
