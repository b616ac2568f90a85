/* Keys of a draft: model-spec 1.4, 1.5 and 3.3. Most may stand at the top or in dflash_config. */
#include <math.h>

#include "load/hf_config_priv.h"

typedef struct {
    keys root, inner;
} pair;

static status pair_status(const pair *p)
{
    return p->root.s != ERR_OK ? p->root.s : p->inner.s;
}

/* The key at either place; two different values are a failure. */
static bool either_int(pair *p, const char *key, int min, int max, int *out)
{
    int a = 0, b = 0;
    bool has_a = keys_int(&p->root, key, min, max, &a);
    if (p->root.s != ERR_OK) return false;
    bool has_b = keys_int(&p->inner, key, min, max, &b);
    if (has_a && has_b && a != b)
        keys_fail(&p->inner, ERR_FORMAT, key, "is %d, but %d at the top", b, a);
    if (has_a || has_b) *out = has_b ? b : a;
    return has_a || has_b;
}

static void need_either_int(pair *p, const char *key, int min, int max, int *out)
{
    if (!either_int(p, key, min, max, out) && pair_status(p) == ERR_OK)
        keys_fail(&p->root, ERR_FORMAT, key, "is missing, here and in dflash_config");
}

static bool either_float(pair *p, const char *key, double min, double max, float *out)
{
    bool has = keys_float(&p->inner, key, min, max, out);
    return has || (p->inner.s == ERR_OK && keys_float(&p->root, key, min, max, out));
}

static bool either_bool(pair *p, const char *key, bool *out)
{
    bool has = keys_bool(&p->inner, key, out);
    return has || (p->inner.s == ERR_OK && keys_bool(&p->root, key, out));
}

static void refuse_true(pair *p, const char *key, const char *what)
{
    bool is_on = false;
    if (either_bool(p, key, &is_on) && is_on)
        keys_fail(&p->inner, ERR_UNSUPPORTED, key, "is true: %s is not known", what);
}

/* Which layers slide: layer_types; else use_swa for all; else Qwen3's rule. */
static void read_sliding(pair *p, arch_draft *d)
{
    keys *k = &p->root;
    bool uses_all = false, uses = false, has_uses = keys_bool(k, "use_sliding_window", &uses);
    int first = 28; /* of Qwen3's configuration class */
    keys_int(k, "max_window_layers", 0, 1 << 20, &first);
    keys_bool(&p->inner, "use_swa", &uses_all);
    const json *list = keys_container(k, "layer_types", JSON_ARRAY);
    if (pair_status(p) != ERR_OK) return;
    if (list && list->n != d->n_layers) {
        keys_fail(k, ERR_FORMAT, "layer_types", "has %d entries, num_hidden_layers is %d", list->n,
                  d->n_layers);
        return;
    }
    const json *v = list ? list->first : NULL;
    for (int i = 0; i < d->n_layers; i++) {
        str type = {"", 0};
        if (v) json_to_str(v, &type);
        bool is_sliding = v ? str_is(type, "sliding_attention") : uses_all || (uses && i >= first);
        if (v && !is_sliding && !str_is(type, "full_attention")) {
            keys_fail(k, ERR_UNSUPPORTED, "layer_types",
                      "entry %d is neither full_attention nor sliding_attention", i);
            return;
        }
        /* use_sliding_window: false turns the window off whatever the layers are called. */
        d->layer_is_sliding[i] = is_sliding && !(has_uses && !uses && !uses_all);
        if (v) v = v->next;
    }
}

static void read_window(pair *p, arch_draft *d)
{
    bool slides = false;
    int window = 0;
    for (int i = 0; i < d->n_layers; i++) slides |= d->layer_is_sliding[i];
    bool has = keys_int(&p->inner, "swa_window_size", 1, HF_POSITION_MOST, &window) ||
               keys_int(&p->root, "sliding_window", 1, HF_POSITION_MOST, &window);
    if (slides && !has && pair_status(p) == ERR_OK)
        keys_fail(&p->root, ERR_FORMAT, "sliding_window", "is missing, but a layer slides");
    d->window = slides ? window : 0;
}

/* Whether a block row sees only rows before it. is_causal decides, then dflash_config.causal, for
 * all layers. Without either, full layers see the whole block and sliding layers are causal, as
 * vLLM has it; sources disagree about mixed v1 drafts (model-spec 3.3), and a draft's masks change
 * how many tokens are accepted, never which. */
static void read_causality(pair *p, arch_draft *d)
{
    bool is_causal = false, is_slide_open = false;
    bool has = keys_bool(&p->root, "is_causal", &is_causal);
    if (!has && p->root.s == ERR_OK) has = keys_bool(&p->inner, "causal", &is_causal);
    either_bool(p, "sliding_window_non_causal", &is_slide_open);
    for (int i = 0; i < d->n_layers; i++)
        d->layer_is_causal[i] = has ? is_causal : d->layer_is_sliding[i] && !is_slide_open;
}

/* round(1 + i * (N - 4) / (n - 1)) for i = 0..n-1, halves to even; N div 2 when n is 1. */
static void choose_taps(pair *p, arch_draft *d)
{
    int n = d->n_layers, N = d->n_target_layers;
    if (N == 0 || n > ARCH_TAPS_MAX) {
        keys_fail(&p->root, ERR_FORMAT, "target_layer_ids",
                  "is missing; its default needs num_target_layers and at most %d draft layers",
                  ARCH_TAPS_MAX);
        return;
    }
    d->n_taps = n;
    for (int i = 0; i < n; i++)
        d->taps[i] = n == 1 ? N / 2 : (int)rint(1 + (double)(i * (N - 4)) / (n - 1));
}

