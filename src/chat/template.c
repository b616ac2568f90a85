#include "chat/template.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "chat/caps_priv.h"
#include "chat/jinja_rt_priv.h"

/* A prompt of a million tokens is about 4 MB; a rendering of it copies its text a few times. */
enum {
    OUTPUT_MOST = 64 << 20,
    MEMORY_MOST = 512 << 20,
    WORK_MOST = 100 << 20,
};

struct template
{
    jprogram program;
    char *name;
    template_caps caps;
};

void segments_init(segments *s)
{
    *s = (segments){0};
}

void segments_fini(segments *s)
{
    mem_free(s->ptr);
    *s = (segments){0};
}

status template_open(template **t, str source, const char *name, err *e)
{
    template *p = mem_new(sizeof *p);
    if (!p) return err_set(e, ERR_NOMEM, name, -1, "no memory for a template");
    size_t len = strlen(name);
    status s = ERR_NOMEM;
    p->name = mem_new(len + 1);
    if (!p->name) {
        err_set(e, ERR_NOMEM, name, -1, "no memory for a template");
        goto fail;
    }
    memcpy(p->name, name, len);
    s = jprogram_open(&p->program, source, p->name, e);
    if (s) goto fail;
    s = caps_probe(p, &p->caps, e);
    if (s) goto fail;
    *t = p;
    return ERR_OK;
fail:
    template_close(p);
    return s;
}

void template_close(template *t)
{
    if (!t) return;
    jprogram_close(&t->program);
    mem_free(t->name);
    mem_free(t);
}

const template_caps *template_get_caps(const template *t)
{
    return &t->caps;
}

static status set_var(arena *a, jdict *vars, str name, bool is_input, jvalue v)
{
    const jtext *key = jtext_new(a, name, is_input);
    return key && jdict_set(a, vars, jvalue_text(key), v) ? ERR_OK : ERR_NOMEM;
}

static status set_json(arena *a, jdict *vars, str name, const json *v)
{
    jvalue value = jvalue_none();
    if (v) TRY(jvalue_from_json(a, v, JVALUE_DEPTH, &value));
    return set_var(a, vars, name, false, value);
}

static status set_token(arena *a, jdict *vars, str name, str token)
{
    if (!token.ptr) return ERR_OK;
    const jtext *text = jtext_new(a, token, false);
    return text ? set_var(a, vars, name, false, jvalue_text(text)) : ERR_NOMEM;
}

static status check_kwargs(const template *t, const template_input *in, err *e)
{
    static const char *const reserved[] = {"messages", "tools", "documents",
                                           "add_generation_prompt"};
    if (in->kwargs && in->kwargs->kind != JSON_OBJECT)
        return err_set(e, ERR_INVALID, t->name, -1, "template variables must be an object");
    for (const json *v = in->kwargs ? in->kwargs->first : NULL; v; v = v->next)
        for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
            if (str_is(v->key, reserved[i]))
                return err_set(e, ERR_INVALID, t->name, -1,
                               "the template variable '%s' is reserved", reserved[i]);
    if (utf8_check(in->bos_token) >= 0 || utf8_check(in->eos_token) >= 0)
        return err_set(e, ERR_INVALID, t->name, -1, "a special token is not UTF-8");
    return ERR_OK;
}

static status set_vars(arena *a, const template_input *in, jdict *vars)
{
    TRY(set_token(a, vars, STR("bos_token"), in->bos_token));
    TRY(set_token(a, vars, STR("eos_token"), in->eos_token));
    for (const json *v = in->kwargs ? in->kwargs->first : NULL; v; v = v->next) {
        jvalue value;
        TRY(jvalue_from_json(a, v, JVALUE_DEPTH, &value));
        TRY(set_var(a, vars, v->key, true, value));
    }
    TRY(set_json(a, vars, STR("messages"), in->messages));
    TRY(set_json(a, vars, STR("tools"), in->tools));
    TRY(set_json(a, vars, STR("documents"), in->documents));
    return set_var(a, vars, STR("add_generation_prompt"), false,
                   jvalue_bool(in->add_generation_prompt));
}

/* Hand the result over: all or nothing. */
static status give(const template *t, const jbuilder *b, buf *out, segments *parts, err *e)
{
    segment *list = NULL;
    if (parts) {
        list = mem_new_array((size_t)b->n_runs + 1, sizeof *list);
        if (!list) return err_set(e, ERR_NOMEM, t->name, -1, "no memory for segments");
        size_t at = 0;
        for (int i = 0; i < b->n_runs; i++) {
            list[i] = (segment){at, b->runs[i].end - at, !b->runs[i].is_input};
            at = b->runs[i].end;
        }
    }
    bool had_failed = out->failed;
    if (had_failed || !buf_reserve(out, b->len)) {
        out->failed = had_failed; /* as it was: the caller may try again */
        mem_free(list);
        return err_set(e, ERR_NOMEM, t->name, -1, "no memory for the prompt");
    }
    buf_put(out, b->ptr ? b->ptr : "", b->len);
    if (parts) {
        segments_fini(parts);
        *parts = (segments){list, b->n_runs};
    }
    return ERR_OK;
}

static status render(const template *t, const template_input *in, arena *a, buf *out,
                     segments *parts, err *e)
{
    TRY(check_kwargs(t, in, e));
    jdict *vars = jdict_new(a, 16);
    status s = vars ? set_vars(a, in, vars) : ERR_NOMEM;
    if (s == ERR_LIMIT || (s && a->n_bytes > MEMORY_MOST / 2))
        return err_set(e, ERR_LIMIT, t->name, -1, "the messages are too large or nest too deep");
    if (s) return err_set(e, s, t->name, -1, "no memory for the messages");
    jrt r = {
        .program = &t->program,
        .a = a,
        .vars = vars,
        .budget = WORK_MOST,
        .text_most = OUTPUT_MOST,
        .now_s = in->now_s ? in->now_s : clock_unix_s(),
        .e = e,
    };
    jbuilder b;
    jrt_builder(&r, &b);
    TRY(jexec_program(&r, &b));
    return give(t, &b, out, parts, e);
}

status template_render(const template *t, const template_input *in, buf *out, segments *parts,
                       err *e)
{
    arena a;
    arena_init(&a, MEMORY_MOST);
    status s = render(t, in, &a, out, parts, e);
    arena_fini(&a);
    return s;
}
