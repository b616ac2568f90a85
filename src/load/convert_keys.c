#include <stdio.h>

#include "load/convert_priv.h"

typedef struct {
    gguf_out_keys *k;
    const char *arch;
} out;

static const char *full(const out *o, const char *key, char *text, int cap)
{
    snprintf(text, (size_t)cap, "%s.%s", o->arch, key);
    return text;
}

static void put_u32(const out *o, const char *key, int64_t v)
{
    char text[80];
    gguf_out_u32(o->k, full(o, key, text, sizeof text), (uint32_t)v);
}

static void put_f32(const out *o, const char *key, double v)
{
    char text[80];
    gguf_out_f32(o->k, full(o, key, text, sizeof text), (float)v);
}

static void put_ints(const out *o, const char *key, const int32_t *v, int n)
{
    char text[80];
    gguf_out_ints(o->k, full(o, key, text, sizeof text), v, n);
}

/* The interval rule where it says the same, else a list of the layers without attention. */
static void put_layers(const out *o, const arch_target *a)
{
    int32_t list[ARCH_LAYERS_MAX];
    int interval = 0;
    while (interval < a->n_layers && a->layer_type[interval] != ARCH_LAYER_ATTN) interval++;
    interval++;
    bool is_regular = true;
    for (int i = 0; i < a->n_layers; i++) {
        bool has_attention = a->layer_type[i] == ARCH_LAYER_ATTN;
        list[i] = !has_attention;
        is_regular &= has_attention == ((i + 1) % interval == 0);
    }
    put_u32(o, "full_attention_interval", is_regular ? interval : 1);
    if (!is_regular) put_ints(o, "attention.recurrent_layers", list, a->n_layers);
}

static void put_target(const out *o, const arch_target *a)
{
    int32_t sections[4] = {a->mrope_section[0], a->mrope_section[1], a->mrope_section[2], 0};
    put_u32(o, "block_count", a->n_layers);
    put_u32(o, "context_length", a->max_position);
    put_u32(o, "embedding_length", a->E);
    put_u32(o, "vocab_size", a->V);
    put_u32(o, "attention.head_count", a->H);
    put_u32(o, "attention.head_count_kv", a->G);
    put_u32(o, "attention.key_length", a->D);
    put_u32(o, "attention.value_length", a->D);
    put_f32(o, "attention.layer_norm_rms_epsilon", (double)a->rms_eps);
    put_f32(o, "rope.freq_base", a->rope_theta);
    put_u32(o, "rope.dimension_count", a->n_rot);
    put_ints(o, "rope.dimension_sections", sections, 4);
    put_u32(o, "ssm.conv_kernel", a->gdn_conv);
    put_u32(o, "ssm.state_size", a->gdn_dk);
    put_u32(o, "ssm.group_count", a->gdn_Hk);
    put_u32(o, "ssm.time_step_rank", a->gdn_Hv);
    put_u32(o, "ssm.inner_size", (int64_t)a->gdn_Hv * a->gdn_dv);
    put_layers(o, a);
    if (a->family == ARCH_QWEN35) {
        put_u32(o, "feed_forward_length", a->F);
        return;
    }
    put_u32(o, "expert_count", a->X);
    put_u32(o, "expert_used_count", a->K);
    put_u32(o, "expert_feed_forward_length", a->moe_F);
    put_u32(o, "expert_shared_feed_forward_length", a->shared_F);
}

