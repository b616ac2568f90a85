/* tags: slow, timeout=120
 *
 * /v1/judgments and /v1/systemone of a running server. */
#include "serve_fixture.h"
#include "server/scores_priv.h"

static serve_fixture fixture, *const f = &fixture;

static int post(const char *path, const char *body)
{
    size_t n = strlen(body) + 1;
    char *copy = mem_new(n);
    for (size_t i = 0; i < n; i++) copy[i] = body[i] == '\'' ? '"' : body[i];
    int code = serve_ask(f, "POST", path, copy);
    mem_free(copy);
    return code;
}

static const json *ask(const char *path, const char *body)
{
    if (post(path, body) != 200) fail_msg("%s: %.*s", body, STR_ARG(buf_str(&f->in)));
    return serve_json(f);
}

static double number(const json *v, const char *way)
{
    double x = -1;
    if (!json_to_double(serve_at(v, way), &x)) fail_msg("no number at %s", way);
    return x;
}

static double nth(const json *list, int i)
{
    double x = -1;
    assert_true(json_to_double(json_at(list, i), &x));
    return x;
}

#define STATE "'state':{'text':'Mara lives in Oslo, and the river lantern matrix is quiet.'}"
#define JUDGE                                                                                    \
    "{'id':'q','question':'Where does Mara live?'," STATE ",'options':[{'id':'o','description':" \
    "'Oslo'},{'id':'r','description':'Riga'},{'id':'n'}]}"

TEST(probabilities_are_a_softmax_over_the_options_and_the_prompt_is_kept)
{
    double logits[3];
    serve_open(f, serve_options(), 2, 32, 2048);
    for (int round = 0; round < 2; round++) {
        const json *a = ask("/v1/judgments", JUDGE), *p = serve_at(a, "probabilities"),
                   *l = serve_at(a, "option_logits");
        double sum = 0, all = 0;
        serve_expect_text(a, "id", "q");
        serve_expect_text(a, "option_ids/0", "o");
        serve_expect_text(a, "option_ids/2", "n");
        serve_expect_text(a, "model/id", "mini-dense");
        assert_int_equal(serve_text(a, "prompt_sha256").len, 64);
        assert_int_equal(p->n, 3);
        for (int i = 0; i < 3; i++) all += exp(nth(l, i));
        for (int i = 0; i < 3; i++) {
            assert_true(fabs(nth(p, i) - exp(nth(l, i)) / all) < 1e-12);
            sum += nth(p, i);
            if (round) assert_true(nth(l, i) == logits[i]); /* the cache changes no bit */
            logits[i] = nth(l, i);
        }
        assert_true(fabs(sum - 1) < 1e-12);
        int64_t n = serve_int(a, "input_tokens"),
                cached = serve_int(a, "usage/prompt_tokens_details/cached_tokens");
        assert_int_equal(serve_int(a, "usage/completion_tokens"), 0);
        if (round == 0) assert_int_equal(cached, 0);
        if (round == 1) assert_true(cached >= 64 && cached < n);
    }
    assert_int_equal(engine_stats(f->en).completion_tokens, 0);
    serve_close(f);
}

TEST(each_kind_of_question_has_its_answer)
{
    serve_open(f, serve_options(), 2, 32, 4096);
    const json *a = ask("/v1/systemone",
                        "{'model':'mini-dense'," STATE ",'criteria':'Be strict.','instructions':"
                        "'Take your time.','questions':{'calm':'Is it quiet?','where':{'type':"
                        "'choice','question':'Where?','options':['Oslo',{'x':[1]},7]},'mood':"
                        "{'type':'score','question':'How quiet?','min':-1,'max':3},'grade':{'type':"
                        "'score','question':'Grade?','levels':['bad','good']},'one':{'type':"
                        "'choice','question':'Which?','options':[null]}}}");
    double calm = number(a, "answers/calm/value"), mood = number(a, "answers/mood/value");
    assert_true(calm >= 0 && calm <= 1 && mood >= 0 && mood <= 4);
    assert_true(number(a, "answers/calm/probabilities/0") == calm);
    const json *p = serve_at(a, "answers/mood/probabilities");
    double mean = 0, entropy = 0;
    assert_int_equal(p->n, 5);
    for (int i = 0; i < 5; i++) {
        mean += i * nth(p, i);
        entropy -= nth(p, i) * log(nth(p, i));
    }
    assert_true(fabs(mean - mood) < 1e-9);
    assert_true(fabs(number(a, "answers/mood/confidence") - (1 - entropy / log(5))) < 1e-9);
    const json *where = serve_at(a, "answers/where");
    double best = number(where, "confidence");
    for (int i = 0; i < 3; i++) assert_true(nth(serve_at(where, "probabilities"), i) <= best);
    assert_non_null(serve_at(where, "value"));
    assert_true(json_is(serve_at(a, "answers/one/value"), JSON_NULL));
    assert_true(number(a, "answers/one/confidence") == 1);
    assert_int_equal(serve_int(a, "usage/output_tokens"), 0);
    assert_true(serve_int(a, "usage/input_tokens") > 400);
    /* What the prompts share was computed once. */
    assert_true(engine_stats(f->en).cache.hits >= 2);

    a = ask("/v1/systemone", "{'model':'mini-dense','questions':{'one':{'type':'choice','question':"
                             "'Which?','options':['a']}}}");
    assert_int_equal(serve_int(a, "usage/input_tokens"), 0);
    serve_close(f);
}

