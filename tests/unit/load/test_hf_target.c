#include "load/hf_config_priv.h"
#include "support/test.h"

/* The language model's keys of Qwen3.8-27B (model-spec 1.1). */
#define SHAPE                                                                                \
    "\"hidden_size\":5120,\"num_hidden_layers\":64,\"num_attention_heads\":24,"              \
    "\"num_key_value_heads\":4,\"head_dim\":256,\"vocab_size\":248320,"                      \
    "\"linear_num_key_heads\":16,\"linear_num_value_heads\":48,\"linear_key_head_dim\":128," \
    "\"linear_value_head_dim\":128,\"linear_conv_kernel_dim\":4,\"max_position_embeddings\":262144"
#define ROPE                                                                  \
    "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10000000," \
    "\"partial_rotary_factor\":0.25,\"mrope_interleaved\":true,\"mrope_section\":[11,11,10]}"
#define DENSE "\"model_type\":\"qwen3_5_text\",\"intermediate_size\":17408"
#define REST "\"full_attention_interval\":4,\"rms_norm_eps\":1e-6"

static status parse(const char *text, hf_config *c, err *e)
{
    arena mem;
    arena_init(&mem, 0);
    *e = (err){0};
    status s = hf_config_parse(c, &mem, str_from(text), "config.json", e);
    arena_fini(&mem);
    return s;
}

static void check_fails(const char *text, status want, const char *words)
{
    hf_config c;
    err e;
    memset(&c, 0x5a, sizeof c);
    hf_config before = c;
    status s = parse(text, &c, &e);
    if (s != want || !strstr(e.msg, words))
        fail_msg("%s: %s: \"%s\", want \"%s\"", text, status_name(s), e.msg, words);
    assert_memory_equal(&c, &before, sizeof c);
}

TEST(the_dense_target_as_a_multimodal_class)
{
    hf_config c;
    err e;
    CHECK_OK(
        parse(
            "{\"architectures\":[\"Qwen3_5ForConditionalGeneration\"],"
            "\"model_type\":\"qwen3_5\",\"image_token_id\":248056,\"vision_config\":{\"depth\":27},"
            "\"tie_word_embeddings\":false,\"text_config\":{" DENSE "," SHAPE "," ROPE "," REST
            ",\"attn_output_gate\":true,\"attention_bias\":false,\"hidden_act\":\"silu\","
            "\"output_gate_type\":\"swish\",\"eos_token_id\":248044,\"bos_token_id\":248044,"
            "\"mtp_num_hidden_layers\":1,\"pad_token_id\":null}}",
            &c, &e),
        &e);
    const arch_target *a = &c.target;
    assert_false(c.is_draft);
    assert_int_equal(a->family, ARCH_QWEN35);
    assert_true(a->n_layers == 64 && a->E == 5120 && a->V == 248320 && a->F == 17408 && a->X == 0);
    assert_true(a->H == 24 && a->G == 4 && a->D == 256 && a->n_rot == 64 && a->has_output_gate);
    assert_true(a->gdn_Hk == 16 && a->gdn_Hv == 48 && a->gdn_dk == 128 && a->gdn_dv == 128);
    assert_true(a->gdn_conv == 4 && a->rope_theta == 1e7 && a->rms_eps == 1e-6f);
    assert_true(a->mrope_section[0] == 11 && a->mrope_section[1] == 11 &&
                a->mrope_section[2] == 10);
    assert_true(a->max_position == 262144 && !a->is_tied && !c.is_tie_disputed && a->pad_id == -1);
    assert_true(a->n_eos == 1 && a->eos[0] == 248044);
    for (int i = 0; i < 64; i++)
        assert_int_equal(a->layer_type[i], i % 4 == 3 ? ARCH_LAYER_ATTN : ARCH_LAYER_GDN);
}

