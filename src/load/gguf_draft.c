/* Keys of a draft in a GGUF file, in both dialects (model-spec 4.3): `dflash` of llama.cpp, whose
 * target layers count from 1, and `dflash-draft` of ik_llama.cpp, whose keys have one word more. */
#include <stdio.h>

#include "load/gguf_config_priv.h"
#include "load/hf_config_priv.h"

/* Either spelling of a key: `own` behind the prefix, or "dflash." between. */
static bool either_int(gguf_keys *k, const char *own, int min, int max, int *out)
{
    char inner[64];
    snprintf(inner, sizeof inner, "dflash.%s", own);
    return gguf_keys_int(k, own, min, max, out) || gguf_keys_int(k, inner, min, max, out);
}

static void need_either_int(gguf_keys *k, const char *own, int min, int max, int *out)
{
    if (!either_int(k, own, min, max, out)) gguf_keys_fail(k, ERR_FORMAT, own, "is missing");
}

/* attention.sliding_window_pattern is a list with an entry a layer, or n: every n-th layer is full.
 * Without it all layers slide when there is a window. */
static void read_sliding(gguf_keys *k, arch_draft *d)
{
    int list[ARCH_LAYERS_MAX], every = 0, n = -1;
    const char *key = "attention.sliding_window_pattern";
    gguf_keys_int(k, "attention.sliding_window", 0, HF_POSITION_MOST, &d->window);
    const gguf_value *v = gguf_keys_find(k, key);
    if (v && v->is_array)
        n = gguf_keys_ints(k, key, 0, 1, ARCH_LAYERS_MAX, list);
    else
        gguf_keys_int(k, key, 0, ARCH_LAYERS_MAX, &every);
    if (n >= 0 && n < d->n_layers) gguf_keys_fail(k, ERR_FORMAT, key, "has %d entries", n);
    bool slides = false;
    for (int i = 0; i < d->n_layers && k->s == ERR_OK; i++) {
        bool is_sliding = every == 0 || (i + 1) % every != 0;
        if (n >= 0) is_sliding = list[i] != 0;
        slides |= d->layer_is_sliding[i] = d->window > 0 && is_sliding;
    }
    if (!slides) d->window = 0;
}

static void read_taps(gguf_keys *k, arch_draft *d)
{
    int from = 1;
    const char *key = "target_layers";
    if (!gguf_keys_find(k, key)) {
        key = "dflash.target_layer_ids";
        from = 0;
    }
    int n = gguf_keys_ints(k, key, from, ARCH_LAYERS_MAX - 1 + from, ARCH_TAPS_MAX, d->taps);
    if (n < 1) gguf_keys_fail(k, ERR_FORMAT, key, "is missing or empty");
    if (k->s != ERR_OK) return;
    d->n_taps = n;
    for (int i = 0; i < n; i++) {
        d->taps[i] -= from;
        if (i > 0 && d->taps[i] <= d->taps[i - 1])
            gguf_keys_fail(k, ERR_FORMAT, key, "must ascend");
    }
}

/* The mask token, by the tokenizer's key or the draft's own. */
static void read_mask(gguf_keys *k, arch_draft *d)
{
    gguf_keys tokenizer;
    int id = 0;
    gguf_keys_init(&tokenizer, k->g, "tokenizer.ggml.", k->e);
    bool has = gguf_keys_int(&tokenizer, "mask_token_id", 0, d->V - 1, &id);
    if (tokenizer.s != ERR_OK) k->s = tokenizer.s;
    if (!has) need_either_int(k, "mask_token_id", 0, d->V - 1, &id);
    d->mask_id = id;
}

static void read_vocabulary(gguf_keys *k, arch_draft *d)
{
    const gguf_value *tokens = gguf_find(k->g, "tokenizer.ggml.tokens");
    if (gguf_keys_int(k, "vocab_size", 1, HF_VOCAB_MOST, &d->V) || k->s != ERR_OK) return;
    if (!tokens || !tokens->is_array || tokens->n < 1 || tokens->n > HF_VOCAB_MOST)
        gguf_keys_fail(k, ERR_FORMAT, "vocab_size",
                       "is missing, and so are the tokenizer's tokens");
    else
        d->V = (int)tokens->n;
}

