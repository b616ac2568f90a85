/* fixture_gguf_model: a whole small target or draft as a GGUF file, from model-spec 4.3 alone.
 *
 * Dimensions: E 32, 4 layers (the last has attention), H 2, G 1, D 32, Hk 2, Hv 6, dk 16, dv 32,
 * F 64, X 4 experts of 32. Norms hold ones, decays -1, -2, …; element i of the file's row r of any
 * other matrix holds r + i / 1000, in the file's order of rows. */
#ifndef RIPTIDE_TESTS_FIXTURE_GGUF_MODEL_H
#define RIPTIDE_TESTS_FIXTURE_GGUF_MODEL_H

#include "fixture_gguf.h"

enum { T_E = 32, T_V = 48, T_HK = 2, T_HV = 6, T_DK = 16, T_DV = 32, T_KEYS = 2 * T_HK * T_DK };

MADE void model_ones(made_gguf *g, const char *name, int64_t n)
{
    float v[256];
    for (int i = 0; i < n; i++) v[i] = 1;
    made_tensor(g, name, 1, &n, 0, v, (size_t)n * 4);
}

/* f32, or with is_q8 Q8_0 blocks of scale 1 that hold the row's number modulo 100. */
MADE void model_matrix(made_gguf *g, const char *name, int64_t x, int64_t n, int64_t k, bool is_q8)
{
    int64_t ne[] = {k, n, x};
    size_t n_bytes = (size_t)(x * n * (is_q8 ? k / 32 * 34 : k * 4));
    uint8_t *bytes = calloc(1, n_bytes);
    for (int64_t r = 0; r < x * n; r++) {
        for (int64_t i = 0; i < k && !is_q8; i++) {
            float v = (float)r + (float)i / 1000;
            memcpy(bytes + (r * k + i) * 4, &v, 4);
        }
        for (int64_t b = 0; b < k / 32 && is_q8; b++) {
            uint8_t *p = bytes + (r * k / 32 + b) * 34;
            p[1] = 0x3c;
            memset(p + 2, (int)(r % 100), 32);
        }
    }
    made_tensor(g, name, x > 1 ? 3 : n > 1 ? 2 : 1, ne, is_q8 ? 8 : 0, bytes, n_bytes);
    free(bytes);
}

MADE void model_part(made_gguf *g, int layer, const char *part, int64_t n, int64_t k, bool is_q8)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%d.%s", layer, part);
    model_matrix(g, name, 1, n, k, is_q8);
}

MADE void model_norm(made_gguf *g, int layer, const char *part, int64_t n)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%d.%s", layer, part);
    model_ones(g, name, n);
}

MADE void model_tokens(made_gguf *g, int n)
{
    static const char *const first[] = {"a", "b", "ab", "<|im_end|>", "<|endoftext|>", "<think>"};
    static const int32_t kinds[] = {1, 1, 1, 3, 3, 4};
    static const char *const merges[] = {"a b"};
    const char *list[T_V];
    int32_t types[T_V];
    char pads[T_V][8];
    for (int i = 0; i < n; i++) {
        snprintf(pads[i], sizeof pads[i], "[P%d]", i);
        list[i] = i < 6 ? first[i] : pads[i];
        types[i] = i < 6 ? kinds[i] : 5;
    }
    made_str(g, "tokenizer.ggml.model", "gpt2");
    made_str(g, "tokenizer.ggml.pre", "qwen35");
    made_strs(g, "tokenizer.ggml.tokens", list, n);
    made_ints(g, "tokenizer.ggml.token_type", types, n);
    made_strs(g, "tokenizer.ggml.merges", merges, 1);
    made_u32(g, "tokenizer.ggml.eos_token_id", 3);
    made_u32(g, "tokenizer.ggml.bos_token_id", 4);
    made_u32(g, "tokenizer.ggml.padding_token_id", 4);
    made_str(g, "tokenizer.chat_template", "{{ messages }}");
}

/* A key with the architecture in front. */
MADE void model_u32(made_gguf *g, const char *arch, const char *key, uint32_t v)
{
    char full[80];
    snprintf(full, sizeof full, "%s.%s", arch, key);
    made_u32(g, full, v);
}