static void read_taps(pair *p, arch_draft *d)
{
    keys *k = keys_find(&p->inner, "target_layer_ids") ? &p->inner : &p->root;
    const json *list = keys_container(k, "target_layer_ids", JSON_ARRAY);
    if (pair_status(p) != ERR_OK) return;
    if (!list) {
        choose_taps(p, d);
    } else if (list->n < 1 || list->n > ARCH_TAPS_MAX) {
        keys_fail(k, ERR_FORMAT, "target_layer_ids", "has %d entries, must have 1 to %d", list->n,
                  ARCH_TAPS_MAX);
    } else {
        for (const json *v = list->first; v; v = v->next) {
            int64_t id = -1;
            if (!json_to_int64(v, &id) || id < 0 || id >= ARCH_LAYERS_MAX) id = -1;
            d->taps[d->n_taps++] = (int)id;
        }
    }
    int most = d->n_target_layers ? d->n_target_layers : ARCH_LAYERS_MAX;
    for (int i = 0; i < d->n_taps; i++)
        if (d->taps[i] < (i ? d->taps[i - 1] + 1 : 0) || d->taps[i] >= most)
            keys_fail(k, ERR_FORMAT, "target_layer_ids", "must ascend within 0 to %d", most - 1);
}

static void read_selector(pair *p, arch_draft *d)
{
    d->conv_taps = 2;
    d->conv_group = 16;
    d->select_rank = 256;
    d->select_top_k = 16;
    either_int(p, "conv_kernel_size", 1, 8, &d->conv_taps);
    either_int(p, "conv_group_size", 1, HF_WIDTH_MOST, &d->conv_group);
    either_int(p, "selector_rank", 1, 4096, &d->select_rank);
    either_int(p, "selector_top_k", 1, ARCH_SELECT_MAX, &d->select_top_k);
    if (pair_status(p) != ERR_OK) return;
    if (d->E % d->conv_group != 0)
        keys_fail(&p->inner, ERR_FORMAT, "conv_group_size", "is %d, which does not divide width %d",
                  d->conv_group, d->E);
    if (d->select_top_k > d->V)
        keys_fail(&p->inner, ERR_FORMAT, "selector_top_k", "is more than the vocabulary");
}

static void read_shape(keys *k, arch_draft *d)
{
    int n_draft_words;
    keys_need_int(k, "num_hidden_layers", 1, ARCH_LAYERS_MAX, &d->n_layers);
    keys_need_int(k, "hidden_size", 2, HF_WIDTH_MOST, &d->E);
    keys_need_int(k, "intermediate_size", 1, HF_FFN_MOST, &d->F);
    keys_need_int(k, "vocab_size", 1, HF_VOCAB_MOST, &d->V);
    if (k->s == ERR_OK && keys_find(k, "num_attention_heads") && !keys_find(k, "head_dim")) {
        int H = 1; /* Qwen3's older default */
        if (keys_int(k, "num_attention_heads", 1, HF_HEADS_MOST, &H)) d->D = d->E / H;
        if (d->D < 2) d->D = 0;
    }
    hf_read_heads(k, &d->H, &d->G, &d->D);
    hf_read_activation(k);
    keys_float(k, "rms_norm_eps", 1e-12, 0.1, &d->rms_eps);
    keys_int(k, "num_target_layers", 1, ARCH_LAYERS_MAX, &d->n_target_layers);
    if (keys_int(k, "draft_vocab_size", 1, HF_VOCAB_MOST, &n_draft_words) && n_draft_words != d->V)
        keys_fail(k, ERR_UNSUPPORTED, "draft_vocab_size", "is a part of the vocabulary");
    hf_read_rope(k, &d->rope_theta);
}

status hf_draft_parse(arch_draft *out, bool is_v2, const json *root, const char *file, err *e)
{
    pair p;
    arch_draft d = {.is_v2 = is_v2, .rms_eps = 1e-6f, .logit_scale = 1, .embed_scale = 1};
    int mask;
    keys_init(&p.root, root, "", file, e);
    keys_init(&p.inner, NULL, "dflash_config.", file, e);
    p.inner.object = keys_container(&p.root, "dflash_config", JSON_OBJECT);
    read_shape(&p.root, &d);
    TRY(p.root.s);
    read_sliding(&p, &d);
    TRY(pair_status(&p));
    read_window(&p, &d);
    read_causality(&p, &d);
    TRY(pair_status(&p));
    need_either_int(&p, "block_size", 2, ARCH_BLOCK_MAX, &d.block);
    need_either_int(&p, "mask_token_id", 0, d.V - 1, &mask);
    TRY(pair_status(&p));
    d.mask_id = mask;
    read_taps(&p, &d);
    if (is_v2) read_selector(&p, &d);
    TRY(pair_status(&p));
    either_float(&p, "output_multiplier", 1e-6, 1e6, &d.logit_scale);
    either_float(&p, "final_logit_softcapping", 0, 1e6, &d.logit_softcap);
    either_float(&p, "input_embedding_scale", 1e-6, 1e6, &d.embed_scale);
    refuse_true(&p, "attention_sink_bias", "a bias of attention sinks");
    refuse_true(&p, "sample_from_anchor", "a proposal from the anchor's own row");
    TRY(pair_status(&p));
    *out = d;
    return ERR_OK;
}
