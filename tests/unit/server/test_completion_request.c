#include "server/completion_request_priv.h"

#include "chat_fixture.h"

static arena mem;
static err last;

static status read_request(const char *text, generation_request *r)
{
    static policy defaults;
    defaults = policy_neutral();
    chat_context x = {.defaults = &defaults, .V = 4096, .choices_max = 64, .seed = 99};
    last = (err){0};
    return completion_request_parse(chat_parse(&mem, text), &x, &mem, r, &last);
}

TEST(a_prompt_is_text_or_ids)
{
    generation_request r;
    CHECK_OK(read_request("{'prompt':'Hi'}", &r), &last);
    assert_true(r.prompt == PROMPT_TEXT && str_is(r.text, "Hi") && !r.has_plain_specials);
    assert_true(r.n == 1 && r.max_tokens == 16 && r.policy.seed == 99);
    CHECK_OK(read_request("{'prompt':['Hi']}", &r), &last);
    assert_true(r.prompt == PROMPT_TEXT && str_is(r.text, "Hi"));
    CHECK_OK(read_request("{'prompt':[1,4095]}", &r), &last);
    assert_true(r.prompt == PROMPT_IDS && r.n_ids == 2 && r.ids[0] == 1 && r.ids[1] == 4095);
    CHECK_OK(read_request("{'prompt':[[7]]}", &r), &last);
    assert_true(r.prompt == PROMPT_IDS && r.n_ids == 1 && r.ids[0] == 7);
    CHECK_OK(read_request("{'prompt':[]}", &r), &last);
    assert_true(r.prompt == PROMPT_IDS && r.n_ids == 0);
    arena_fini(&mem);
}

TEST(every_field_has_its_place)
{
    generation_request r;
    CHECK_OK(read_request("{'prompt':'Hi','stream':true,'stream_options':{'include_usage':true},"
                          "'n':4,'best_of':4,'max_tokens':50,'temperature':0.2,'stop':'a',"
                          "'echo':false,'suffix':'','logprobs':0,'user':'x','seed':5}",
                          &r),
             &last);
    assert_true(r.streams && r.includes_usage && r.n == 4 && r.max_tokens == 50);
    assert_true(r.policy.temperature == 0.2 && r.policy.seed == 5 && r.n_stop == 1);
    assert_true(r.wants_logprobs && r.top_logprobs == 0 && r.logprobs == LOGPROBS_OF_TEXT);
    CHECK_OK(read_request("{'prompt':'Hi','logprobs':20}", &r), &last);
    assert_true(r.wants_logprobs && r.top_logprobs == 20);
    CHECK_OK(read_request("{'prompt':'Hi','logprobs':false}", &r), &last);
    assert_false(r.wants_logprobs);
    CHECK_OK(read_request("{'prompt':'Hi','logprobs':null,'best_of':null,'suffix':null}", &r),
             &last);
    arena_fini(&mem);
}

