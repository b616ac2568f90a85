#include "load/hf_config_priv.h"
#include "support/test.h"

#define SHAPE                                                                   \
    "\"model_type\":\"qwen3\",\"hidden_size\":2048,\"intermediate_size\":6144," \
    "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"head_dim\":128,"    \
    "\"vocab_size\":248320,\"rms_norm_eps\":1e-6,\"hidden_act\":\"silu\","      \
    "\"attention_bias\":false,\"tie_word_embeddings\":false"
#define ROPE "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10000000}"
#define V1 "\"architectures\":[\"DFlashDraftModel\"]," SHAPE "," ROPE
#define V2 "\"architectures\":[\"DFlash2DraftModel\"]," SHAPE "," ROPE
#define SLIDE "\"sliding_attention\""
#define FULL "\"full_attention\""

static status parse(const char *text, hf_config *c, err *e)
{
    arena mem;
    arena_init(&mem, 0);
    *e = (err){0};
    status s = hf_config_parse(c, &mem, str_from(text), "config.json", e);
    arena_fini(&mem);
    return s;
}

static arch_draft must_parse(const char *text)
{
    hf_config c;
    err e;
    CHECK_OK(parse(text, &c, &e), &e);
    assert_true(c.is_draft);
    return c.draft;
}

static void check_fails(const char *text, status want, const char *words)
{
    hf_config c;
    err e;
    status s = parse(text, &c, &e);
    if (s != want || !strstr(e.msg, words))
        fail_msg("%s: %s: \"%s\", want \"%s\"", text, status_name(s), e.msg, words);
}

TEST(a_dflash2_draft_of_the_expert_target)
{
    arch_draft d = must_parse(
        "{" V2 ",\"is_causal\":false,\"num_hidden_layers\":6,\"num_target_layers\":40,"
        "\"layer_types\":[" SLIDE "," SLIDE "," SLIDE "," SLIDE "," SLIDE "," SLIDE
        "],\"sliding_window\":2048,"
        "\"use_sliding_window\":true,\"dflash_config\":{\"block_size\":8,\"conv_group_size\":16,"
        "\"conv_kernel_size\":2,\"mask_token_id\":248077,\"selector_rank\":256,"
        "\"selector_top_k\":16,\"target_layer_ids\":[1,6,11,16,22,27,32,37]}}");
    assert_true(d.is_v2 && d.n_layers == 6 && d.E == 2048 && d.F == 6144 && d.H == 32 && d.G == 8);
    assert_true(d.D == 128 && d.V == 248320 && d.rope_theta == 1e7 && d.rms_eps == 1e-6f);
    assert_true(d.block == 8 && d.window == 2048 && d.conv_taps == 2 && d.conv_group == 16);
    assert_true(d.select_rank == 256 && d.select_top_k == 16 && d.mask_id == 248077);
    assert_true(d.n_taps == 8 && d.taps[0] == 1 && d.taps[7] == 37 && d.n_target_layers == 40);
    assert_true(d.logit_scale == 1 && d.logit_softcap == 0 && d.embed_scale == 1);
    for (int i = 0; i < 6; i++) assert_true(d.layer_is_sliding[i] && !d.layer_is_causal[i]);
}

TEST(a_dflash_draft_with_keys_at_the_top_and_default_taps)
{
    arch_draft d = must_parse("{" V1 ",\"num_hidden_layers\":5,\"num_target_layers\":64,"
                              "\"layer_types\":[" SLIDE "," SLIDE "," SLIDE "," SLIDE "," FULL "],"
                              "\"sliding_window\":2048,\"block_size\":16,"
                              "\"dflash_config\":{\"mask_token_id\":248070}}");
    assert_true(!d.is_v2 && d.block == 16 && d.mask_id == 248070 && d.n_taps == 5);
    static const int taps[5] = {1, 16, 31, 46, 61};
    assert_memory_equal(d.taps, taps, sizeof taps);
    assert_true(d.conv_taps == 0 && d.select_rank == 0);
    /* Neither is_causal nor causal: sliding layers causal, full ones not. */
    for (int i = 0; i < 5; i++) {
        assert_int_equal(d.layer_is_sliding[i], i < 4);
        assert_int_equal(d.layer_is_causal[i], i < 4);
    }
}

