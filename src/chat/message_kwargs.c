/* Variables of the template: thinking switches in all their spellings. */
#include <stdio.h>

#include "chat/message_priv.h"

static const struct {
    const char *name;
    unsigned bit;
    unsigned instead[2]; /* what comes nearest, first choice first */
} efforts[] = {
    {"minimal", TEMPLATE_EFFORT_MINIMAL, {TEMPLATE_EFFORT_LOW, 0}},
    {"low", TEMPLATE_EFFORT_LOW, {TEMPLATE_EFFORT_MINIMAL, 0}},
    {"medium", TEMPLATE_EFFORT_MEDIUM, {0, 0}},
    {"high", TEMPLATE_EFFORT_HIGH, {TEMPLATE_EFFORT_XHIGH, TEMPLATE_EFFORT_MAX}},
    {"xhigh", TEMPLATE_EFFORT_XHIGH, {TEMPLATE_EFFORT_MAX, TEMPLATE_EFFORT_HIGH}},
    {"max", TEMPLATE_EFFORT_MAX, {TEMPLATE_EFFORT_XHIGH, TEMPLATE_EFFORT_HIGH}},
};
enum { N_EFFORTS = sizeof efforts / sizeof efforts[0], ALL_EFFORTS = (1 << N_EFFORTS) - 1 };

static str effort_name(unsigned bit)
{
    for (int i = 0; i < N_EFFORTS; i++)
        if (efforts[i].bit == bit) return str_from(efforts[i].name);
    return (str){"", 0};
}

static status fail_effort(const message_reader *r, str given)
{
    char known[80] = "";
    size_t n = 0;
    for (int i = 0; i < N_EFFORTS; i++)
        if (r->caps->efforts & efforts[i].bit)
            n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "",
                                  efforts[i].name);
    return message_fail(r, ERR_INVALID, "", "'%.*s' is no effort of this model; it knows %s",
                        (int)(given.len < 40 ? given.len : 40), given.ptr, n ? known : "none");
}

/* The template's word for an effort. Among its own variables a template that takes every name is
 * given any. */
static status choose_effort(const message_reader *r, str given, bool is_variable, str *out)
{
    unsigned known = r->caps->efforts;
    *out = given;
    if (is_variable && known == ALL_EFFORTS) return ERR_OK;
    for (int i = 0; i < N_EFFORTS; i++) {
        if (!str_is(given, efforts[i].name)) continue;
        if (known & efforts[i].bit) return ERR_OK;
        for (int k = 0; k < 2; k++) {
            if (!(known & efforts[i].instead[k])) continue;
            *out = effort_name(efforts[i].instead[k]);
            return ERR_OK;
        }
    }
    return fail_effort(r, given);
}

/* The first of these members that is not null, and where it stands. */
static const json *find_effort(message_reader *r, const json *request, const json *kwargs)
{
    const json *v = json_get(kwargs, "reasoning_effort");
    snprintf(r->path, sizeof r->path, "/chat_template_kwargs/reasoning_effort");
    if (v && v->kind != JSON_NULL) return v;
    v = json_get(request, "reasoning_effort");
    snprintf(r->path, sizeof r->path, "/reasoning_effort");
    if (v && v->kind != JSON_NULL) return v;
    v = json_get(json_get(request, "reasoning"), "effort");
    snprintf(r->path, sizeof r->path, "/reasoning/effort");
    if (v && v->kind != JSON_NULL) return v;
    v = json_get(json_get(request, "output_config"), "effort");
    snprintf(r->path, sizeof r->path, "/output_config/effort");
    return v && v->kind != JSON_NULL ? v : NULL;
}

static status find_switch(message_reader *r, const json *request, const json *kwargs,
                          const char *name, const json **out)
{
    const json *v = json_get(kwargs, name);
    *out = NULL;
    if (v && v->kind != JSON_NULL) return ERR_OK; /* passed on with the others */
    v = json_get(request, name);
    if (!v || v->kind == JSON_NULL) return ERR_OK;
    snprintf(r->path, sizeof r->path, "/%s", name);
    if (!json_is_bool(v)) return message_fail(r, ERR_FORMAT, "", "must be true or false");
    *out = v;
    return ERR_OK;
}

static status copy_kwargs(message_reader *r, const json *kwargs, tree *t)
{
    static const char *const reserved[] = {"messages",  "tools",     "documents",
                                           "bos_token", "eos_token", "add_generation_prompt"};
    snprintf(r->path, sizeof r->path, "/chat_template_kwargs");
    if (!kwargs || kwargs->kind == JSON_NULL) return ERR_OK;
    if (kwargs->kind != JSON_OBJECT) return message_fail(r, ERR_FORMAT, "", "must be an object");
    for (const json *v = kwargs->first; v; v = v->next) {
        for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
            if (str_is(v->key, reserved[i]))
                return message_fail(r, ERR_INVALID, "", "the name '%s' is reserved", reserved[i]);
        if (!str_is(v->key, "reasoning_effort") && v->kind != JSON_NULL) tree_push(t, v->key, v);
    }
    return ERR_OK;
}

status message_kwargs(message_reader *r, const json *request, const json **out, bool *is_off)
{
    const json *kwargs = json_get(request, "chat_template_kwargs"), *thinking = NULL, *keep = NULL;
    tree t = tree_new(r->a, JSON_OBJECT);
    TRY(copy_kwargs(r, kwargs, &t));
    TRY(find_switch(r, request, kwargs, "enable_thinking", &thinking));
    TRY(find_switch(r, request, kwargs, "preserve_thinking", &keep));
    if (thinking) tree_push(&t, STR("enable_thinking"), thinking);
    if (keep) tree_push(&t, STR("preserve_thinking"), keep);

    const json *effort = find_effort(r, request, kwargs);
    if (effort && effort->kind != JSON_STRING)
        return message_fail(r, ERR_FORMAT, "", "must be a string");
    if (effort && str_is(effort->text, "none")) {
        if (!json_get(t.root, "enable_thinking")) tree_push_bool(&t, STR("enable_thinking"), false);
    } else if (effort) {
        str name;
        bool is_variable = effort == json_get(kwargs, "reasoning_effort");
        TRY(choose_effort(r, effort->text, is_variable, &name));
        tree_push_text(&t, STR("reasoning_effort"), name);
    }
    if (!t.root) return message_fail_memory(r);
    *is_off = json_is(json_get(t.root, "enable_thinking"), JSON_FALSE);
    *out = t.root;
    return ERR_OK;
}
