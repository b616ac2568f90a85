/* Keys of a target in a GGUF file: model-spec 4.3. */
#include "load/gguf_config_priv.h"
#include "load/hf_config_priv.h"

/* Which layers have attention: a list of the others, a list of KV heads with zeros (Ollama), or
 * every n-th. The MTP layers, which block_count includes, lie behind those of the model. */
static void read_layers(gguf_keys *k, arch_target *a)
{
    int n_more = 0, interval = 4, list[ARCH_LAYERS_MAX], n_blocks = 0;
    gguf_keys_need_int(k, "block_count", 1, ARCH_LAYERS_MAX, &n_blocks);
    gguf_keys_int(k, "nextn_predict_layers", 0, ARCH_LAYERS_MAX, &n_more);
    gguf_keys_int(k, "full_attention_interval", 1, ARCH_LAYERS_MAX, &interval);
    if (k->s != ERR_OK) return;
    a->n_layers = n_blocks - n_more;
    if (a->n_layers < 1) {
        gguf_keys_fail(k, ERR_FORMAT, "nextn_predict_layers", "is %d of %d blocks", n_more,
                       n_blocks);
        return;
    }
    const char *key = "attention.recurrent_layers";
    const gguf_value *kv = gguf_keys_find(k, "attention.head_count_kv");
    bool is_recurrent = gguf_keys_find(k, key) != NULL, is_list = is_recurrent;
    if (!is_recurrent && kv && kv->is_array) {
        key = "attention.head_count_kv";
        is_list = true;
    }
    int n = is_list ? gguf_keys_ints(k, key, 0, HF_HEADS_MOST, ARCH_LAYERS_MAX, list) : 0;
    if (is_list && k->s == ERR_OK && n < a->n_layers)
        gguf_keys_fail(k, ERR_FORMAT, key, "has %d entries for %d layers", n, a->n_layers);
    if (k->s != ERR_OK) return;
    for (int i = 0; i < a->n_layers; i++) {
        bool is_gdn = (i + 1) % interval != 0;
        if (is_list) is_gdn = (list[i] != 0) == is_recurrent;
        a->layer_type[i] = is_gdn ? ARCH_LAYER_GDN : ARCH_LAYER_ATTN;
    }
}

static void read_rotation(gguf_keys *k, arch_target *a)
{
    int list[4], sum = 0;
    gguf_read_rope(k, &a->rope_theta);
    a->n_rot = a->D / 4;
    gguf_keys_int(k, "rope.dimension_count", 2, a->D, &a->n_rot);
    if (k->s == ERR_OK && (a->n_rot < 2 || a->n_rot % 2 != 0))
        gguf_keys_fail(k, ERR_FORMAT, "rope.dimension_count", "is %d, must be even and not 0",
                       a->n_rot);
    int n = gguf_keys_ints(k, "rope.dimension_sections", 0, a->n_rot / 2, 4, list);
    bool is_usual = a->n_rot == 64;
    a->mrope_section[0] = is_usual ? 11 : a->n_rot / 2;
    a->mrope_section[1] = is_usual ? 11 : 0;
    a->mrope_section[2] = is_usual ? 10 : 0;
    for (int i = 0; i < n; i++) {
        sum += list[i];
        if (i < 3) a->mrope_section[i] = list[i];
    }
    if (n >= 0 && (n < 3 || sum != a->n_rot / 2 || (n == 4 && list[3] != 0)))
        gguf_keys_fail(k, ERR_FORMAT, "rope.dimension_sections",
                       "must be three counts that add up to %d", a->n_rot / 2);
}

static void read_delta_rule(gguf_keys *k, arch_target *a)
{
    int inner = 0;
    gguf_keys_need_int(k, "ssm.group_count", 1, HF_HEADS_MOST, &a->gdn_Hk);
    gguf_keys_need_int(k, "ssm.time_step_rank", 1, HF_HEADS_MOST, &a->gdn_Hv);
    gguf_keys_need_int(k, "ssm.state_size", 2, 512, &a->gdn_dk);
    gguf_keys_need_int(k, "ssm.conv_kernel", 2, 8, &a->gdn_conv);
    gguf_keys_need_int(k, "ssm.inner_size", 2, 512 * HF_HEADS_MOST, &inner);
    if (k->s != ERR_OK) return;
    a->gdn_dv = inner / a->gdn_Hv;
    if (inner % a->gdn_Hv != 0 || a->gdn_dv < 2 || a->gdn_dv > 512 || a->gdn_dv % 2 != 0)
        gguf_keys_fail(k, ERR_FORMAT, "ssm.inner_size", "is %d for %d heads", inner, a->gdn_Hv);
    if (a->gdn_Hv % a->gdn_Hk != 0)
        gguf_keys_fail(k, ERR_FORMAT, "ssm.time_step_rank", "is %d, not a multiple of %d key heads",
                       a->gdn_Hv, a->gdn_Hk);
    if (a->gdn_dk % 2 != 0) gguf_keys_fail(k, ERR_FORMAT, "ssm.state_size", "must be even");
}

