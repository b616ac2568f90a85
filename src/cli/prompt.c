#include "cli/prompt_priv.h"

static status set_thinking(arena *a, message_set *m, bool no_thinking, err *e)
{
    return no_thinking ? message_set_thinking(a, m, false, e) : ERR_OK;
}

status prompt_from_json(arena *a, str text, const char *name, const template *t, bool no_thinking,
                        message_set *out, err *e)
{
    const json *root;
    message_set m;
    TRY(json_parse(a, text, name, JSON_DEPTH_DEFAULT, 0, &root, e));
    TRY(message_parse(a, root, template_get_caps(t), &m, e));
    TRY(set_thinking(a, &m, no_thinking, e));
    *out = m;
    return ERR_OK;
}

status prompt_from_file(arena *a, const char *path, const template *t, bool no_thinking,
                        message_set *out, err *e)
{
    message_set m;
    TRY(message_read(a, path, template_get_caps(t), &m, e));
    TRY(set_thinking(a, &m, no_thinking, e));
    *out = m;
    return ERR_OK;
}

status prompt_from_text(arena *a, const char *text, const template *t, bool no_thinking,
                        message_set *out, err *e)
{
    buf b;
    buf_init(&b);
    buf_put_c(&b, "[{\"role\":\"user\",\"content\":");
    json_put_string(&b, str_from(text));
    buf_put_c(&b, "}]");
    char *copy = b.failed ? NULL : arena_copy(a, b.ptr, b.len);
    str list = {copy, b.len};
    buf_fini(&b);
    if (!copy) return err_set(e, ERR_NOMEM, "prompt", -1, "message");
    return prompt_from_json(a, list, "--prompt", t, no_thinking, out, e);
}

status prompt_render(const template *t, const message_set *m, str bos, str eos, buf *text,
                     segments *parts, err *e)
{
    template_input in = {.messages = m->messages,
                         .tools = m->tools,
                         .kwargs = m->kwargs,
                         .bos_token = bos,
                         .eos_token = eos,
                         .add_generation_prompt = true};
    return template_render(t, &in, text, parts, e);
}

static status encode(const tokenizer *tok, arena *a, const buf *text, const segments *parts,
                     token_ids *ids, err *e)
{
    tokenizer_segment *seg = arena_new_array(a, (size_t)parts->n + 1, sizeof *seg);
    if (!seg) return err_set(e, ERR_NOMEM, "prompt", -1, "%lld segments", (long long)parts->n);
    for (int64_t i = 0; i < parts->n; i++)
        seg[i] = (tokenizer_segment){{text->ptr + parts->ptr[i].offset, parts->ptr[i].len},
                                     parts->ptr[i].is_template};
    return tokenizer_encode_segments(tok, seg, (int)parts->n, 0, ids, e);
}

status prompt_ids(const template *t, const message_set *m, str bos, str eos, const tokenizer *tok,
                  arena *a, token_ids *ids, err *e)
{
    buf text;
    segments parts;
    buf_init(&text);
    segments_init(&parts);
    status s = prompt_render(t, m, bos, eos, &text, &parts, e);
    if (s == ERR_OK) s = encode(tok, a, &text, &parts, ids, e);
    segments_fini(&parts);
    buf_fini(&text);
    return s;
}