TEST(the_expert_target_as_a_flat_text_class)
{
    hf_config c;
    err e;
    CHECK_OK(parse("{\"architectures\":[\"Qwen3_5MoeForCausalLM\"],"
                   "\"model_type\":\"qwen3_5_moe_text\"," SHAPE
                   ",\"num_experts\":256,\"num_experts_per_tok\":8,\"moe_intermediate_size\":512,"
                   "\"shared_expert_intermediate_size\":512,\"tie_word_embeddings\":true," ROPE
                   "," REST ",\"eos_token_id\":[248046,248044,248046],\"pad_token_id\":5,"
                   "\"mlp_only_layers\":[]}",
                   &c, &e),
             &e);
    const arch_target *a = &c.target;
    assert_int_equal(a->family, ARCH_QWEN35_MOE);
    assert_true(a->F == 0 && a->X == 256 && a->K == 8 && a->moe_F == 512 && a->shared_F == 512);
    assert_true(a->is_tied && a->n_eos == 2 && a->eos[0] == 248046 && a->eos[1] == 248044);
    assert_int_equal(a->pad_id, 5);
}

TEST(the_architecture_tells_the_family_when_model_type_is_absent)
{
    hf_config c;
    err e;
    CHECK_OK(parse("{\"architectures\":[\"Qwen3_5ForCausalLM\"],\"intermediate_size\":64," SHAPE
                   "," ROPE "," REST "}",
                   &c, &e),
             &e);
    assert_int_equal(c.target.family, ARCH_QWEN35);
    CHECK_OK(parse("{\"architectures\":[\"Qwen3_5MoeForConditionalGeneration\"],\"num_experts\":4,"
                   "\"num_experts_per_tok\":4,\"moe_intermediate_size\":8,"
                   "\"shared_expert_intermediate_size\":8," SHAPE "," ROPE "," REST "}",
                   &c, &e),
             &e);
    assert_int_equal(c.target.family, ARCH_QWEN35_MOE);
}

TEST(optional_keys_have_the_defaults_of_the_class)
{
    hf_config c;
    err e;
    CHECK_OK(
        parse("{" DENSE "," SHAPE ",\"full_attention_interval\":2,\"rope_theta\":500000}", &c, &e),
        &e);
    assert_true(c.target.rope_theta == 500000 && c.target.n_rot == 64);
    assert_true(c.target.mrope_section[0] == 11 && c.target.rms_eps == 1e-6f);
    assert_true(c.target.has_output_gate && c.target.n_eos == 0 && c.target.pad_id == -1);
    assert_true(c.target.layer_type[0] == ARCH_LAYER_GDN &&
                c.target.layer_type[1] == ARCH_LAYER_ATTN);
    CHECK_OK(parse("{" DENSE "," SHAPE "," REST ",\"rope_theta\":1000,\"partial_rotary_factor\":1,"
                   "\"attn_output_gate\":false}",
                   &c, &e),
             &e);
    assert_true(c.target.n_rot == 256 && c.target.mrope_section[0] == 128);
    assert_false(c.target.has_output_gate);
    CHECK_OK(parse("{" DENSE "," SHAPE "," REST
                   ",\"rope_scaling\":{\"type\":\"mrope\",\"rope_theta\":9}}",
                   &c, &e),
             &e);
    assert_true(c.target.rope_theta == 9);
}

TEST(layer_types_win_over_the_interval)
{
    hf_config c;
    err e;
    char text[4000] = "{" DENSE "," SHAPE "," ROPE "," REST ",\"layer_types\":[";
    for (int i = 0; i < 64; i++) {
        strcat(text, i ? "," : "");
        strcat(text, i == 0 ? "\"full_attention\"" : "\"linear_attention\"");
    }
    strcat(text, "]}");
    CHECK_OK(parse(text, &c, &e), &e);
    for (int i = 0; i < 64; i++)
        assert_int_equal(c.target.layer_type[i], i == 0 ? ARCH_LAYER_ATTN : ARCH_LAYER_GDN);
}

TEST(tie_flags_that_disagree_are_left_to_the_files)
{
    hf_config c;
    err e;
    CHECK_OK(
        parse("{\"model_type\":\"qwen3_5\",\"tie_word_embeddings\":false,\"text_config\":{" DENSE
              "," SHAPE "," ROPE "," REST ",\"tie_word_embeddings\":true}}",
              &c, &e),
        &e);
    assert_true(c.is_tie_disputed);
    CHECK_OK(parse("{\"model_type\":\"qwen3_5\",\"text_config\":{" DENSE "," SHAPE "," ROPE "," REST
                   ",\"tie_word_embeddings\":true}}",
                   &c, &e),
             &e);
    assert_true(c.target.is_tied && !c.is_tie_disputed);
}