static void read_selector(gguf_keys *k, arch_draft *d)
{
    d->conv_taps = 2;
    d->conv_group = 16;
    d->select_rank = 256;
    d->select_top_k = 16;
    either_int(k, "conv_kernel_size", 1, 8, &d->conv_taps);
    either_int(k, "conv_group_size", 1, HF_WIDTH_MOST, &d->conv_group);
    either_int(k, "selector_rank", 1, 4096, &d->select_rank);
    either_int(k, "selector_top_k", 1, ARCH_SELECT_MAX, &d->select_top_k);
    if (k->s != ERR_OK) return;
    if (d->E % d->conv_group != 0)
        gguf_keys_fail(k, ERR_FORMAT, "conv_group_size", "is %d, which does not divide width %d",
                       d->conv_group, d->E);
    if (d->select_top_k > d->V)
        gguf_keys_fail(k, ERR_FORMAT, "selector_top_k", "is more than the vocabulary");
}

/* All of a head turns, by one position: what other files say of it is another draft's. */
static void check_rope(gguf_keys *k, arch_draft *d)
{
    int n = d->D, list[4];
    gguf_read_rope(k, &d->rope_theta);
    d->lacks_rope = !gguf_keys_find(k, "rope.freq_base");
    if (gguf_keys_int(k, "rope.dimension_count", 1, HF_HEAD_SIZE_MOST, &n) && n != d->D)
        gguf_keys_fail(k, ERR_UNSUPPORTED, "rope.dimension_count",
                       "is %d, but a draft's heads of %d turn whole", n, d->D);
    n = gguf_keys_ints(k, "rope.dimension_sections", 0, HF_HEAD_SIZE_MOST, 4, list);
    for (int i = 1; i < n; i++)
        if (list[i] != 0)
            gguf_keys_fail(k, ERR_UNSUPPORTED, "rope.dimension_sections",
                           "gives %d pairs to axis %d, but a draft has one axis", list[i], i);
}

/* A selector that is not all there would be left out unseen, and the draft a poorer one. */
static void check_version(gguf_keys *k, const gguf_set *s)
{
    static const char *const tensors[] = {"selector_successor.weight", "selector_hidden.weight",
                                          "blk.0.attn_conv_base", "blk.0.attn_conv_proj.weight",
                                          "blk.0.ffn_conv_base"};
    static const char *const words[] = {"selector_rank", "selector_top_k", "conv_kernel_size"};
    const char *found = NULL;
    char inner[64];
    for (int i = 0; i < 5 && !found; i++)
        if (gguf_set_find(s, tensors[i], NULL)) found = tensors[i];
    for (int i = 0; i < 3 && !found; i++) {
        snprintf(inner, sizeof inner, "dflash.%s", words[i]);
        if (gguf_keys_find(k, words[i]) || gguf_keys_find(k, inner)) found = words[i];
    }
    if (found)
        gguf_keys_fail(k, ERR_FORMAT, "block_count",
                       "is of a DFlash2 draft, which has %s, but no selector_predecessor.weight",
                       found);
}

status gguf_draft_parse(arch_draft *out, const gguf_set *s, const char *prefix, err *e)
{
    gguf_keys k;
    bool is_causal = false;
    arch_draft d = {.rms_eps = 1e-6f, .logit_scale = 1, .embed_scale = 1};
    d.is_v2 = gguf_set_find(s, "selector_predecessor.weight", NULL) != NULL;
    gguf_keys_init(&k, s->files[0], prefix, e);
    gguf_keys_need_int(&k, "block_count", 1, ARCH_LAYERS_MAX, &d.n_layers);
    gguf_keys_need_int(&k, "embedding_length", 2, HF_WIDTH_MOST, &d.E);
    gguf_keys_need_int(&k, "feed_forward_length", 1, HF_FFN_MOST, &d.F);
    gguf_read_heads(&k, &d.H, &d.G, &d.D);
    check_rope(&k, &d);
    /* Of the head of a split file not all tensors are there to be seen. */
    if (!d.is_v2 && !s->is_head) check_version(&k, s);
    gguf_keys_float(&k, "attention.layer_norm_rms_epsilon", 1e-12, 0.1, &d.rms_eps);
    read_vocabulary(&k, &d);
    read_sliding(&k, &d);
    /* Without the key rows see their whole block, as the drafts seen in files were trained. */
    gguf_keys_bool(&k, "attention.causal", &is_causal);
    for (int i = 0; i < d.n_layers && k.s == ERR_OK; i++) d.layer_is_causal[i] = is_causal;
    need_either_int(&k, "block_size", 2, ARCH_BLOCK_MAX, &d.block);
    TRY(k.s);
    read_mask(&k, &d);
    read_taps(&k, &d);
    if (d.is_v2) read_selector(&k, &d);
    gguf_keys_float(&k, "logit_scale", 1e-6, 1e6, &d.logit_scale);
    gguf_keys_float(&k, "final_logit_softcapping", 0, 1e6, &d.logit_softcap);
    TRY(k.s);
    *out = d;
    return ERR_OK;
}
