/* The configuration files: the keys of model-spec 1.1, 1.5 and 4.2. */
#include <stdio.h>

#include "base/json.h"
#include "bench/make_priv.h"

enum { MAX_POSITION = 262144 };

static void put_int(json_writer *w, const char *key, int64_t v)
{
    json_key(w, key);
    json_int(w, v);
}

static void put_text(json_writer *w, const char *key, const char *v)
{
    json_key(w, key);
    json_c_string(w, v);
}

static void put_bool(json_writer *w, const char *key, bool v)
{
    json_key(w, key);
    json_bool(w, v);
}

static void put_names(json_writer *w, const char *key, const char *name)
{
    json_key(w, key);
    json_open_array(w);
    json_c_string(w, name);
    json_close_array(w);
}

/* <|im_end|> and <|endoftext|>: 248046 and 248044 of 248320. */
static void put_eos(json_writer *w, const make_request *r)
{
    json_key(w, "eos_token_id");
    json_open_array(w);
    json_int(w, r->s.V - 274);
    json_int(w, r->s.V - 276);
    json_close_array(w);
    put_int(w, "pad_token_id", r->s.V - 276);
}

static void put_bits(json_writer *w, int bits)
{
    put_int(w, "group_size", 64);
    put_int(w, "bits", bits);
}

static void put_quantization(json_writer *w, const char *key, const shape *s)
{
    static const char *const gates[] = {"gate", "shared_expert_gate"};
    char module[96];
    json_key(w, key);
    json_open_object(w);
    put_bits(w, 4);
    put_text(w, "mode", "affine");
    for (int i = 0; s->X > 0 && i < 2 * s->n_layers; i++) {
        snprintf(module, sizeof module, "language_model.model.layers.%d.mlp.%s", i / 2,
                 gates[i % 2]);
        json_key(w, module);
        json_open_object(w);
        put_bits(w, 8);
        json_close_object(w);
    }
    json_close_object(w);
}

static void put_rope(json_writer *w, bool is_target)
{
    json_key(w, "rope_parameters");
    json_open_object(w);
    put_text(w, "rope_type", "default");
    put_int(w, "rope_theta", 10000000);
    if (is_target) {
        json_key(w, "partial_rotary_factor");
        json_double(w, 0.25);
        json_key(w, "mrope_section");
        json_raw(w, STR("[11,11,10]"));
        put_bool(w, "mrope_interleaved", true);
    }
    json_close_object(w);
}

static void put_layer_types(json_writer *w, int n, bool is_target)
{
    json_key(w, "layer_types");
    json_open_array(w);
    for (int i = 0; i < n; i++)
        json_c_string(w, !is_target                        ? "sliding_attention"
                         : (i + 1) % SHAPE_FULL_EVERY == 0 ? "full_attention"
                                                           : "linear_attention");
    json_close_array(w);
}

/* What targets and drafts have in common. */
static void put_width(json_writer *w, const shape *s)
{
    put_int(w, "vocab_size", s->V);
    put_int(w, "hidden_size", s->E);
    put_text(w, "hidden_act", "silu");
    put_int(w, "max_position_embeddings", MAX_POSITION);
    json_key(w, "rms_norm_eps");
    json_double(w, 1e-6);
    put_bool(w, "attention_bias", false);
    put_text(w, "dtype", "bfloat16");
}

static void put_text_config(json_writer *w, const make_request *r)
{
    const shape *s = &r->s;
    json_key(w, "text_config");
    json_open_object(w);
    put_text(w, "model_type", s->X > 0 ? "qwen3_5_moe_text" : "qwen3_5_text");
    put_width(w, s);
    put_int(w, "num_hidden_layers", s->n_layers);
    put_int(w, "num_attention_heads", s->H);
    put_int(w, "num_key_value_heads", s->G);
    put_int(w, "head_dim", 256);
    put_bool(w, "attn_output_gate", true);
    put_bool(w, "tie_word_embeddings", make_is_tied(r));
    put_rope(w, true);
    put_int(w, "linear_conv_kernel_dim", 4);
    put_int(w, "linear_key_head_dim", 128);
    put_int(w, "linear_value_head_dim", 128);
    put_int(w, "linear_num_key_heads", s->gdn_Hk);
    put_int(w, "linear_num_value_heads", s->gdn_Hv);
    put_int(w, "full_attention_interval", SHAPE_FULL_EVERY);
    put_text(w, "mamba_ssm_dtype", "float32");
    if (s->X > 0) {
        put_int(w, "num_experts", s->X);
        put_int(w, "num_experts_per_tok", s->K);
        put_int(w, "moe_intermediate_size", s->moe_F);
        put_int(w, "shared_expert_intermediate_size", s->moe_F);
    } else {
        put_int(w, "intermediate_size", s->F);
    }
    put_layer_types(w, s->n_layers, true);
    json_close_object(w);
}

void make_target_config(const make_request *r, buf *out)
{
    const shape *s = &r->s;
    json_writer w;
    json_writer_init(&w, out);
    json_open_object(&w);
    put_names(&w, "architectures",
              s->X > 0 ? "Qwen3_5MoeForConditionalGeneration" : "Qwen3_5ForConditionalGeneration");
    put_text(&w, "model_type", s->X > 0 ? "qwen3_5_moe" : "qwen3_5");
    put_text_config(&w, r);
    put_eos(&w, r);
    put_bool(&w, "tie_word_embeddings", make_is_tied(r));
    put_quantization(&w, "quantization", s);
    put_quantization(&w, "quantization_config", s);
    json_close_object(&w);
}

static void put_dflash(json_writer *w, const shape_draft *d)
{
    json_key(w, "dflash_config");
    json_open_object(w);
    put_int(w, "block_size", 8);
    put_int(w, "conv_group_size", 16);
    put_int(w, "conv_kernel_size", 2);
    put_int(w, "mask_token_id", d->mask_id);
    put_int(w, "selector_rank", 256);
    put_int(w, "selector_top_k", 16);
    json_key(w, "target_layer_ids");
    json_open_array(w);
    for (int i = 0; i < d->n_taps; i++) json_int(w, d->taps[i]);
    json_close_array(w);
    json_close_object(w);
}

void make_draft_config(const make_request *r, buf *out)
{
    const shape_draft *d = &r->s.draft;
    json_writer w;
    json_writer_init(&w, out);
    json_open_object(&w);
    put_names(&w, "architectures", "DFlash2DraftModel");
    put_text(&w, "model_type", "qwen3");
    put_width(&w, &r->s);
    put_bool(&w, "is_causal", false);
    put_int(&w, "intermediate_size", d->F);
    put_int(&w, "num_hidden_layers", d->n_layers);
    put_int(&w, "num_attention_heads", d->H);
    put_int(&w, "num_key_value_heads", d->G);
    put_int(&w, "head_dim", 128);
    put_int(&w, "num_target_layers", r->s.n_layers);
    put_layer_types(&w, d->n_layers, false);
    put_int(&w, "sliding_window", 2048);
    put_bool(&w, "use_sliding_window", true);
    put_bool(&w, "tie_word_embeddings", false);
    put_rope(&w, false);
    put_dflash(&w, d);
    json_close_object(&w);
}

void make_generation_config(const make_request *r, buf *out)
{
    json_writer w;
    json_writer_init(&w, out);
    json_open_object(&w);
    put_eos(&w, r);
    put_bool(&w, "do_sample", true);
    json_key(&w, "temperature");
    json_double(&w, 1);
    json_close_object(&w);
}