TEST(other_models_are_unsupported_by_name)
{
    check_fails("{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"]}",
                ERR_UNSUPPORTED, "model_type 'llama' (LlamaForCausalLM)");
    check_fails("{\"model_type\":\"qwen3_next\"}", ERR_UNSUPPORTED, "'qwen3_next'");
    check_fails("{\"architectures\":[\"Qwen3ForCausalLM\"],\"model_type\":\"qwen3\"}",
                ERR_UNSUPPORTED, "'qwen3'");
    check_fails("{}", ERR_UNSUPPORTED, "model_type ''");
    check_fails(
        "{\"model_type\":\"qwen3_5\",\"text_config\":{\"model_type\":\"qwen3_5_moe_text\"}}",
        ERR_FORMAT, "does not belong");
    check_fails("[]", ERR_FORMAT, "must be a JSON object");
    check_fails("{", ERR_FORMAT, "JSON");
    check_fails("{\"model_type\":\"qwen3_5\",\"model_type\":\"qwen3_5\"}", ERR_FORMAT, "JSON");
    check_fails("{\"model_type\":3}", ERR_FORMAT, "model_type must be a string");
    check_fails("{\"model_type\":\"qwen3_5\",\"text_config\":[]}", ERR_FORMAT,
                "text_config must be an object");
}

/* The flat dense config with one more member in front: the last of two equal keys is an error, so
 * `drop` names the member to leave out. */
static void check_change(const char *drop, const char *member, status want, const char *words)
{
    static const char base[] = "," DENSE "," SHAPE "," ROPE "," REST "}";
    char text[3000];
    snprintf(text, sizeof text, "{%s%s", member, base);
    if (drop) {
        char key[64];
        snprintf(key, sizeof key, "\"%s\":", drop);
        char *at = strstr(text + strlen(member) + 1, key);
        assert_non_null(at);
        char *end = at + strlen(key);
        int depth = 0;
        while (depth > 0 || (*end != ',' && *end != '}')) {
            depth += (*end == '[' || *end == '{') - (*end == ']' || *end == '}');
            end++;
        }
        if (member[0] == '\0' || at[-1] == ',') memmove(at - 1, end, strlen(end) + 1);
        if (member[0] == '\0') memmove(text + 1, text + 2, strlen(text + 2) + 1);
    }
    check_fails(text, want, words);
}