/* Expected: Python's round(1 + i * (N - 4) / (n - 1)), [N // 2] for one layer. */
TEST(default_taps_round_halves_to_even)
{
    static const struct {
        int n, N, taps[8];
    } rows[] = {
        {1, 40, {20}},
        {1, 7, {3}},
        {2, 8, {1, 5}},
        {3, 9, {1, 4, 6}},  /* 1 + 2.5 = 3.5 -> 4 */
        {3, 11, {1, 4, 8}}, /* 1 + 3.5 = 4.5 -> 4 */
        {6, 40, {1, 8, 15, 23, 30, 37}},
        {8, 40, {1, 6, 11, 16, 22, 27, 32, 37}},
        {5, 6, {1, 2, 2, 2, 3}}, /* too few layers: they do not ascend */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[2000];
        snprintf(text, sizeof text,
                 "{" V1 ",\"num_hidden_layers\":%d,\"num_target_layers\":%d,\"block_size\":16,"
                 "\"mask_token_id\":3}",
                 rows[i].n, rows[i].N);
        if (rows[i].N == 6) {
            check_fails(text, ERR_FORMAT, "must ascend");
            continue;
        }
        arch_draft d = must_parse(text);
        assert_int_equal(d.n_taps, rows[i].n);
        for (int j = 0; j < rows[i].n; j++) assert_int_equal(d.taps[j], rows[i].taps[j]);
    }
}

#define MIXED                                                                 \
    V1 ",\"num_hidden_layers\":2,\"num_target_layers\":40,\"block_size\":16," \
       "\"layer_types\":[" SLIDE "," FULL "],\"sliding_window\":64"

