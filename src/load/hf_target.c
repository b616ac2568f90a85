/* Keys of a target: model-spec 1.1. */
#include "load/hf_config_priv.h"

static void read_layer_types(keys *k, arch_target *a)
{
    int interval = 4;
    bool has_interval = keys_int(k, "full_attention_interval", 1, ARCH_LAYERS_MAX, &interval);
    const json *list = keys_container(k, "layer_types", JSON_ARRAY);
    if (k->s != ERR_OK) return;
    if (!list && !has_interval) {
        keys_fail(k, ERR_FORMAT, "layer_types", "and full_attention_interval are both missing");
        return;
    }
    for (int i = 0; !list && i < a->n_layers; i++)
        a->layer_type[i] = (i + 1) % interval == 0 ? ARCH_LAYER_ATTN : ARCH_LAYER_GDN;
    if (!list) return;
    if (list->n != a->n_layers) {
        keys_fail(k, ERR_FORMAT, "layer_types", "has %d entries, num_hidden_layers is %d", list->n,
                  a->n_layers);
        return;
    }
    int i = 0;
    for (const json *v = list->first; v; v = v->next, i++) {
        str type = {"", 0};
        json_to_str(v, &type);
        if (str_is(type, "full_attention")) {
            a->layer_type[i] = ARCH_LAYER_ATTN;
        } else if (str_is(type, "linear_attention")) {
            a->layer_type[i] = ARCH_LAYER_GDN;
        } else {
            keys_fail(k, ERR_UNSUPPORTED, "layer_types",
                      "entry %d is neither full_attention nor linear_attention", i);
            return;
        }
    }
}

/* Pairs per axis. With text alone all axes hold the same position, so a file without sections
 * still has one meaning. */
static void read_sections(keys *rope, arch_target *a)
{
    int n_pairs = a->n_rot / 2;
    const json *list = keys_container(rope, "mrope_section", JSON_ARRAY);
    if (rope->s != ERR_OK) return;
    if (!list) {
        bool is_usual = n_pairs == 32;
        a->mrope_section[0] = is_usual ? 11 : n_pairs;
        a->mrope_section[1] = is_usual ? 11 : 0;
        a->mrope_section[2] = is_usual ? 10 : 0;
        return;
    }
    int64_t sum = 0, n;
    bool is_ok = list->n == 3;
    for (int i = 0; is_ok && i < 3; i++) {
        is_ok = json_to_int64(json_at(list, i), &n) && n >= 0 && n <= n_pairs;
        if (!is_ok) break;
        a->mrope_section[i] = (int)n;
        sum += n;
    }
    if (!is_ok || sum != n_pairs)
        keys_fail(rope, ERR_FORMAT, "mrope_section", "must be three counts that add up to %d",
                  n_pairs);
}

static void read_rope(keys *k, arch_target *a)
{
    keys rope = hf_read_rope(k, &a->rope_theta);
    double factor = 0.25; /* the class's default */
    bool is_interleaved = true;
    if (!keys_double(&rope, "partial_rotary_factor", 0, 1, &factor) && rope.s == ERR_OK) {
        keys_double(k, "partial_rotary_factor", 0, 1, &factor);
        rope.s = k->s;
    }
    if (keys_bool(&rope, "mrope_interleaved", &is_interleaved) && !is_interleaved)
        keys_fail(&rope, ERR_UNSUPPORTED, "mrope_interleaved", "is false");
    a->n_rot = (int)(a->D * factor);
    if (rope.s == ERR_OK && (a->n_rot < 2 || a->n_rot % 2 != 0))
        keys_fail(&rope, ERR_FORMAT, "partial_rotary_factor",
                  "%g rotates %d of %d dimensions: must be even and not 0", factor, a->n_rot, a->D);
    if (rope.s == ERR_OK) read_sections(&rope, a);
    k->s = rope.s;
}

static void read_delta_rule(keys *k, arch_target *a)
{
    str gate;
    keys_need_int(k, "linear_num_key_heads", 1, HF_HEADS_MOST, &a->gdn_Hk);
    keys_need_int(k, "linear_num_value_heads", 1, HF_HEADS_MOST, &a->gdn_Hv);
    keys_need_int(k, "linear_key_head_dim", 2, 512, &a->gdn_dk);
    keys_need_int(k, "linear_value_head_dim", 2, 512, &a->gdn_dv);
    keys_need_int(k, "linear_conv_kernel_dim", 2, 8, &a->gdn_conv);
    if (keys_str(k, "output_gate_type", &gate) && !str_is(gate, "swish") && !str_is(gate, "silu"))
        keys_fail(k, ERR_UNSUPPORTED, "output_gate_type", "is not swish");
    if (k->s != ERR_OK) return;
    if (a->gdn_Hv % a->gdn_Hk != 0)
        keys_fail(k, ERR_FORMAT, "linear_num_value_heads", "is %d, not a multiple of %d key heads",
                  a->gdn_Hv, a->gdn_Hk);
    if (a->gdn_dk % 2 != 0) keys_fail(k, ERR_FORMAT, "linear_key_head_dim", "must be even");
    if (a->gdn_dv % 2 != 0) keys_fail(k, ERR_FORMAT, "linear_value_head_dim", "must be even");
}