static void put_draft(const out *o, const arch_draft *d)
{
    int32_t taps[ARCH_TAPS_MAX], sliding[ARCH_LAYERS_MAX], sections[4] = {d->D / 2, 0, 0, 0};
    char text[80];
    for (int i = 0; i < d->n_taps; i++) taps[i] = d->taps[i] + 1; /* this dialect counts from 1 */
    for (int i = 0; i < d->n_layers; i++) sliding[i] = d->layer_is_sliding[i];
    put_u32(o, "block_count", d->n_layers);
    put_u32(o, "embedding_length", d->E);
    put_u32(o, "feed_forward_length", d->F);
    put_u32(o, "vocab_size", d->V);
    put_u32(o, "attention.head_count", d->H);
    put_u32(o, "attention.head_count_kv", d->G);
    put_u32(o, "attention.key_length", d->D);
    put_u32(o, "attention.value_length", d->D);
    put_f32(o, "attention.layer_norm_rms_epsilon", (double)d->rms_eps);
    gguf_out_bool(o->k, full(o, "attention.causal", text, sizeof text), d->layer_is_causal[0]);
    put_f32(o, "rope.freq_base", d->rope_theta);
    put_u32(o, "rope.dimension_count", d->D);
    put_ints(o, "rope.dimension_sections", sections, 4);
    if (d->window > 0) {
        put_u32(o, "attention.sliding_window", d->window);
        put_ints(o, "attention.sliding_window_pattern", sliding, d->n_layers);
    }
    put_u32(o, "block_size", d->block);
    put_ints(o, "target_layers", taps, d->n_taps);
    put_f32(o, "logit_scale", (double)d->logit_scale);
    if (d->logit_softcap > 0) put_f32(o, "final_logit_softcapping", (double)d->logit_softcap);
    gguf_out_u32(o->k, "tokenizer.ggml.mask_token_id", (uint32_t)d->mask_id);
    if (!d->is_v2) return;
    put_u32(o, "conv_kernel_size", d->conv_taps);
    put_u32(o, "conv_group_size", d->conv_group);
    put_u32(o, "selector_rank", d->select_rank);
    put_u32(o, "selector_top_k", d->select_top_k);
}

static void put_sampling(gguf_out_keys *k, const arch_sampling *s)
{
    if (s->has_temperature) gguf_out_f32(k, "general.sampling.temp", (float)s->temperature);
    if (s->has_top_p) gguf_out_f32(k, "general.sampling.top_p", (float)s->top_p);
    if (s->has_top_k) gguf_out_u32(k, "general.sampling.top_k", (uint32_t)s->top_k);
    if (s->has_min_p) gguf_out_f32(k, "general.sampling.min_p", (float)s->min_p);
}

/* What the format has no key for must have its usual value. */
static status check_draft(const load_model *m, err *e)
{
    const arch_draft *d = &m->draft;
    bool is_mixed = false;
    for (int i = 1; i < d->n_layers; i++)
        is_mixed |= d->layer_is_causal[i] != d->layer_is_causal[0];
    if (!is_mixed && d->embed_scale == 1) return ERR_OK;
    return err_set(e, ERR_UNSUPPORTED, m->name, -1, "a GGUF draft has no key for %s",
                   is_mixed ? "layers of which only some are causal" : "input_embedding_scale");
}

status convert_put_keys(const load_model *m, int file_type, gguf_out_keys *k, err *e)
{
    out o = {k, "dflash"};
    if (!m->is_draft) o.arch = m->target.family == ARCH_QWEN35 ? "qwen35" : "qwen35moe";
    if (m->is_draft) TRY(check_draft(m, e));
    if (!m->is_draft && !m->target.has_output_gate)
        return err_set(e, ERR_UNSUPPORTED, m->name, -1,
                       "a GGUF target has no key for attention without an output gate");
    gguf_out_str(k, "general.architecture", str_from(o.arch));
    gguf_out_str(k, "general.type", STR("model"));
    gguf_out_str(k, "general.name", str_from(m->name));
    gguf_out_u32(k, "general.quantization_version", 2);
    if (file_type >= 0) gguf_out_u32(k, "general.file_type", (uint32_t)file_type);
    put_sampling(k, &m->sampling);
    if (m->is_draft)
        put_draft(&o, &m->draft);
    else
        put_target(&o, &m->target);
    return convert_put_tokenizer(m, k, e);
}
