#include <stdio.h>

#include "base/json.h"
#include "load/load.h"
#include "load/weights_priv.h"

static void put_int(json_writer *w, const char *key, int64_t v)
{
    json_key(w, key);
    json_int(w, v);
}

static void put_bool(json_writer *w, const char *key, bool v)
{
    json_key(w, key);
    json_bool(w, v);
}

static void put_double(json_writer *w, const char *key, double v)
{
    json_key(w, key);
    json_double(w, v);
}

/* 1e-6f is 9.999999974752427e-07 as a double: write the digits that a float has. */
static void put_float(json_writer *w, const char *key, float v)
{
    buf text;
    double shown = v;
    buf_init(&text);
    buf_printf(&text, "%.7g", (double)v);
    str_to_double(buf_str(&text), &shown);
    buf_fini(&text);
    put_double(w, key, shown);
}

static void put_ints(json_writer *w, const char *key, const int32_t *list, int n)
{
    json_key(w, key);
    json_open_array(w);
    for (int i = 0; i < n; i++) json_int(w, list[i]);
    json_close_array(w);
}

static void put_target(json_writer *w, const arch_target *a)
{
    bool is_moe = a->family == ARCH_QWEN35_MOE;
    int n_attn = 0;
    for (int i = 0; i < a->n_layers; i++) n_attn += a->layer_type[i] == ARCH_LAYER_ATTN;
    json_key(w, "family");
    json_c_string(w, is_moe ? "qwen3_5_moe" : "qwen3_5");
    put_int(w, "layers", a->n_layers);
    put_int(w, "attention_layers", n_attn);
    put_int(w, "delta_rule_layers", a->n_layers - n_attn);
    put_int(w, "width", a->E);
    put_int(w, "vocabulary", a->V);
    put_int(w, "heads", a->H);
    put_int(w, "kv_heads", a->G);
    put_int(w, "head_size", a->D);
    put_bool(w, "has_output_gate", a->has_output_gate);
    put_int(w, "rotary_size", a->n_rot);
    put_double(w, "rope_theta", a->rope_theta);
    put_ints(w, "mrope_section", a->mrope_section, 3);
    put_int(w, "delta_key_heads", a->gdn_Hk);
    put_int(w, "delta_value_heads", a->gdn_Hv);
    put_int(w, "delta_key_size", a->gdn_dk);
    put_int(w, "delta_value_size", a->gdn_dv);
    put_int(w, "conv_kernel", a->gdn_conv);
    if (is_moe) {
        put_int(w, "experts", a->X);
        put_int(w, "experts_per_token", a->K);
        put_int(w, "expert_ffn_width", a->moe_F);
        put_int(w, "shared_expert_ffn_width", a->shared_F);
    } else {
        put_int(w, "ffn_width", a->F);
    }
    put_float(w, "rms_eps", a->rms_eps);
    put_int(w, "max_position", a->max_position);
    put_bool(w, "is_tied", a->is_tied);
    put_bool(w, "has_norm_offset", a->has_norm_offset);
    put_ints(w, "eos", a->eos, a->n_eos);
    if (a->pad_id >= 0) put_int(w, "pad", a->pad_id);
}

static void put_draft(json_writer *w, const arch_draft *d)
{
    int n_sliding = 0, n_causal = 0;
    for (int i = 0; i < d->n_layers; i++) {
        n_sliding += d->layer_is_sliding[i];
        n_causal += d->layer_is_causal[i];
    }
    json_key(w, "family");
    json_c_string(w, d->is_v2 ? "dflash2" : "dflash");
    put_int(w, "layers", d->n_layers);
    put_int(w, "sliding_layers", n_sliding);
    put_int(w, "causal_layers", n_causal);
    put_int(w, "window", d->window);
    put_int(w, "width", d->E);
    put_int(w, "ffn_width", d->F);
    put_int(w, "vocabulary", d->V);
    put_int(w, "heads", d->H);
    put_int(w, "kv_heads", d->G);
    put_int(w, "head_size", d->D);
    put_double(w, "rope_theta", d->rope_theta);
    put_float(w, "rms_eps", d->rms_eps);
    put_int(w, "block", d->block);
    if (d->is_v2) {
        put_int(w, "conv_taps", d->conv_taps);
        put_int(w, "conv_group", d->conv_group);
        put_int(w, "selector_rank", d->select_rank);
        put_int(w, "selector_top_k", d->select_top_k);
    }
    put_int(w, "mask_token", d->mask_id);
    put_ints(w, "target_layers_read", d->taps, d->n_taps);
    put_float(w, "logit_scale", d->logit_scale);
    put_float(w, "logit_softcap", d->logit_softcap);
    put_float(w, "embed_scale", d->embed_scale);
}

/* How many bytes lie in which type ("AFFINE4/64" with its scales and biases, and so on). */
static void put_types(json_writer *w, const weights *table)
{
    struct {
        char name[24];
        int64_t n_bytes;
    } rows[32];
    int n_rows = 0;
    for (int i = 0; i < weights_count(table); i++) {
        const tensor *t;
        char text[128];
        weights_name(table, i, &t);
        const char *type = strchr(tensor_format(t, text, sizeof text), ']') + 2;
        int r = 0;
        while (r < n_rows && strcmp(rows[r].name, type) != 0) r++;
        if (r == n_rows) {
            if (n_rows == 32) continue;
            snprintf(rows[n_rows].name, sizeof rows[0].name, "%s", type);
            rows[n_rows++].n_bytes = 0;
        }
        rows[r].n_bytes += weights_tensor_bytes(t);
    }
    json_key(w, "bytes_by_type");
    json_open_object(w);
    for (int r = 0; r < n_rows; r++) put_int(w, rows[r].name, rows[r].n_bytes);
    json_close_object(w);
}

void load_put_arch_json(const load_model *m, buf *out)
{
    json_writer w;
    json_writer_init(&w, out);
    json_open_object(&w);
    json_key(&w, "name");
    json_c_string(&w, m->name);
    json_key(&w, "format");
    json_c_string(&w, m->format);
    json_key(&w, "role");
    json_c_string(&w, m->is_draft ? "draft" : "target");
    if (m->is_draft)
        put_draft(&w, &m->draft);
    else
        put_target(&w, &m->target);
    if (m->weights) {
        put_int(&w, "tensors", weights_count(m->weights));
        put_int(&w, "weight_bytes", weights_bytes(m->weights));
        put_types(&w, m->weights);
    }
    json_close_object(&w);
}
