#include "load/gguf_names_priv.h"

#include <stdio.h>
#include <string.h>

/* Several spellings: llama.cpp, then Ollama's and ik_llama.cpp's. */
typedef struct {
    const char *canonical, *spelling[GGUF_SPELLINGS_MOST];
} name_row;

static const name_row whole[] = {
    {"embed_tokens.weight", {"token_embd.weight"}},
    {"norm.weight", {"output_norm.weight"}},
    {"lm_head.weight", {"output.weight"}},
    {"fc.weight", {"fc.weight", "dflash_fc.weight"}},
    {"hidden_norm.weight", {"enc.output_norm.weight", "dflash_hidden_norm.weight"}},
    {"candidate_selector.predecessor_codebook", {"selector_predecessor.weight"}},
    {"candidate_selector.successor_codebook", {"selector_successor.weight"}},
    {"candidate_selector.hidden_projection.weight", {"selector_hidden.weight"}},
};

/* Behind "layers.N." and "blk.N.". */
static const name_row in_layer[] = {
    {"input_layernorm.weight", {"attn_norm.weight"}},
    {"post_attention_layernorm.weight", {"post_attention_norm.weight", "ffn_norm.weight"}},
    {"self_attn.q_proj.weight", {"attn_q.weight"}},
    {"self_attn.k_proj.weight", {"attn_k.weight"}},
    {"self_attn.v_proj.weight", {"attn_v.weight"}},
    {"self_attn.o_proj.weight", {"attn_output.weight"}},
    {"self_attn.q_norm.weight", {"attn_q_norm.weight"}},
    {"self_attn.k_norm.weight", {"attn_k_norm.weight"}},
    {"linear_attn.in_proj_qkv.weight", {"attn_qkv.weight"}},
    {"linear_attn.in_proj_z.weight", {"attn_gate.weight"}},
    {"linear_attn.in_proj_b.weight", {"ssm_beta.weight"}},
    {"linear_attn.in_proj_a.weight", {"ssm_alpha.weight"}},
    {"linear_attn.conv1d.weight", {"ssm_conv1d.weight"}},
    {"linear_attn.A_log", {"ssm_a", "ssm_a.weight"}},
    {"linear_attn.dt_bias", {"ssm_dt.bias", "ssm_dt"}},
    {"linear_attn.norm.weight", {"ssm_norm.weight"}},
    {"linear_attn.out_proj.weight", {"ssm_out.weight"}},
    {"mlp.gate_proj.weight", {"ffn_gate.weight"}},
    {"mlp.up_proj.weight", {"ffn_up.weight"}},
    {"mlp.down_proj.weight", {"ffn_down.weight"}},
    {"mlp.gate.weight", {"ffn_gate_inp.weight"}},
    {"mlp.experts.gate_proj.weight", {"ffn_gate_exps.weight"}},
    {"mlp.experts.up_proj.weight", {"ffn_up_exps.weight"}},
    {"mlp.experts.down_proj.weight", {"ffn_down_exps.weight"}},
    {"mlp.shared_expert.gate_proj.weight", {"ffn_gate_shexp.weight"}},
    {"mlp.shared_expert.up_proj.weight", {"ffn_up_shexp.weight"}},
    {"mlp.shared_expert.down_proj.weight", {"ffn_down_shexp.weight"}},
    {"mlp.shared_expert_gate.weight", {"ffn_gate_inp_shexp.weight"}},
    {"attention_conv.base_kernel", {"attn_conv_base", "attn_conv_base.weight"}},
    {"attention_conv.kernel_projection.weight", {"attn_conv_proj.weight"}},
    {"mlp_conv.base_kernel", {"ffn_conv_base", "ffn_conv_base.weight"}},
    {"mlp_conv.kernel_projection.weight", {"ffn_conv_proj.weight"}},
};

static gguf_spellings fill(const char *const *spelling, const char *block)
{
    gguf_spellings s = {0};
    for (int i = 0; i < GGUF_SPELLINGS_MOST && spelling[i]; i++)
        snprintf(s.name[s.n++], GGUF_SPELLING_CAP, "%s%s", block, spelling[i]);
    return s;
}

gguf_spellings gguf_names_find(const char *canonical)
{
    int layer, length = 0;
    char block[32];
    if (sscanf(canonical, "layers.%d.%n", &layer, &length) == 1 && length > 0) {
        snprintf(block, sizeof block, "blk.%d.", layer);
        for (size_t i = 0; i < sizeof in_layer / sizeof *in_layer; i++)
            if (strcmp(in_layer[i].canonical, canonical + length) == 0)
                return fill(in_layer[i].spelling, block);
        return (gguf_spellings){0};
    }
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (strcmp(whole[i].canonical, canonical) == 0) return fill(whole[i].spelling, "");
    return (gguf_spellings){0};
}
