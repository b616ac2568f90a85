#include "server/sampling_fields_priv.h"

#include "base/mem.h"
#include "support/test.h"

enum { V = 1000 };
static arena mem;
static err last;

static const json *parse(const char *text)
{
    const json *root;
    arena_fini(&mem);
    arena_init(&mem, 0);
    CHECK_OK(json_parse(&mem, str_from(text), "test", 8, 0, &root, &last), &last);
    return root;
}

static status read_policy(const char *text, policy *p)
{
    *p = policy_neutral();
    p->seed = 42;
    p->temperature = 0.7;
    return sampling_fields_parse(parse(text), V, &mem, p, &last);
}

TEST(nothing_given_leaves_the_defaults)
{
    policy p;
    CHECK_OK(read_policy(
                 "{\"temperature\":null,\"seed\":null,\"logit_bias\":null,\"logit_bias\":{}}", &p),
             &last);
    assert_true(p.temperature == 0.7 && p.seed == 42 && p.n_bias == 0);
    arena_fini(&mem);
}

TEST(every_field_arrives)
{
    policy p;
    CHECK_OK(
        read_policy("{\"temperature\":0.5,\"top_p\":0.9,\"top_k\":40,\"min_p\":0.05,"
                    "\"seed\":18446744073709551615,"
                    "\"presence_penalty\":1,\"frequency_penalty\":-1,\"repetition_penalty\":1.1,"
                    "\"ignore_eos\":true,\"logit_bias\":{\"5\":-100,\"7\":2.5,\"5\":3}}",
                    &p),
        &last);
    assert_true(p.temperature == 0.5 && p.top_p == 0.9 && p.top_k == 40 && p.min_p == 0.05);
    assert_true(p.presence == 1 && p.frequency == -1 && p.repetition == 1.1 && p.ignore_eos);
    assert_true(p.seed == UINT64_MAX);
    assert_int_equal(p.n_bias, 2);
    assert_true(p.bias[0].id == 7 && p.bias[0].value == 2.5f);
    assert_true(p.bias[1].id == 5 && p.bias[1].value == 3);
    CHECK_OK(read_policy("{\"seed\":-1}", &p), &last);
    assert_true(p.seed == UINT64_MAX);
    CHECK_OK(read_policy("{\"top_k\":-1}", &p), &last);
    assert_int_equal(p.top_k, 0);
    CHECK_OK(read_policy("{\"temperature\":0}", &p), &last);
    assert_true(p.temperature == 0);
    arena_fini(&mem);
}

TEST(each_wrong_field_is_named_and_nothing_changes)
{
    static const char *const bad[][2] = {
        {"{\"temperature\":2.1}", "temperature"},
        {"{\"temperature\":\"hot\"}", "temperature"},
        {"{\"temperature\":-0.1}", "temperature"},
        {"{\"top_p\":0}", "top_p"},
        {"{\"top_p\":1.5}", "top_p"},
        {"{\"top_k\":-2}", "top_k"},
        {"{\"top_k\":1.5}", "top_k"},
        {"{\"min_p\":2}", "min_p"},
        {"{\"presence_penalty\":3}", "presence_penalty"},
        {"{\"frequency_penalty\":-3}", "frequency_penalty"},
        {"{\"repetition_penalty\":0}", "repetition_penalty"},
        {"{\"ignore_eos\":1}", "ignore_eos"},
        {"{\"seed\":1.5}", "seed"},
        {"{\"seed\":\"x\"}", "seed"},
        {"{\"seed\":18446744073709551616}", "seed"},
        {"{\"logit_bias\":[]}", "logit_bias"},
        {"{\"logit_bias\":{\"1000\":1}}", "logit_bias"},
        {"{\"logit_bias\":{\"-1\":1}}", "logit_bias"},
        {"{\"logit_bias\":{\"a\":1}}", "logit_bias"},
        {"{\"logit_bias\":{\"1\":101}}", "logit_bias"},
        {"{\"logit_bias\":{\"1\":null}}", "logit_bias"},
        {"{\"logit_bias\":{\"\":1}}", "logit_bias"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        policy p;
        if (read_policy(bad[i][0], &p) != ERR_INVALID) fail_msg("%s was taken", bad[i][0]);
        assert_string_equal(last.where, bad[i][1]);
        assert_true(p.temperature == 0.7 && p.seed == 42 && p.n_bias == 0);
    }
    arena_fini(&mem);
}

TEST(a_bias_has_at_most_1024_entries)
{
    buf b;
    policy p;
    buf_init(&b);
    for (int n = POLICY_BIAS_MAX; n <= POLICY_BIAS_MAX + 1; n++) {
        buf_clear(&b);
        buf_put_c(&b, "{\"logit_bias\":{");
        for (int i = 0; i < n; i++) buf_printf(&b, "%s\"%d\":1", i ? "," : "", i % V);
        buf_put_c(&b, "}}");
        CHECK_STATUS(read_policy(buf_str(&b).ptr, &p), n > POLICY_BIAS_MAX ? ERR_INVALID : ERR_OK);
    }
    buf_fini(&b);
    arena_fini(&mem);
}

static int count_stops(const char *text)
{
    const str *list = NULL;
    int n = 0;
    if (sampling_fields_stop(parse(text), "stop", &mem, &list, &n, &last) != ERR_OK) return -1;
    for (int i = 0; i < n; i++) assert_true(list[i].len > 0);
    return n;
}

TEST(stop_is_a_string_or_up_to_sixteen)
{
    assert_int_equal(count_stops("{}"), 0);
    assert_int_equal(count_stops("{\"stop\":null}"), 0);
    assert_int_equal(count_stops("{\"stop\":\"\"}"), 0);
    assert_int_equal(count_stops("{\"stop\":[]}"), 0);
    assert_int_equal(count_stops("{\"stop\":\"a\"}"), 1);
    assert_int_equal(count_stops("{\"stop\":[\"a\",\"\",\"b\"]}"), 2);
    assert_int_equal(count_stops("{\"stop\":[1,2]}"), -1);
    assert_string_equal(last.where, "stop");
    assert_int_equal(count_stops("{\"stop\":7}"), -1);
    assert_int_equal(
        count_stops(
            "{\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"10\",\"11\","
            "\"12\",\"13\",\"14\",\"15\",\"16\"]}"),
        16);
    assert_int_equal(
        count_stops(
            "{\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"10\",\"11\","
            "\"12\",\"13\",\"14\",\"15\",\"16\",\"17\"]}"),
        -1);
    char text[1100] = "{\"stop\":\"";
    memset(text + 9, 'x', 1025);
    strncpy(text + 9 + 1025, "\"}", 3);
    assert_int_equal(count_stops(text), -1);
    strncpy(text + 9 + 1024, "\"}", 3);
    assert_int_equal(count_stops(text), 1);
    arena_fini(&mem);
}

TEST(without_memory_it_is_nomem)
{
    policy p = policy_neutral();
    const str *list;
    int n;
    const json *o = parse("{\"logit_bias\":{\"1\":1},\"stop\":\"x\"}");
    arena full;
    arena_init(&full, 1);
    CHECK_STATUS(sampling_fields_parse(o, V, &full, &p, &last), ERR_NOMEM);
    CHECK_STATUS(sampling_fields_stop(o, "stop", &full, &list, &n, &last), ERR_NOMEM);
    arena_fini(&full);
    arena_fini(&mem);
}