MADE void model_target_keys(made_gguf *g, bool is_moe, int n_blocks)
{
    const char *a = is_moe ? "qwen35moe" : "qwen35";
    made_str(g, "general.architecture", a);
    made_f32(g, "general.sampling.temp", 0.5f);
    made_u32(g, "general.sampling.top_k", 20);
    static const struct {
        const char *key;
        uint32_t v;
    } rows[] = {{"context_length", 4096},       {"embedding_length", T_E},
                {"attention.head_count", 2},    {"attention.head_count_kv", 1},
                {"attention.key_length", 32},   {"attention.value_length", 32},
                {"rope.dimension_count", 16},   {"ssm.conv_kernel", 4},
                {"ssm.state_size", T_DK},       {"ssm.group_count", T_HK},
                {"ssm.time_step_rank", T_HV},   {"ssm.inner_size", T_HV * T_DV},
                {"full_attention_interval", 4}, {"feed_forward_length", 64}};
    static const struct {
        const char *key;
        uint32_t v;
    } experts[] = {{"expert_count", 4},
                   {"expert_used_count", 2},
                   {"expert_feed_forward_length", 32},
                   {"expert_shared_feed_forward_length", 32}};
    model_u32(g, a, "block_count", (uint32_t)n_blocks);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) model_u32(g, a, rows[i].key, rows[i].v);
    for (int i = 0; i < 4 && is_moe; i++) model_u32(g, a, experts[i].key, experts[i].v);
    static const int32_t sections[] = {3, 3, 2, 0};
    char key[64];
    snprintf(key, sizeof key, "%s.rope.dimension_sections", a);
    made_ints(g, key, sections, 4);
}

MADE void model_delta_layer(made_gguf *g, int i, bool is_q8)
{
    int64_t values = T_HV * T_DV;
    float decay[T_HV];
    int64_t n = T_HV;
    char name[64];
    for (int h = 0; h < T_HV; h++) decay[h] = (float)(-1 - h);
    model_part(g, i, "attn_qkv.weight", T_KEYS + values, T_E, is_q8);
    model_part(g, i, "attn_gate.weight", values, T_E, is_q8);
    model_part(g, i, "ssm_beta.weight", T_HV, T_E, is_q8);
    model_part(g, i, "ssm_alpha.weight", T_HV, T_E, is_q8);
    model_part(g, i, "ssm_conv1d.weight", T_KEYS + values, 4, false);
    model_part(g, i, "ssm_dt.bias", 1, T_HV, false);
    snprintf(name, sizeof name, "blk.%d.ssm_a", i);
    made_tensor(g, name, 1, &n, 0, decay, sizeof decay);
    model_norm(g, i, "ssm_norm.weight", T_DV);
    model_part(g, i, "ssm_out.weight", T_E, values, is_q8);
}

MADE void model_ffn(made_gguf *g, int i, bool is_moe, bool is_q8)
{
    static const char *const parts[] = {"ffn_gate_exps",  "ffn_up_exps",  "ffn_down_exps",
                                        "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"};
    char name[64];
    if (!is_moe) {
        model_part(g, i, "ffn_gate.weight", 64, T_E, is_q8);
        model_part(g, i, "ffn_up.weight", 64, T_E, is_q8);
        model_part(g, i, "ffn_down.weight", T_E, 64, is_q8);
        return;
    }
    model_part(g, i, "ffn_gate_inp.weight", 4, T_E, false);
    model_part(g, i, "ffn_gate_inp_shexp.weight", 1, T_E, false);
    for (int p = 0; p < 6; p++) {
        snprintf(name, sizeof name, "blk.%d.%s.weight", i, parts[p]);
        model_matrix(g, name, p < 3 ? 4 : 1, 32, 32, is_q8);
    }
}