TEST(every_dimension_is_checked_and_named)
{
    static const struct {
        const char *key, *member, *words;
    } rows[] = {
        {"hidden_size", "", "hidden_size is missing"},
        {"hidden_size", "\"hidden_size\":0", "hidden_size is 0, must be 2 to 65536"},
        {"hidden_size", "\"hidden_size\":-5120", "hidden_size is -5120"},
        {"hidden_size", "\"hidden_size\":4398046511105", "hidden_size is 4398046511105"},
        {"hidden_size", "\"hidden_size\":1e300", "must be a whole number"},
        {"num_hidden_layers", "", "num_hidden_layers is missing"},
        {"num_hidden_layers", "\"num_hidden_layers\":257", "must be 1 to 256"},
        {"num_attention_heads", "\"num_attention_heads\":0", "num_attention_heads is 0"},
        {"num_key_value_heads", "\"num_key_value_heads\":5", "does not divide 24 heads"},
        {"head_dim", "", "head_dim is missing"},
        {"head_dim", "\"head_dim\":255", "head_dim is 255, must be even"},
        {"head_dim", "\"head_dim\":2048", "head_dim is 2048"},
        {"vocab_size", "\"vocab_size\":0", "vocab_size is 0"},
        {"linear_num_key_heads", "\"linear_num_key_heads\":0", "linear_num_key_heads is 0"},
        {"linear_num_value_heads", "\"linear_num_value_heads\":40",
         "not a multiple of 16 key heads"},
        {"linear_key_head_dim", "\"linear_key_head_dim\":127", "linear_key_head_dim must be even"},
        {"linear_value_head_dim", "\"linear_value_head_dim\":1024", "must be 2 to 512"},
        {"linear_conv_kernel_dim", "\"linear_conv_kernel_dim\":1", "must be 2 to 8"},
        {"max_position_embeddings", "", "max_position_embeddings is missing"},
        {"max_position_embeddings", "\"max_position_embeddings\":0",
         "max_position_embeddings is 0"},
        {"intermediate_size", "", "intermediate_size is missing"},
        {"intermediate_size", "\"intermediate_size\":1000000000",
         "intermediate_size is 1000000000"},
        {"rms_norm_eps", "\"rms_norm_eps\":0", "rms_norm_eps is 0"},
        {"rms_norm_eps", "\"rms_norm_eps\":\"x\"", "rms_norm_eps must be a number"},
        {"full_attention_interval", "", "layer_types and full_attention_interval are both missing"},
        {"full_attention_interval", "\"full_attention_interval\":0",
         "full_attention_interval is 0"},
        {NULL, "\"layer_types\":[\"full_attention\"]", "layer_types has 1 entries"},
        {"rope_parameters", "", "rope_theta is missing"},
        {"rope_parameters", "\"rope_parameters\":{\"rope_theta\":0}", "rope_theta is 0"},
        {"rope_parameters",
         "\"rope_parameters\":{\"rope_theta\":1e4,\"partial_rotary_factor\":0.001}",
         "rotates 0 of 256"},
        {"rope_parameters",
         "\"rope_parameters\":{\"rope_theta\":1e4,\"partial_rotary_factor\":0.02}",
         "rotates 5 of 256"},
        {"rope_parameters", "\"rope_parameters\":{\"rope_theta\":1e4,\"mrope_section\":[11,11,11]}",
         "add up to 32"},
        {"rope_parameters", "\"rope_parameters\":{\"rope_theta\":1e4,\"mrope_section\":[32]}",
         "add up to 32"},
        {"rope_parameters", "\"rope_parameters\":{\"rope_theta\":1e4,\"mrope_section\":[33,-1,0]}",
         "add up to 32"},
        {NULL, "\"eos_token_id\":248320", "eos_token_id must be token ids from 0 to 248319"},
        {NULL, "\"eos_token_id\":[1,\"x\"]", "eos_token_id must be token ids"},
        {NULL, "\"pad_token_id\":248320", "pad_token_id is 248320"},
        {NULL, "\"attn_output_gate\":1", "attn_output_gate must be true or false"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_change(rows[i].key, rows[i].member, ERR_FORMAT, rows[i].words);
}

TEST(what_changes_the_computation_is_unsupported)
{
    static const char *const rows[][3] = {
        {NULL, "\"hidden_act\":\"gelu\"", "hidden_act is 'gelu'"},
        {NULL, "\"attention_bias\":true", "attention_bias is true"},
        {NULL, "\"output_gate_type\":\"tanh\"", "output_gate_type is not swish"},
        {"rope_parameters",
         "\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":1e7,\"factor\":4}",
         "is 'yarn'"},
        {"rope_parameters", "\"rope_parameters\":{\"rope_theta\":1e7,\"mrope_interleaved\":false}",
         "mrope_interleaved"},
        {NULL, "\"eos_token_id\":[1,2,3,4,5,6,7,8,9]", "more than 8 stop ids"},
        {NULL, "\"quantization_config\":{\"quant_method\":\"awq\"}", "'awq'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_change(rows[i][0], rows[i][1], ERR_UNSUPPORTED, rows[i][2]);
}

TEST(expert_counts_are_checked)
{
    static const char *const rows[][2] = {
        {"\"num_experts\":4,\"num_experts_per_tok\":5,\"moe_intermediate_size\":8,"
         "\"shared_expert_intermediate_size\":8",
         "num_experts_per_tok is 5 of 4 experts"},
        {"\"num_experts\":0,\"num_experts_per_tok\":5", "num_experts is 0"},
        {"\"num_experts\":4", "num_experts_per_tok is missing"},
        {"\"num_experts\":4,\"num_experts_per_tok\":4,\"moe_intermediate_size\":8",
         "shared_expert_intermediate_size is missing"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[3000];
        snprintf(text, sizeof text,
                 "{\"model_type\":\"qwen3_5_moe\",%s," SHAPE "," ROPE "," REST "}", rows[i][0]);
        check_fails(text, ERR_FORMAT, rows[i][1]);
    }
    check_fails("{\"model_type\":\"qwen3_5_moe\",\"num_experts\":4,\"num_experts_per_tok\":4,"
                "\"moe_intermediate_size\":8,\"shared_expert_intermediate_size\":8,"
                "\"mlp_only_layers\":[0]," SHAPE "," ROPE "," REST "}",
                ERR_UNSUPPORTED, "mlp_only_layers");
}
