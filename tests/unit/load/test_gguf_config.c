#include "fixture_gguf_model.h"
#include "load/gguf_config_priv.h"

/* Parse a made file's metadata; the tensors' own bytes are not looked at. */
static status parse(made_gguf g, gguf_config *c, err *e)
{
    gguf *file = NULL;
    made_bytes b = made_end(&g);
    CHECK_OK(gguf_open_bytes(&file, b.ptr, (int64_t)b.len, "m.gguf", e), e);
    gguf_set s = {.files = &file, .n = 1};
    status st = gguf_config_parse(c, &s, e);
    gguf_close(file);
    free(b.ptr);
    return st;
}

static void check_fails(made_gguf g, status want, const char *words)
{
    gguf_config c = {.is_draft = true};
    err e = {0};
    c.target.E = 77;
    status s = parse(g, &c, &e);
    if (s != want || !strstr(e.msg, words)) fail_msg("%s: \"%s\"", status_name(s), e.msg);
    assert_true(c.is_draft && c.target.E == 77); /* untouched */
}

/* A target's head with one key's value changed where the file has it as u32. */
static made_gguf changed(const char *key, uint32_t v)
{
    made_gguf g = made_new();
    model_target_keys(&g, true, 5);
    model_matrix(&g, "token_embd.weight", 1, T_V, T_E, true);
    uint64_t n = strlen(key), length;
    for (size_t i = 0; i + n + 16 <= g.keys.len; i++) {
        memcpy(&length, g.keys.ptr + i, 8);
        if (length == n && memcmp(g.keys.ptr + i + 8, key, n) == 0)
            memcpy(g.keys.ptr + i + 8 + n + 4, &v, 4);
    }
    return g;
}

