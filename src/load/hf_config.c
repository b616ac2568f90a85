#include "load/hf_config_priv.h"

#include "load/safetensors_priv.h"

enum { DEPTH_MOST = 32 };

static const struct {
    const char *model_type, *text_type, *architecture;
    arch_family family;
} targets[] = {
    {"qwen3_5", "qwen3_5_text", "Qwen3_5For", ARCH_QWEN35},
    {"qwen3_5_moe", "qwen3_5_moe_text", "Qwen3_5MoeFor", ARCH_QWEN35_MOE},
};

void hf_read_activation(keys *k)
{
    str act;
    bool has_bias = false;
    if (keys_str(k, "hidden_act", &act) && !str_is(act, "silu"))
        keys_fail(k, ERR_UNSUPPORTED, "hidden_act", "is '%.*s': only silu is known",
                  act.len > 40 ? 40 : (int)act.len, act.ptr);
    if (keys_bool(k, "attention_bias", &has_bias) && has_bias)
        keys_fail(k, ERR_UNSUPPORTED, "attention_bias", "is true: projections with biases");
}

keys hf_read_rope(keys *k, double *theta)
{
    keys rope = *k;
    rope.label = "rope_parameters.";
    rope.object = keys_container(k, "rope_parameters", JSON_OBJECT);
    if (!rope.object) {
        rope.label = "rope_scaling.";
        rope.object = keys_container(k, "rope_scaling", JSON_OBJECT);
    }
    rope.s = k->s;
    str type;
    bool has_type = keys_str(&rope, "rope_type", &type) || keys_str(&rope, "type", &type);
    /* "mrope" is the older name of the default with sections. */
    if (has_type && !str_is(type, "default") && !str_is(type, "mrope"))
        keys_fail(&rope, ERR_UNSUPPORTED, "rope_type", "is '%.*s': only default is known",
                  type.len > 40 ? 40 : (int)type.len, type.ptr);
    bool has_theta = keys_double(&rope, "rope_theta", 1, 1e12, theta);
    k->s = rope.s;
    if (!has_theta) keys_need_double(k, "rope_theta", 1, 1e12, theta);
    rope.s = k->s;
    return rope;
}

void hf_read_heads(keys *k, int *H, int *G, int *D)
{
    keys_need_int(k, "num_attention_heads", 1, HF_HEADS_MOST, H);
    keys_need_int(k, "num_key_value_heads", 1, HF_HEADS_MOST, G);
    if (*D > 0)
        keys_int(k, "head_dim", 2, HF_HEAD_SIZE_MOST, D);
    else
        keys_need_int(k, "head_dim", 2, HF_HEAD_SIZE_MOST, D);
    if (k->s != ERR_OK) return;
    if (*H % *G != 0)
        keys_fail(k, ERR_FORMAT, "num_key_value_heads", "is %d, which does not divide %d heads", *G,
                  *H);
    if (*D % 2 != 0) keys_fail(k, ERR_FORMAT, "head_dim", "is %d, must be even", *D);
}

static str first_architecture(const json *root)
{
    str name = {"", 0};
    json_to_str(json_at(json_get(root, "architectures"), 0), &name);
    return name;
}

/* The family by model_type, or by architecture where there is none; false when unknown. */
static bool find_family(str type, str architecture, arch_family *out)
{
    for (int i = 0; i < 2; i++) {
        bool is_type = str_is(type, targets[i].model_type) || str_is(type, targets[i].text_type);
        str class_start = str_from(targets[i].architecture);
        bool is_class = type.len == 0 && str_starts(architecture, class_start);
        if (!is_type && !is_class) continue;
        *out = targets[i].family;
        return true;
    }
    return false;
}

static status parse_target(hf_config *c, const json *root, str architecture, const char *file,
                           err *e)
{
    keys k, t;
    keys_init(&k, root, "", file, e);
    str type = {"", 0}, text_type = {"", 0};
    keys_str(&k, "model_type", &type);
    const json *text = keys_container(&k, "text_config", JSON_OBJECT);
    keys_init(&t, text, "text_config.", file, e);
    if (k.s == ERR_OK) keys_str(&t, "model_type", &text_type);
    TRY(k.s);
    TRY(t.s);
    arch_family family, text_family;
    if (!find_family(type, architecture, &family))
        return err_set(e, ERR_UNSUPPORTED, safetensors_where(file), -1,
                       "model_type '%.*s' (%.*s) is not one of qwen3_5, qwen3_5_moe, a DFlash or a "
                       "DFlash2 draft",
                       type.len > 40 ? 40 : (int)type.len, type.ptr,
                       architecture.len > 60 ? 60 : (int)architecture.len, architecture.ptr);
    if (text_type.len > 0 &&
        (!find_family(text_type, architecture, &text_family) || text_family != family))
        return err_set(e, ERR_FORMAT, safetensors_where(file), -1,
                       "text_config.model_type '%.*s' does not belong to model_type '%.*s'",
                       text_type.len > 40 ? 40 : (int)text_type.len, text_type.ptr,
                       type.len > 40 ? 40 : (int)type.len, type.ptr);
    if (!text) return hf_target_parse(c, family, root, root, "", file, e);
    return hf_target_parse(c, family, root, text, "text_config.", file, e);
}

static status parse_draft(hf_config *c, const json *root, str architecture, const char *file,
                          err *e)
{
    const json *inner = json_get(root, "dflash_config");
    bool has_selector = json_get(inner, "selector_rank") || json_get(root, "selector_rank");
    bool is_v2 = architecture.len ? str_is(architecture, "DFlash2DraftModel") : has_selector;
    /* Read as v1 such a file would draft without its selector and only be slower: refuse. */
    if (!is_v2 && has_selector)
        return err_set(e, ERR_FORMAT, safetensors_where(file), -1,
                       "architecture '%.*s' is DFlash v1, but selector_rank belongs to DFlash2",
                       architecture.len > 60 ? 60 : (int)architecture.len, architecture.ptr);
    return hf_draft_parse(&c->draft, is_v2, root, file, e);
}

status hf_config_parse(hf_config *c, arena *mem, str text, const char *file, err *e)
{
    const json *root;
    TRY(json_parse(mem, text, safetensors_where(file), DEPTH_MOST, JSON_UNIQUE_KEYS, &root, e));
    if (root->kind != JSON_OBJECT)
        return err_set(e, ERR_FORMAT, safetensors_where(file), 0, "must be a JSON object");
    hf_config next = {0};
    str architecture = first_architecture(root);
    bool has_draft_keys = json_is(json_get(root, "dflash_config"), JSON_OBJECT);
    next.is_draft = str_is(architecture, "DFlashDraftModel") ||
                    str_is(architecture, "DFlash2DraftModel") ||
                    (architecture.len == 0 && has_draft_keys);
    TRY(mlx_quant_parse(&next.quant, mem, root, file, e));
    if (next.is_draft)
        TRY(parse_draft(&next, root, architecture, file, e));
    else
        TRY(parse_target(&next, root, architecture, file, e));
    *c = next;
    return ERR_OK;
}