TEST(causality_follows_is_causal_then_causal_then_the_layer)
{
    static const struct {
        const char *top, *inner;
        bool sliding, full;
    } rows[] = {
        {"", "", true, false},
        {",\"is_causal\":false", "", false, false},
        {",\"is_causal\":true", "", true, true},
        {"", ",\"causal\":false", false, false},
        {"", ",\"causal\":true", true, true},
        {",\"is_causal\":false", ",\"causal\":true", false, false},
        {"", ",\"sliding_window_non_causal\":true", false, false},
        {",\"sliding_window_non_causal\":true,\"is_causal\":null", "", false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[2000];
        snprintf(text, sizeof text, "{" MIXED "%s,\"dflash_config\":{\"mask_token_id\":1%s}}",
                 rows[i].top, rows[i].inner);
        arch_draft d = must_parse(text);
        assert_int_equal(d.layer_is_causal[0], rows[i].sliding);
        assert_int_equal(d.layer_is_causal[1], rows[i].full);
    }
}

TEST(sliding_layers_come_from_types_use_swa_or_qwen3s_rule)
{
    static const struct {
        const char *members, *inner;
        bool first, second;
        int window;
    } rows[] = {
        {",\"layer_types\":[" FULL "," SLIDE "],\"sliding_window\":9", "", false, true, 9},
        {",\"layer_types\":[" FULL "," SLIDE "],\"sliding_window\":9", ",\"swa_window_size\":5",
         false, true, 5},
        {",\"layer_types\":[" SLIDE "," SLIDE "],\"use_sliding_window\":false", "", false, false,
         0},
        {",\"sliding_window\":9", "", false, false, 0},
        {",\"sliding_window\":9,\"use_sliding_window\":true,\"max_window_layers\":1", "", false,
         true, 9},
        {",\"sliding_window\":9,\"use_sliding_window\":true", "", false, false, 0},
        {"", ",\"use_swa\":true,\"swa_window_size\":7", true, true, 7},
        {",\"sliding_window\":9", ",\"use_swa\":true", true, true, 9},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[2000];
        snprintf(text, sizeof text,
                 "{" V1 ",\"num_hidden_layers\":2,\"num_target_layers\":40%s,\"block_size\":16,"
                 "\"dflash_config\":{\"mask_token_id\":1%s}}",
                 rows[i].members, rows[i].inner);
        arch_draft d = must_parse(text);
        assert_int_equal(d.layer_is_sliding[0], rows[i].first);
        assert_int_equal(d.layer_is_sliding[1], rows[i].second);
        assert_int_equal(d.window, rows[i].window);
    }
}

TEST(optional_scales_are_read_at_either_place)
{
    arch_draft d = must_parse("{" MIXED ",\"output_multiplier\":0.5,\"mask_token_id\":2,"
                              "\"dflash_config\":{\"final_logit_softcapping\":30,"
                              "\"input_embedding_scale\":45.25,\"attention_sink_bias\":false,"
                              "\"sample_from_anchor\":false}}");
    assert_true(d.logit_scale == 0.5f && d.logit_softcap == 30 && d.embed_scale == 45.25f);
    assert_int_equal(d.mask_id, 2);
    d = must_parse("{" MIXED ",\"dflash_config\":{\"mask_token_id\":2,\"block_size\":16,"
                   "\"final_logit_softcapping\":null}}");
    assert_true(d.logit_softcap == 0);
}

TEST(selector_defaults_and_head_size_fall_back)
{
    arch_draft d = must_parse(
        "{\"architectures\":[\"DFlash2DraftModel\"],\"hidden_size\":512,\"intermediate_size\":64,"
        "\"num_attention_heads\":8,\"num_key_value_heads\":8,\"vocab_size\":100,"
        "\"num_hidden_layers\":1,\"num_target_layers\":4,\"rope_theta\":1000000,"
        "\"dflash_config\":{\"block_size\":8,\"mask_token_id\":99}}");
    assert_true(d.D == 64 && d.conv_taps == 2 && d.conv_group == 16);
    assert_true(d.select_rank == 256 && d.select_top_k == 16 && d.taps[0] == 2);
}

TEST(without_architectures_dflash_config_makes_it_a_draft)
{
    arch_draft d = must_parse("{" SHAPE "," ROPE
                              ",\"num_hidden_layers\":1,\"num_target_layers\":40,"
                              "\"dflash_config\":{\"block_size\":8,\"mask_token_id\":1,"
                              "\"selector_rank\":64}}");
    assert_true(d.is_v2 && d.select_rank == 64);
    d = must_parse("{" SHAPE "," ROPE ",\"num_hidden_layers\":1,\"num_target_layers\":40,"
                   "\"dflash_config\":{\"block_size\":8,\"mask_token_id\":1}}");
    assert_false(d.is_v2);
}

TEST(what_does_not_fit_is_refused_by_key)
{
#define TOP(v, inner) \
    "{" v ",\"num_hidden_layers\":2,\"num_target_layers\":40,\"dflash_config\":{" inner "}}"
    static const struct {
        const char *text;
        status want;
        const char *words;
    } rows[] = {
        {TOP(V1, "\"mask_token_id\":1"), ERR_FORMAT, "block_size is missing"},
        {TOP(V1, "\"block_size\":16"), ERR_FORMAT, "mask_token_id is missing"},
        {TOP(V1 ",\"block_size\":8", "\"block_size\":16,\"mask_token_id\":1"), ERR_FORMAT,
         "dflash_config.block_size is 16, but 8 at the top"},
        {TOP(V1, "\"block_size\":17,\"mask_token_id\":1"), ERR_FORMAT,
         "block_size is 17, must be 2 to 16"},
        {TOP(V1, "\"block_size\":1,\"mask_token_id\":1"), ERR_FORMAT, "block_size is 1"},
        {TOP(V1, "\"block_size\":8,\"mask_token_id\":248320"), ERR_FORMAT,
         "mask_token_id is 248320"},
        {TOP(V1, "\"block_size\":8,\"mask_token_id\":1,\"target_layer_ids\":[]"), ERR_FORMAT,
         "1 to 16"},
        {TOP(V1, "\"block_size\":8,\"mask_token_id\":1,\"target_layer_ids\":[3,1]"), ERR_FORMAT,
         "ascend"},
        {TOP(V1, "\"block_size\":8,\"mask_token_id\":1,\"target_layer_ids\":[1,1]"), ERR_FORMAT,
         "ascend"},
        {TOP(V1, "\"block_size\":8,\"mask_token_id\":1,\"target_layer_ids\":[1,40]"), ERR_FORMAT,
         "must ascend within 0 to 39"},
        {TOP(V1, "\"block_size\":8,\"mask_token_id\":1,\"target_layer_ids\":[1,\"2\"]"), ERR_FORMAT,
         "ascend"},
        {TOP(V1, "\"block_size\":8,\"mask_token_id\":1,\"target_layer_ids\":[4294967297]"),
         ERR_FORMAT, "ascend"},
        {TOP(V1, "\"block_size\":8,\"mask_token_id\":1,\"attention_sink_bias\":true"),
         ERR_UNSUPPORTED, "attention_sink_bias"},
        {TOP(V1 ",\"sample_from_anchor\":true", "\"block_size\":8,\"mask_token_id\":1"),
         ERR_UNSUPPORTED, "sample_from_anchor"},
        {TOP(V1 ",\"draft_vocab_size\":32000", "\"block_size\":8,\"mask_token_id\":1"),
         ERR_UNSUPPORTED, "draft_vocab_size"},
        {TOP(V1, "\"block_size\":8,\"mask_token_id\":1,\"selector_rank\":8"), ERR_FORMAT,
         "belongs to DFlash2"},
        {TOP(V1 ",\"layer_types\":[" SLIDE "]", "\"block_size\":8,\"mask_token_id\":1"), ERR_FORMAT,
         "layer_types has 1 entries"},
        {TOP(V1 ",\"layer_types\":[" SLIDE ",\"linear_attention\"]",
             "\"block_size\":8,\"mask_token_id\":1"),
         ERR_UNSUPPORTED, "entry 1 is neither"},
        {TOP(V1 ",\"layer_types\":[" SLIDE "," FULL "]", "\"block_size\":8,\"mask_token_id\":1"),
         ERR_FORMAT, "sliding_window is missing"},
        {TOP(V2, "\"block_size\":8,\"mask_token_id\":1,\"conv_group_size\":48"), ERR_FORMAT,
         "does not divide width 2048"},
        {TOP(V2, "\"block_size\":8,\"mask_token_id\":1,\"selector_top_k\":17"), ERR_FORMAT,
         "selector_top_k is 17"},
        {TOP(V2, "\"block_size\":8,\"mask_token_id\":1,\"selector_rank\":0"), ERR_FORMAT,
         "selector_rank is 0"},
        {TOP(V2, "\"block_size\":8,\"mask_token_id\":1,\"final_logit_softcapping\":-1"), ERR_FORMAT,
         "final_logit_softcapping is -1"},
        {"{" V1 ",\"num_hidden_layers\":2,\"block_size\":8,\"mask_token_id\":1}", ERR_FORMAT,
         "needs num_target_layers"},
        {"{" V1 ",\"num_hidden_layers\":0}", ERR_FORMAT, "num_hidden_layers is 0"},
        {"{" V1 ",\"dflash_config\":3}", ERR_FORMAT, "dflash_config must be an object"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_fails(rows[i].text, rows[i].want, rows[i].words);
}