TEST(each_key_out_of_range_is_named)
{
    static const struct {
        const char *key;
        uint32_t v;
        const char *words;
    } rows[] = {
        {"qwen35moe.block_count", 0, "key 'qwen35moe.block_count' is 0, must be 1 to 256"},
        {"qwen35moe.block_count", 257, "is 257"},
        {"qwen35moe.embedding_length", 1, "embedding_length' is 1"},
        {"qwen35moe.attention.head_count", 0, "head_count' is 0"},
        {"qwen35moe.attention.head_count", 1 << 20, "head_count' is"},
        {"qwen35moe.attention.head_count_kv", 3, "is 3, which does not divide 2 heads"},
        {"qwen35moe.rope.dimension_count", 15, "dimension_count' is 15, must be even"},
        {"qwen35moe.rope.dimension_count", 64, "dimension_count' is 64, must be 2 to 32"},
        {"qwen35moe.rope.dimension_count", 32, "dimension_sections' must be three counts"},
        {"qwen35moe.ssm.group_count", 4, "time_step_rank' is 6, not a multiple of 4"},
        {"qwen35moe.ssm.inner_size", 193, "inner_size' is 193 for 6 heads"},
        {"qwen35moe.ssm.conv_kernel", 99, "conv_kernel' is 99"},
        {"qwen35moe.ssm.state_size", 17, "state_size' must be even"},
        {"qwen35moe.expert_used_count", 5, "expert_used_count' is 5 of 4 experts"},
        {"qwen35moe.full_attention_interval", 0, "full_attention_interval' is 0"},
        {"qwen35moe.context_length", 0, "context_length' is 0"},
        {"general.sampling.top_k", 1u << 31, "key 'general.sampling.top_k' is 2147483648"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_fails(changed(rows[i].key, rows[i].v), ERR_FORMAT, rows[i].words);
    check_fails(changed("qwen35moe.attention.key_length", 33), ERR_UNSUPPORTED,
                "value_length' is 32, key_length is 33");
}

TEST(another_architecture_is_refused_by_its_name)
{
    made_gguf g = made_new();
    check_fails(g, ERR_FORMAT, "key 'general.architecture' is missing");
    made_str(&g, "general.architecture", "llama");
    check_fails(g, ERR_UNSUPPORTED, "'general.architecture' is 'llama', not one of qwen35");
    g = made_new();
    made_str(&g, "general.architecture", "clip");
    check_fails(g, ERR_UNSUPPORTED, "a vision tower, not a language model");
    g = made_new();
    made_u32(&g, "general.architecture", 5);
    check_fails(g, ERR_FORMAT, "must be a string");
    g = made_new();
    model_target_keys(&g, false, 4);
    check_fails(g, ERR_FORMAT, "tensor 'token_embd.weight' is missing");
    g = changed("x", 0);
    made_str(&g, "qwen35moe.rope.scaling.type", "yarn");
    check_fails(g, ERR_UNSUPPORTED, "rope.scaling.type' is 'yarn'");
}

TEST(mtp_layers_do_not_count)
{
    made_gguf g = changed("x", 0);
    gguf_config c;
    err e = {0};
    made_u32(&g, "qwen35moe.nextn_predict_layers", 1);
    CHECK_OK(parse(g, &c, &e), &e);
    assert_int_equal(c.target.n_layers, 4);
    g = changed("x", 0);
    made_u32(&g, "qwen35moe.nextn_predict_layers", 5);
    check_fails(g, ERR_FORMAT, "nextn_predict_layers' is 5 of 5 blocks");
}

TEST(layer_types_may_come_from_a_list)
{
    static const int32_t recurrent[] = {1, 0, 1, 0, 1}, short_list[] = {1, 0};
    gguf_config c;
    err e = {0};
    made_gguf g = changed("x", 0);
    made_ints(&g, "qwen35moe.attention.recurrent_layers", recurrent, 5);
    CHECK_OK(parse(g, &c, &e), &e);
    for (int i = 0; i < 5; i++)
        assert_int_equal(c.target.layer_type[i], recurrent[i] ? ARCH_LAYER_GDN : ARCH_LAYER_ATTN);
    g = changed("x", 0);
    made_ints(&g, "qwen35moe.attention.recurrent_layers", short_list, 2);
    check_fails(g, ERR_FORMAT, "recurrent_layers' has 2 entries for 5 layers");
}

/* Ollama: KV heads a layer, zero without attention, three sections (model-spec 4.3). */
TEST(the_variants_of_ollama_mean_the_same)
{
    static const int32_t heads[] = {0, 0, 2, 0}, mixed[] = {0, 1, 2, 0}, sections[] = {3, 3, 2};
    static const struct {
        const char *key;
        uint32_t v;
    } rows[] = {
        {"block_count", 4},          {"context_length", 4096},     {"embedding_length", T_E},
        {"attention.head_count", 4}, {"attention.key_length", 32}, {"rope.dimension_count", 16},
        {"ssm.conv_kernel", 4},      {"ssm.state_size", 16},       {"ssm.group_count", 2},
        {"ssm.time_step_rank", 2},   {"ssm.inner_size", 64},       {"feed_forward_length", 64}};
    for (int i = 0; i < 2; i++) {
        made_gguf g = made_new();
        gguf_config c;
        err e = {0};
        made_str(&g, "general.architecture", "qwen35");
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
            model_u32(&g, "qwen35", rows[k].key, rows[k].v);
        made_ints(&g, "qwen35.attention.head_count_kv", i ? mixed : heads, 4);
        made_ints(&g, "qwen35.rope.dimension_sections", sections, 3);
        model_matrix(&g, "token_embd.weight", 1, T_V, T_E, true);
        if (i) {
            check_fails(g, ERR_UNSUPPORTED, "head_count_kv' differs from layer to layer");
            continue;
        }
        CHECK_OK(parse(g, &c, &e), &e);
        assert_true(c.target.G == 2 && c.target.mrope_section[0] == 3);
        for (int k = 0; k < 4; k++)
            assert_int_equal(c.target.layer_type[k], k == 2 ? ARCH_LAYER_ATTN : ARCH_LAYER_GDN);
    }
}

TEST(a_drafts_keys_are_read_and_checked)
{
    gguf_config c;
    err e = {0};
    static const int32_t pattern[] = {1, 0};
    made_gguf g = model_draft(false, true);
    model_u32(&g, "dflash", "attention.sliding_window", 100);
    made_ints(&g, "dflash.attention.sliding_window_pattern", pattern, 2);
    made_bool(&g, "dflash.attention.causal", 1);
    made_f32(&g, "dflash.logit_scale", 0.5f);
    CHECK_OK(parse(g, &c, &e), &e);
    assert_true(c.draft.window == 100 && c.draft.layer_is_sliding[0]);
    assert_true(!c.draft.layer_is_sliding[1] && c.draft.layer_is_causal[0]);
    assert_true(c.draft.logit_scale == 0.5f && c.draft.logit_softcap == 0);
    g = model_draft(false, false);
    model_u32(&g, "dflash", "attention.sliding_window", 100);
    model_u32(&g, "dflash", "attention.sliding_window_pattern", 2);
    CHECK_OK(parse(g, &c, &e), &e);
    assert_true(c.draft.layer_is_sliding[0] && !c.draft.layer_is_sliding[1]);
    g = model_draft(false, true);
    model_u32(&g, "dflash", "conv_group_size", 5);
    check_fails(g, ERR_FORMAT, "conv_group_size' is 5, which does not divide");
    g = made_new();
    made_str(&g, "general.architecture", "dflash");
    check_fails(g, ERR_FORMAT, "key 'dflash.block_count' is missing");
}

/* What a draft of another kind would say, and a DFlash2 whose selector is not whole. */
TEST(a_draft_of_an_unknown_layout_is_refused)
{
    static const int32_t flat[] = {8, 0, 0, 0}, axes[] = {4, 2, 2, 0};
    gguf_config c;
    err e = {0};
    made_gguf g = model_draft(false, false);
    CHECK_OK(parse(g, &c, &e), &e);
    assert_true(c.draft.lacks_rope && c.draft.rope_theta == 1e7);
    g = model_draft(false, false);
    made_f32(&g, "dflash.rope.freq_base", 1e6f);
    model_u32(&g, "dflash", "rope.dimension_count", 16);
    made_ints(&g, "dflash.rope.dimension_sections", flat, 4);
    CHECK_OK(parse(g, &c, &e), &e);
    assert_true(!c.draft.lacks_rope && c.draft.rope_theta == 1e6);
    g = model_draft(false, false);
    model_u32(&g, "dflash", "rope.dimension_count", 8);
    check_fails(g, ERR_UNSUPPORTED, "rope.dimension_count' is 8, but a draft's heads of 16");
    g = model_draft(false, false);
    made_ints(&g, "dflash.rope.dimension_sections", axes, 4);
    check_fails(g, ERR_UNSUPPORTED, "gives 2 pairs to axis 1");
    g = model_draft(false, false);
    model_u32(&g, "dflash", "selector_rank", 32);
    check_fails(g, ERR_FORMAT, "has selector_rank, but no selector_predecessor.weight");
    g = model_draft(true, false);
    model_u32(&g, "dflash-draft", "dflash.selector_top_k", 16);
    check_fails(g, ERR_FORMAT, "has selector_top_k, but no selector_predecessor.weight");
    g = model_draft(false, false);
    model_matrix(&g, "selector_hidden.weight", 1, 32, T_E, true);
    check_fails(g, ERR_FORMAT, "has selector_hidden.weight, but no selector_predecessor.weight");
}

/* Names and sizes are those of the fixture; only the list of target layers changes. */
TEST(target_layers_of_a_draft_must_ascend)
{
    static const char *const words[] = {"must ascend", "must be a list of numbers",
                                        "is missing or empty"};
    static const int32_t lists[][2] = {{3, 1}, {0, 3}, {1, 3}};
    for (int i = 0; i < 3; i++) {
        made_gguf g = model_draft(false, false);
        const char *key = "dflash.target_layers";
        for (size_t at = 0; at + 20 < g.keys.len; at++)
            if (memcmp(g.keys.ptr + at, key, strlen(key)) == 0) {
                uint8_t *p = g.keys.ptr + at + strlen(key);
                if (i < 2)
                    memcpy(p + 16, lists[i], 8);
                else
                    g.keys.ptr[at] = 'x'; /* another name */
            }
        check_fails(g, ERR_FORMAT, words[i]);
    }
}