static void read_ffn(gguf_keys *k, arch_target *a)
{
    if (a->family == ARCH_QWEN35) {
        gguf_keys_need_int(k, "feed_forward_length", 1, HF_FFN_MOST, &a->F);
        return;
    }
    gguf_keys_need_int(k, "expert_count", 1, 4096, &a->X);
    gguf_keys_need_int(k, "expert_used_count", 1, 64, &a->K);
    gguf_keys_need_int(k, "expert_feed_forward_length", 1, HF_FFN_MOST, &a->moe_F);
    gguf_keys_need_int(k, "expert_shared_feed_forward_length", 1, HF_FFN_MOST, &a->shared_F);
    if (k->s == ERR_OK && a->K > a->X)
        gguf_keys_fail(k, ERR_FORMAT, "expert_used_count", "is %d of %d experts", a->K, a->X);
}

static void add_eos(arch_target *a, int id)
{
    for (int i = 0; i < a->n_eos; i++)
        if (a->eos[i] == id) return;
    if (id < a->V && a->n_eos < ARCH_EOS_MAX) a->eos[a->n_eos++] = id;
}

/* The stop ids that the file names, then the two that end a turn or a text by their name: files
 * carry only one of them (model-spec 1.3, 5.25). */
static void read_stops(gguf_keys *k, arch_target *a)
{
    int id;
    if (gguf_keys_int(k, "eos_token_id", 0, a->V - 1, &id)) add_eos(a, id);
    if (gguf_keys_int(k, "eot_token_id", 0, a->V - 1, &id)) add_eos(a, id);
    if (gguf_keys_int(k, "padding_token_id", 0, a->V - 1, &id)) a->pad_id = id;
    const gguf_value *list = gguf_keys_find(k, "tokens");
    int64_t at = 0;
    for (int64_t i = 0; list && list->type == GGUF_STRING && i < list->n && i < a->V; i++) {
        str text = gguf_next_string(list, &at);
        if (str_is(text, "<|im_end|>") || str_is(text, "<|endoftext|>")) add_eos(a, (int)i);
    }
}

status gguf_target_parse(arch_target *a, arch_family family, const gguf_set *s, const char *prefix,
                         err *e)
{
    gguf_keys k, tokenizer;
    bool is_tied = gguf_set_find(s, "output.weight", NULL) == NULL;
    gguf_keys_init(&k, s->files[0], prefix, e);
    gguf_keys_init(&tokenizer, s->files[0], "tokenizer.ggml.", e);
    *a = (arch_target){.family = family,
                       .rms_eps = 1e-6f,
                       .has_output_gate = true,
                       .has_neg_decay = true,
                       .is_tied = is_tied,
                       .pad_id = -1};
    read_layers(&k, a);
    gguf_keys_need_int(&k, "embedding_length", 2, HF_WIDTH_MOST, &a->E);
    gguf_read_heads(&k, &a->H, &a->G, &a->D);
    gguf_keys_float(&k, "attention.layer_norm_rms_epsilon", 1e-12, 0.1, &a->rms_eps);
    if (k.s == ERR_OK &&
        !gguf_keys_int64(&k, "context_length", 1, HF_POSITION_MOST, &a->max_position))
        gguf_keys_fail(&k, ERR_FORMAT, "context_length", "is missing");
    if (k.s == ERR_OK) read_rotation(&k, a);
    read_delta_rule(&k, a);
    read_ffn(&k, a);
    TRY(k.s);
    TRY(gguf_read_rows(s, "token_embd.weight", HF_VOCAB_MOST, &a->V, e));
    read_stops(&tokenizer, a);
    return tokenizer.s;
}
