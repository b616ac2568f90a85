#include "base/mem.h"
#include "fixture_checkpoint.h"
#include "load/sidecar_priv.h"

static void begin(fixture *f, load_model *m)
{
    fixture_init(f);
    *m = (load_model){.path = f->dir};
    arena_init(&m->mem, 0);
    m->tokenizer_json = m->chat_template = m->bos_token = m->eos_token = STR("");
    m->target = (arch_target){.V = 100, .n_eos = 2, .eos = {7, 8}, .pad_id = -1};
}

static void end(fixture *f, load_model *m)
{
    arena_fini(&m->mem);
    fixture_fini(f);
}

TEST(all_of_them_may_be_absent)
{
    fixture f;
    load_model m;
    err e;
    begin(&f, &m);
    CHECK_OK(sidecar_read_all(&m, &e), &e);
    assert_true(m.tokenizer_json.len == 0 && m.chat_template.len == 0 && m.bos_token.len == 0);
    assert_true(m.target.n_eos == 2 && m.target.pad_id == -1 && !m.sampling.has_temperature);
    end(&f, &m);
}

TEST(generation_defaults_are_read_and_stop_ids_merged_in_front)
{
    fixture f;
    load_model m;
    err e;
    begin(&f, &m);
    fixture_text(
        &f, "generation_config.json",
        "{\"eos_token_id\":[9,8],\"pad_token_id\":3,\"do_sample\":true,\"temperature\":0.7,"
        "\"top_p\":0.95,\"top_k\":20,\"min_p\":0.05,\"presence_penalty\":1.5,"
        "\"repetition_penalty\":1.05,\"transformers_version\":\"5\"}");
    CHECK_OK(sidecar_read_all(&m, &e), &e);
    assert_true(m.target.n_eos == 3 && m.target.eos[0] == 9 && m.target.eos[1] == 8);
    assert_true(m.target.eos[2] == 7 && m.target.pad_id == 3);
    const arch_sampling *s = &m.sampling;
    assert_true(s->has_temperature && s->has_top_p && s->has_top_k && s->has_min_p);
    assert_true(s->has_presence && s->has_repetition);
    assert_true(s->temperature == 0.7 && s->top_p == 0.95 && s->top_k == 20 && s->min_p == 0.05);
    assert_true(s->presence_penalty == 1.5 && s->repetition_penalty == 1.05);
    end(&f, &m);
}

TEST(a_single_stop_id_no_sampling_and_top_k_off)
{
    fixture f;
    load_model m;
    err e;
    begin(&f, &m);
    fixture_text(&f, "generation_config.json",
                 "{\"eos_token_id\":5,\"do_sample\":false,\"temperature\":0.7,\"top_k\":-1}");
    CHECK_OK(sidecar_read_all(&m, &e), &e);
    assert_true(m.target.n_eos == 3 && m.target.eos[0] == 5 && m.target.eos[1] == 7);
    assert_true(m.sampling.has_temperature && m.sampling.temperature == 0);
    assert_true(m.sampling.has_top_k && m.sampling.top_k == 0 && !m.sampling.has_top_p);
    end(&f, &m);
}

TEST(a_generation_config_that_makes_no_sense_is_refused)
{
    static const char *const rows[][2] = {
        {"[]", "must be a JSON object"},
        {"{", "JSON"},
        {"{\"temperature\":-1}", "temperature is -1"},
        {"{\"top_p\":1.5}", "top_p is 1.5"},
        {"{\"top_k\":0.5}", "top_k must be a whole number"},
        {"{\"eos_token_id\":100}", "eos_token_id must be token ids from 0 to 99"},
        {"{\"eos_token_id\":[1,null]}", "eos_token_id must be token ids"},
        {"{\"eos_token_id\":[1,2,3,4,5,6,9]}", "more than 8 stop ids"},
        {"{\"pad_token_id\":100}", "pad_token_id is 100"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fixture f;
        load_model m;
        err e;
        begin(&f, &m);
        fixture_text(&f, "generation_config.json", rows[i][0]);
        assert_int_not_equal(sidecar_read_all(&m, &e), ERR_OK);
        if (!strstr(e.msg, rows[i][1])) fail_msg("%s: \"%s\"", rows[i][0], e.msg);
        assert_non_null(strstr(e.where, "generation_config.json"));
        assert_true(m.target.n_eos == 2 && !m.sampling.has_temperature);
        end(&f, &m);
    }
}

TEST(a_template_file_wins_over_tokenizer_config)
{
    fixture f;
    load_model m;
    err e;
    begin(&f, &m);
    fixture_text(
        &f, "tokenizer_config.json",
        "{\"chat_template\":\"from config\",\"bos_token\":null,\"eos_token\":\"<|im_end|>\"}");
    CHECK_OK(sidecar_read_all(&m, &e), &e);
    assert_true(str_is(m.chat_template, "from config") && m.bos_token.len == 0);
    assert_true(str_is(m.eos_token, "<|im_end|>"));
    arena_fini(&m.mem);
    fixture_text(&f, "chat_template.jinja", "from file\n");
    fixture_text(&f, "tokenizer.json", "{\"version\":\"1.0\"}");
    CHECK_OK(sidecar_read_all(&m, &e), &e);
    assert_true(str_is(m.chat_template, "from file\n"));
    assert_true(str_is(m.tokenizer_json, "{\"version\":\"1.0\"}"));
    end(&f, &m);
}

TEST(a_list_of_templates_and_token_objects_are_understood)
{
    fixture f;
    load_model m;
    err e;
    begin(&f, &m);
    fixture_text(
        &f, "tokenizer_config.json",
        "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"T\"},"
        "{\"name\":\"default\",\"template\":\"D\"}],"
        "\"bos_token\":{\"content\":\"<s>\",\"lstrip\":false},\"eos_token\":{\"content\":7}}");
    CHECK_OK(sidecar_read_all(&m, &e), &e);
    assert_true(str_is(m.chat_template, "D") && str_is(m.bos_token, "<s>"));
    assert_int_equal(m.eos_token.len, 0);
    end(&f, &m);
    begin(&f, &m);
    fixture_text(&f, "tokenizer_config.json", "{\"chat_template\":[{\"name\":\"x\"},4,null]}");
    CHECK_OK(sidecar_read_all(&m, &e), &e);
    assert_int_equal(m.chat_template.len, 0);
    end(&f, &m);
    begin(&f, &m);
    fixture_text(&f, "tokenizer_config.json", "{\"chat_template\":");
    CHECK_STATUS(sidecar_read_all(&m, &e), ERR_FORMAT);
    assert_non_null(strstr(e.where, "tokenizer_config.json"));
    end(&f, &m);
}

TEST(a_draft_has_no_generation_config)
{
    fixture f;
    load_model m;
    err e;
    begin(&f, &m);
    m.is_draft = true;
    fixture_text(&f, "generation_config.json", "broken");
    CHECK_OK(sidecar_read_all(&m, &e), &e);
    end(&f, &m);
}