TEST(what_is_wrong_is_named)
{
    static const struct {
        const char *request, *where;
        status code;
    } bad[] = {
        {"[]", "", ERR_INVALID},
        {"{}", "prompt", ERR_INVALID},
        {"{'prompt':7}", "prompt", ERR_INVALID},
        {"{'prompt':['a','b']}", "prompt", ERR_UNSUPPORTED},
        {"{'prompt':[4096]}", "prompt", ERR_INVALID},
        {"{'prompt':[-1]}", "prompt", ERR_INVALID},
        {"{'prompt':[1,'a']}", "prompt", ERR_INVALID},
        {"{'prompt':[[1],[2]]}", "prompt", ERR_UNSUPPORTED},
        {"{'prompt':[[[1]]]}", "prompt", ERR_INVALID},
        {"{'prompt':'a','max_tokens':0}", "max_tokens", ERR_INVALID},
        {"{'prompt':'a','n':65}", "n", ERR_INVALID},
        {"{'prompt':'a','best_of':2}", "best_of", ERR_UNSUPPORTED},
        {"{'prompt':'a','echo':true}", "echo", ERR_UNSUPPORTED},
        {"{'prompt':'a','suffix':'b'}", "suffix", ERR_UNSUPPORTED},
        {"{'prompt':'a','logprobs':21}", "logprobs", ERR_INVALID},
        {"{'prompt':'a','logprobs':-1}", "logprobs", ERR_INVALID},
        {"{'prompt':'a','logprobs':true}", "logprobs", ERR_INVALID},
        {"{'prompt':'a','metadata':{'a':1}}", "metadata", ERR_INVALID},
        {"{'prompt':'a','logprobs':'x'}", "logprobs", ERR_INVALID},
        {"{'prompt':'a','stream':1}", "stream", ERR_INVALID},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        generation_request r = {.n = 77};
        status s = read_request(bad[i].request, &r);
        if (s != bad[i].code || strcmp(last.where, bad[i].where) != 0)
            fail_msg("%s: %s at \"%s\"", bad[i].request, status_name(s), last.where);
        assert_int_equal(r.n, 77);
    }
    arena_fini(&mem);
}

TEST(text_to_tokenize_has_two_names)
{
    tokenize_request r;
    CHECK_OK(tokenize_request_parse(chat_parse(&mem, "{'content':'a','prompt':'b'}"), &r, &last),
             &last);
    assert_true(str_is(r.text, "a") && !r.has_plain_specials && !r.with_pieces);
    CHECK_OK(tokenize_request_parse(chat_parse(&mem, "{'prompt':'','parse_special':false,"
                                                     "'with_pieces':true,'add_special':true}"),
                                    &r, &last),
             &last);
    assert_true(r.text.len == 0 && r.has_plain_specials && r.with_pieces);
    CHECK_STATUS(tokenize_request_parse(chat_parse(&mem, "{}"), &r, &last), ERR_INVALID);
    assert_string_equal(last.where, "content");
    CHECK_STATUS(tokenize_request_parse(chat_parse(&mem, "{'content':1}"), &r, &last), ERR_INVALID);
    CHECK_STATUS(tokenize_request_parse(chat_parse(&mem, "'x'"), &r, &last), ERR_INVALID);
    arena_fini(&mem);
}

TEST(ids_to_detokenize_are_in_the_vocabulary)
{
    const int32_t *ids;
    int n;
    CHECK_OK(
        detokenize_request_parse(chat_parse(&mem, "{'tokens':[3,4]}"), 5, &mem, &ids, &n, &last),
        &last);
    assert_true(n == 2 && ids[1] == 4);
    static const char *const bad[] = {"{}", "{'tokens':'a'}", "{'tokens':[5]}", "[1]",
                                      "{'tokens':[1.5]}"};
    for (int i = 0; i < 5; i++)
        CHECK_STATUS(detokenize_request_parse(chat_parse(&mem, bad[i]), 5, &mem, &ids, &n, &last),
                     ERR_INVALID);
    arena_fini(&mem);
}

TEST(without_memory_it_is_nomem)
{
    static policy defaults;
    defaults = policy_neutral();
    chat_context x = {.defaults = &defaults, .V = 4096, .choices_max = 64};
    const json *body = chat_parse(&mem, "{'prompt':[1,2,3],'stop':'x','logit_bias':{'1':2}}");
    int n_failed = 0;
    for (int64_t n = 1; n < 50; n++) {
        generation_request r;
        arena a;
        arena_init(&a, 0);
        mem_fail_at(n);
        status s = completion_request_parse(body, &x, &a, &r, &last);
        mem_fail_at(0);
        arena_fini(&a);
        if (s == ERR_OK) break;
        CHECK_STATUS(s, ERR_NOMEM);
        n_failed++;
    }
    assert_true(n_failed >= 1 && n_failed < 49);
    arena_fini(&mem);
}