static void read_ffn(keys *k, arch_target *a)
{
    if (a->family == ARCH_QWEN35) {
        keys_need_int(k, "intermediate_size", 1, HF_FFN_MOST, &a->F);
        return;
    }
    keys_need_int(k, "num_experts", 1, 4096, &a->X);
    keys_need_int(k, "num_experts_per_tok", 1, 64, &a->K);
    keys_need_int(k, "moe_intermediate_size", 1, HF_FFN_MOST, &a->moe_F);
    keys_need_int(k, "shared_expert_intermediate_size", 1, HF_FFN_MOST, &a->shared_F);
    if (k->s == ERR_OK && a->K > a->X)
        keys_fail(k, ERR_FORMAT, "num_experts_per_tok", "is %d of %d experts", a->K, a->X);
    const json *dense = keys_container(k, "mlp_only_layers", JSON_ARRAY);
    if (dense && dense->n > 0)
        keys_fail(k, ERR_UNSUPPORTED, "mlp_only_layers", "names layers without experts");
}

/* A token id or a list of them; ids that are there already are left out. */
static void add_eos(keys *k, const char *key, arch_target *a)
{
    const json *v = k->s == ERR_OK ? keys_find(k, key) : NULL;
    const json *item = json_is(v, JSON_ARRAY) ? v->first : v;
    for (; item; item = v->kind == JSON_ARRAY ? item->next : NULL) {
        int64_t id;
        bool is_known = false;
        if (!json_to_int64(item, &id) || id < 0 || id >= a->V) {
            keys_fail(k, ERR_FORMAT, key, "must be token ids from 0 to %d", a->V - 1);
            return;
        }
        for (int i = 0; i < a->n_eos; i++) is_known |= a->eos[i] == (int32_t)id;
        if (is_known) continue;
        if (a->n_eos == ARCH_EOS_MAX) {
            keys_fail(k, ERR_UNSUPPORTED, key, "has more than %d stop ids", ARCH_EOS_MAX);
            return;
        }
        a->eos[a->n_eos++] = (int32_t)id;
    }
}

/* Root and text_config may both hold a tie flag, and converters have changed only one of them. */
static void read_tie(keys *root, keys *text, hf_config *c)
{
    bool outer = false, inner = false;
    bool has_outer = keys_bool(root, "tie_word_embeddings", &outer);
    bool has_inner = keys_bool(text, "tie_word_embeddings", &inner);
    c->target.is_tied = has_outer ? outer : inner;
    c->is_tie_disputed = has_outer && has_inner && outer != inner;
}

status hf_target_parse(hf_config *c, arch_family family, const json *root, const json *text,
                       const char *label, const char *file, err *e)
{
    arch_target *a = &c->target;
    keys k, r;
    keys_init(&k, text, label, file, e);
    *a = (arch_target){.family = family, .rms_eps = 1e-6f, .has_output_gate = true, .pad_id = -1};
    keys_need_int(&k, "num_hidden_layers", 1, ARCH_LAYERS_MAX, &a->n_layers);
    keys_need_int(&k, "hidden_size", 2, HF_WIDTH_MOST, &a->E);
    keys_need_int(&k, "vocab_size", 1, HF_VOCAB_MOST, &a->V);
    hf_read_heads(&k, &a->H, &a->G, &a->D);
    keys_bool(&k, "attn_output_gate", &a->has_output_gate);
    hf_read_activation(&k);
    keys_float(&k, "rms_norm_eps", 1e-12, 0.1, &a->rms_eps);
    if (k.s == ERR_OK &&
        !keys_int64(&k, "max_position_embeddings", 1, HF_POSITION_MOST, &a->max_position))
        keys_fail(&k, ERR_FORMAT, "max_position_embeddings", "is missing");
    read_layer_types(&k, a);
    read_rope(&k, a);
    read_delta_rule(&k, a);
    read_ffn(&k, a);
    TRY(k.s);

    keys_init(&r, root, "", file, e);
    read_tie(&r, &k, c);
    add_eos(&r, "eos_token_id", a);
    TRY(r.s);
    add_eos(&k, "eos_token_id", a);
    int pad;
    /* Some files write -1 for "none". */
    if (keys_int(&r, "pad_token_id", -1, a->V - 1, &pad) ||
        (r.s == ERR_OK && keys_int(&k, "pad_token_id", -1, a->V - 1, &pad)))
        a->pad_id = pad;
    TRY(r.s);
    return k.s;
}
