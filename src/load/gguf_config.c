#include "load/gguf_config_priv.h"

#include <stdio.h>

#include "load/hf_config_priv.h"
#include "load/safetensors_priv.h"

status gguf_read_rows(const gguf_set *s, const char *name, int most, int *out, err *e)
{
    const char *where = safetensors_where(gguf_path(s->files[0]));
    const gguf_item *it = gguf_set_find(s, name, NULL);
    const gguf_value *tokens = gguf_find(s->files[0], "tokenizer.ggml.tokens");
    if (!it && s->is_head && tokens && tokens->is_array && tokens->n >= 1 && tokens->n <= most) {
        /* The matrix lies in another part: as many rows at least. */
        *out = (int)tokens->n;
        return ERR_OK;
    }
    if (!it) return err_set(e, ERR_FORMAT, where, -1, "tensor '%s' is missing", name);
    if (it->t.n_dims != 2 || it->t.shape[0] > most)
        return err_set(e, ERR_FORMAT, where, -1, "tensor '%s' must be a matrix of 1 to %d rows",
                       name, most);
    *out = (int)it->t.shape[0];
    return ERR_OK;
}

/* Query and KV heads; either may be a list with an entry a layer (Ollama), zero where a layer has
 * no attention, and all others must be equal. */
static void read_head_count(gguf_keys *k, const char *key, int *out)
{
    const gguf_value *v = gguf_keys_find(k, key);
    int list[ARCH_LAYERS_MAX], n;
    if (!v || !v->is_array) {
        gguf_keys_need_int(k, key, 1, HF_HEADS_MOST, out);
        return;
    }
    n = gguf_keys_ints(k, key, 0, HF_HEADS_MOST, ARCH_LAYERS_MAX, list);
    *out = 0;
    for (int i = 0; i < n; i++) {
        if (list[i] == 0 || list[i] == *out) continue;
        if (*out != 0) gguf_keys_fail(k, ERR_UNSUPPORTED, key, "differs from layer to layer");
        *out = list[i];
    }
    if (*out == 0) gguf_keys_fail(k, ERR_FORMAT, key, "has no layer with heads");
}

void gguf_read_heads(gguf_keys *k, int *H, int *G, int *D)
{
    int value = 0;
    read_head_count(k, "attention.head_count", H);
    read_head_count(k, "attention.head_count_kv", G);
    gguf_keys_need_int(k, "attention.key_length", 2, HF_HEAD_SIZE_MOST, D);
    if (gguf_keys_int(k, "attention.value_length", 1, HF_HEAD_SIZE_MOST, &value) && value != *D)
        gguf_keys_fail(k, ERR_UNSUPPORTED, "attention.value_length", "is %d, key_length is %d",
                       value, *D);
    if (k->s != ERR_OK) return;
    if (*H % *G != 0)
        gguf_keys_fail(k, ERR_FORMAT, "attention.head_count_kv",
                       "is %d, which does not divide %d heads", *G, *H);
    if (*D % 2 != 0)
        gguf_keys_fail(k, ERR_FORMAT, "attention.key_length", "is %d, must be even", *D);
}

void gguf_read_rope(gguf_keys *k, double *theta)
{
    str type;
    *theta = 10000000;
    gguf_keys_double(k, "rope.freq_base", 1, 1e12, theta);
    if (gguf_keys_str(k, "rope.scaling.type", &type) && !str_is(type, "none"))
        gguf_keys_fail(k, ERR_UNSUPPORTED, "rope.scaling.type", "is '%.*s': only none is known",
                       type.len > 40 ? 40 : (int)type.len, type.ptr);
}

static status read_sampling(arch_sampling *s, const gguf *g, err *e)
{
    gguf_keys k;
    gguf_keys_init(&k, g, "general.sampling.", e);
    s->has_temperature = gguf_keys_double(&k, "temp", 0, 100, &s->temperature);
    s->has_top_p = gguf_keys_double(&k, "top_p", 0, 1, &s->top_p);
    s->has_top_k = gguf_keys_int64(&k, "top_k", -1, INT32_MAX, &s->top_k);
    s->has_min_p = gguf_keys_double(&k, "min_p", 0, 1, &s->min_p);
    if (s->has_top_k && s->top_k < 0) s->top_k = 0; /* both mean "off" */
    return k.s;
}

static status fail_architecture(const gguf *g, str name, err *e)
{
    const char *where = safetensors_where(gguf_path(g));
    if (str_is(name, "clip"))
        return err_set(
            e, ERR_UNSUPPORTED, where, -1,
            "key 'general.architecture' is 'clip': a vision tower, not a language model");
    return err_set(e, ERR_UNSUPPORTED, where, -1,
                   "key 'general.architecture' is '%.*s', not one of qwen35, qwen35moe, dflash, "
                   "dflash-draft",
                   name.len > 60 ? 60 : (int)name.len, name.ptr);
}

status gguf_config_parse(gguf_config *c, const gguf_set *s, err *e)
{
    const gguf *g = s->files[0];
    gguf_config next = {0};
    gguf_keys k;
    str name;
    gguf_keys_init(&k, g, "", e);
    if (!gguf_keys_str(&k, "general.architecture", &name))
        gguf_keys_fail(&k, ERR_FORMAT, "general.architecture", "is missing");
    TRY(k.s);
    if (str_is(name, "qwen35")) {
        TRY(gguf_target_parse(&next.target, ARCH_QWEN35, s, "qwen35.", e));
    } else if (str_is(name, "qwen35moe")) {
        TRY(gguf_target_parse(&next.target, ARCH_QWEN35_MOE, s, "qwen35moe.", e));
    } else if (str_is(name, "dflash") || str_is(name, "dflash-draft")) {
        next.is_draft = true;
        TRY(gguf_draft_parse(&next.draft, s, str_is(name, "dflash") ? "dflash." : "dflash-draft.",
                             e));
    } else {
        return fail_architecture(g, name, e);
    }
    TRY(read_sampling(&next.sampling, g, e));
    *c = next;
    return ERR_OK;
}
