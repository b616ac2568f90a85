#include "chat/caps_priv.h"

#include <stdio.h>

/* Words that no template contains, to be looked for in the output. */
#define SYSTEM_WORD "Qsysw"
#define FIRST_WORD "Qonew"
#define SECOND_WORD "Qtwow"
#define TOOL_WORD "qtoolw"
#define REASON_WORD "Qwhyw"

#define MESSAGE(role, content) "{\"role\":\"" role "\",\"content\":\"" content "\"}"
#define CALL(content, arguments)                                                              \
    "{\"role\":\"assistant\",\"content\":" content ",\"tool_calls\":[{\"id\":\"call00001\","  \
    "\"type\":\"function\",\"function\":{\"name\":\"" TOOL_WORD "\",\"arguments\":" arguments \
    "}}]}"
#define ARGUMENTS_OBJECT "{\"qkey\":\"qvalue\"}"
#define ARGUMENTS_TEXT "\"{\\\"qkey\\\": \\\"qvalue\\\"}\""

typedef struct {
    const template *t;
    status failed; /* NOMEM */
    err *e;
    buf out;
} prober;

/* Render messages (text of a JSON array); false when the template refuses them. */
static bool try_render(prober *p, const char *messages, const char *tools, const char *kwargs)
{
    arena a;
    template_input in = {
        .bos_token = {"", 0}, .eos_token = {"", 0}, .now_s = 1, .add_generation_prompt = true};
    arena_init(&a, 0);
    buf_clear(&p->out);
    status s = json_parse(&a, str_from(messages), "probe", 16, 0, &in.messages, p->e);
    if (!s && tools) s = json_parse(&a, str_from(tools), "probe", 16, 0, &in.tools, p->e);
    if (!s && kwargs) s = json_parse(&a, str_from(kwargs), "probe", 16, 0, &in.kwargs, p->e);
    if (!s) s = template_render(p->t, &in, &p->out, NULL, NULL);
    if (s == ERR_NOMEM && !p->failed)
        p->failed = err_set(p->e, ERR_NOMEM, "template", -1, "no memory to try the template");
    arena_fini(&a);
    return !s;
}

static int64_t find_word(const prober *p, const char *word)
{
    return str_find(buf_str(&p->out), str_from(word), 0);
}

static bool shows(prober *p, const char *messages, const char *word)
{
    return try_render(p, messages, NULL, NULL) && find_word(p, word) >= 0;
}

static bool probe_later_system(prober *p)
{
    if (!try_render(p,
                    "[" MESSAGE("user", FIRST_WORD) "," MESSAGE("assistant", "x") "," MESSAGE(
                        "system", SYSTEM_WORD) "," MESSAGE("user", SECOND_WORD) "]",
                    NULL, NULL))
        return false;
    int64_t at = find_word(p, SYSTEM_WORD);
    return at > find_word(p, FIRST_WORD) && at < find_word(p, SECOND_WORD);
}

/* A template may print any role; it knows the developer's when it prints another one differently.
 */
static bool probe_developer(prober *p)
{
    if (!shows(p, "[" MESSAGE("developer", SYSTEM_WORD) "," MESSAGE("user", FIRST_WORD) "]",
               SYSTEM_WORD))
        return false;
    buf known = p->out;
    buf_init(&p->out);
    bool is_echo = try_render(
        p, "[" MESSAGE("qrolewwww", SYSTEM_WORD) "," MESSAGE("user", FIRST_WORD) "]", NULL, NULL);
    int64_t at;
    while (is_echo && (at = find_word(p, "qrolewwww")) >= 0)
        memcpy(p->out.ptr + at, "developer", 9);
    is_echo = is_echo && str_equal(buf_str(&known), buf_str(&p->out));
    buf_fini(&known);
    return !is_echo;
}

static void probe_calls(prober *p, template_caps *caps)
{
    static const struct {
        const char *messages;
        bool is_null, is_text;
    } ways[] = {
        {"[" MESSAGE("user", "x") "," CALL("\"\"", ARGUMENTS_OBJECT) "]", false, false},
        {"[" MESSAGE("user", "x") "," CALL("\"\"", ARGUMENTS_TEXT) "]", false, true},
        {"[" MESSAGE("user", "x") "," CALL("null", ARGUMENTS_OBJECT) "]", true, false},
        {"[" MESSAGE("user", "x") "," CALL("null", ARGUMENTS_TEXT) "]", true, true},
    };
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        /* {'qkey' is Python's print of a dict: the template did not mean to be given one. */
        if (!shows(p, ways[i].messages, TOOL_WORD) || find_word(p, "{'qkey'") >= 0) continue;
        caps->wants_null_content = ways[i].is_null;
        caps->wants_text_arguments = ways[i].is_text;
        return;
    }
}

static unsigned probe_efforts(prober *p)
{
    static const char *const names[] = {"minimal", "low", "medium", "high", "xhigh", "max"};
    unsigned bits = 0;
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        char kwargs[64];
        snprintf(kwargs, sizeof kwargs, "{\"reasoning_effort\":\"%s\"}", names[i]);
        if (try_render(p, "[" MESSAGE("user", "x") "]", NULL, kwargs)) bits |= 1u << i;
    }
    return bits;
}

static bool probe_tools(prober *p)
{
    return try_render(p, "[" MESSAGE("user", "x") "]",
                      "[{\"type\":\"function\",\"function\":{\"name\":\"" TOOL_WORD
                      "\",\"description\":\"x\",\"parameters\":{\"type\":\"object\","
                      "\"properties\":{\"q\":{\"type\":\"string\",\"description\":\"x\"}},"
                      "\"required\":[\"q\"]}}}]",
                      NULL) &&
           find_word(p, TOOL_WORD) >= 0;
}

status caps_probe(const template *t, template_caps *out, err *e)
{
    prober p = {.t = t, .e = e};
    template_caps caps = {0};
    buf_init(&p.out);
    bool takes_user = try_render(&p, "[" MESSAGE("user", "x") "]", NULL, NULL);
    caps.starts_thinking = takes_user && str_ends(str_trim(buf_str(&p.out)), STR("<think>"));
    caps.has_system = shows(&p, "[" MESSAGE("system", SYSTEM_WORD) "," MESSAGE("user", "x") "]",
                            SYSTEM_WORD);
    caps.has_later_system = probe_later_system(&p);
    caps.has_developer = probe_developer(&p);
    caps.has_tools = probe_tools(&p);
    caps.has_reasoning = shows(
        &p,
        "[" MESSAGE("user", "x") ",{\"role\":\"assistant\","
                                 "\"content\":\"x\",\"reasoning_content\":\"" REASON_WORD "\"}]",
        REASON_WORD);
    caps.merges_users = takes_user &&
                        !try_render(&p, "[" MESSAGE("user", "x") "," MESSAGE("user", "y") "]", NULL,
                                    NULL);
    probe_calls(&p, &caps);
    caps.efforts = probe_efforts(&p);
    buf_fini(&p.out);
    if (!p.failed) *out = caps;
    return p.failed;
}