MADE void model_target_tensors(made_gguf *g, bool is_moe, bool is_q8)
{
    model_matrix(g, "token_embd.weight", 1, T_V, T_E, is_q8);
    for (int i = 0; i < 4; i++) {
        model_norm(g, i, "attn_norm.weight", T_E);
        model_norm(g, i, "post_attention_norm.weight", T_E);
        if (i < 3) {
            model_delta_layer(g, i, is_q8);
        } else {
            model_part(g, i, "attn_q.weight", 128, T_E, is_q8);
            model_part(g, i, "attn_k.weight", 32, T_E, is_q8);
            model_part(g, i, "attn_v.weight", 32, T_E, is_q8);
            model_part(g, i, "attn_output.weight", T_E, 64, is_q8);
            model_norm(g, i, "attn_q_norm.weight", 32);
            model_norm(g, i, "attn_k_norm.weight", 32);
        }
        model_ffn(g, i, is_moe, is_q8);
    }
    model_ones(g, "output_norm.weight", T_E);
}

MADE made_gguf model_target(bool is_moe, bool is_q8)
{
    made_gguf g = made_new();
    model_target_keys(&g, is_moe, 4);
    model_tokens(&g, T_V);
    model_target_tensors(&g, is_moe, is_q8);
    return g;
}

/* Two layers, H 4, G 2, D 16, F 64, block 8, reads layers 0 and 2; v2 with rank 32. */
MADE made_gguf model_draft(bool is_ik, bool is_v2)
{
    made_gguf g = made_new();
    const char *a = is_ik ? "dflash-draft" : "dflash";
    static const int32_t raw[] = {0, 2}, shifted[] = {1, 3};
    made_str(&g, "general.architecture", a);
    model_u32(&g, a, "block_count", 2);
    model_u32(&g, a, "embedding_length", T_E);
    model_u32(&g, a, "feed_forward_length", 64);
    model_u32(&g, a, "attention.head_count", 4);
    model_u32(&g, a, "attention.head_count_kv", 2);
    model_u32(&g, a, "attention.key_length", 16);
    model_u32(&g, a, is_ik ? "dflash.block_size" : "block_size", 8);
    if (is_ik)
        made_ints(&g, "dflash-draft.dflash.target_layer_ids", raw, 2);
    else
        made_ints(&g, "dflash.target_layers", shifted, 2);
    made_u32(&g, is_ik ? "dflash-draft.dflash.mask_token_id" : "tokenizer.ggml.mask_token_id", 7);
    model_tokens(&g, T_V);
    model_matrix(&g, is_ik ? "dflash_fc.weight" : "fc.weight", 1, T_E, 2 * T_E, true);
    model_ones(&g, is_ik ? "dflash_hidden_norm.weight" : "enc.output_norm.weight", T_E);
    model_ones(&g, "output_norm.weight", T_E);
    for (int i = 0; i < 2; i++) {
        model_norm(&g, i, "attn_norm.weight", T_E);
        model_norm(&g, i, is_ik ? "post_attention_norm.weight" : "ffn_norm.weight", T_E);
        model_part(&g, i, "attn_q.weight", 64, T_E, true);
        model_part(&g, i, "attn_k.weight", 32, T_E, true);
        model_part(&g, i, "attn_v.weight", 32, T_E, true);
        model_part(&g, i, "attn_output.weight", T_E, 64, true);
        model_norm(&g, i, "attn_q_norm.weight", 16);
        model_norm(&g, i, "attn_k_norm.weight", 16);
        model_ffn(&g, i, false, true);
        if (!is_v2) continue;
        for (int wrap = 0; wrap < 2; wrap++) {
            char name[64];
            float base[4 * T_E] = {0};
            int64_t ne[] = {T_E, 2, 2};
            for (int k = 0; k < 4 * T_E; k++) base[k] = (float)k;
            snprintf(name, sizeof name, "blk.%d.%s_conv_base", i, wrap ? "ffn" : "attn");
            made_tensor(&g, name, 3, ne, 0, base, sizeof base);
            model_part(&g, i, wrap ? "ffn_conv_proj.weight" : "attn_conv_proj.weight", 8, T_E,
                       true);
        }
    }
    if (!is_v2) return g;
    model_u32(&g, a, "selector_rank", 32);
    model_matrix(&g, "selector_predecessor.weight", 1, T_V, 32, true);
    model_matrix(&g, "selector_successor.weight", 1, T_V, 32, true);
    model_matrix(&g, "selector_hidden.weight", 1, 32, T_E, true);
    return g;
}

#endif