TEST(what_is_wrong_is_told_in_each_dialect)
{
    static const char *const bad[][2] = {
        {"[]", ""},
        {"{'question':'x','options':[{'id':'a'},{'id':'b'}]}", "state"},
        {"{" STATE ",'options':[{'id':'a'},{'id':'b'}]}", "question"},
        {"{" STATE ",'question':'x','options':[{'id':'a'}]}", "options"},
        {"{" STATE ",'question':'x','options':[{'id':'a'},{'id':'a'}]}", "/options/1/"},
        {"{" STATE ",'question':'x','options':[{'id':'a'},{'idd':'b'}]}", "/options/1/idd"},
        {"{" STATE ",'question':'x','temperature':1,'options':[]}", "temperature"},
        {"{" STATE ",'question':'x','timeout':-1,'options':[]}", "timeout"},
        {"{" STATE ",'question':'x','priority':'high','options':[]}", "priority"},
    };
    static const char *const worse[][2] = {
        {"{" STATE "}", "model"},
        {"{'model':'mini-dense'}", "questions"},
        {"{'model':'mini-dense','questions':{'a':{'type':'choice','question':'x'}}}",
         "/questions/a"},
        {"{'model':'mini-dense','questions':{'a':{'type':'score','question':'x','max':255}}}",
         "/questions/a"},
        {"{'model':'mini-dense','questions':{'a':{'type':'noul'}}}", "/questions/a"},
        {"{'model':'mini-dense','questions':{'a':{'type':'n','question':'x'}}}", "/questions/a"},
        {"{'model':'mini-dense','questions':{'a':{'question':'x','y':1}}}", "/questions/a/y"},
    };
    serve_open(f, serve_options(), 1, 32, 256);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(post("/v1/judgments", bad[i][0]), 400);
        str param = serve_text(serve_json(f), "error/param");
        if (!str_is(param, bad[i][1])) fail_msg("%s names %.*s", bad[i][0], STR_ARG(param));
    }
    for (size_t i = 0; i < sizeof worse / sizeof *worse; i++) {
        assert_int_equal(post("/v1/systemone", worse[i][0]), 422);
        str param = serve_text(serve_json(f), "detail/0/loc/1");
        if (!str_is(param, worse[i][1])) fail_msg("%s names %.*s", worse[i][0], STR_ARG(param));
    }
    /* Longer than the context. */
    buf b;
    buf_init(&b);
    buf_put_c(&b, "{'question':'x','options':[{'id':'a'},{'id':'b'}],'state':'");
    for (int i = 0; i < 400; i++) buf_put_c(&b, "river ");
    buf_put_c(&b, "'}");
    buf_put_byte(&b, 0);
    assert_int_equal(post("/v1/judgments", b.ptr), 400);
    serve_expect_text(serve_json(f), "error/code", "context_length_exceeded");
    buf_fini(&b);
    serve_close(f);
}

TEST(a_logit_that_is_no_number_has_no_probabilities)
{
    float logits[3] = {1, 2, INFINITY};
    double p[3];
    score_question q = {.n_options = 2, .logits = logits};
    assert_true(scores_softmax(&q, p));
    assert_true(fabs(p[1] - 1 / (1 + exp(-1))) < 1e-12);
    q.n_options = 3;
    assert_false(scores_softmax(&q, p));
    logits[2] = NAN;
    assert_false(scores_softmax(&q, p));
}
