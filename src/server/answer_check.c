/* Whether a finished answer is what was promised: the judge behind the masks. */
#include "grammar/schema_check.h"
#include "server/generation_priv.h"

enum { DEPTH_MAX = 512 };

/* *valid of a text under a schema; true where it cannot be judged. */
static status judge(const json *root, const json *schema, str text, bool *valid, err *e)
{
    arena a;
    const json *value = NULL;
    arena_init(&a, 0);
    *valid = true;
    status s = json_parse(&a, text, "answer", DEPTH_MAX, 0, &value, e);
    if (s == ERR_FORMAT) {
        *valid = false;
        s = ERR_OK;
    } else if (s == ERR_OK) {
        s = schema_check(root, schema, value, valid, e);
    }
    arena_fini(&a);
    return s == ERR_NOMEM ? s : ERR_OK;
}

static bool is_strict(const generation *g, str name)
{
    const answer_format *f = &g->request.format;
    for (int i = 0; i < f->n_strict; i++)
        if (str_equal(f->strict[i], name)) return true;
    return false;
}

status answer_check(const answer *c, bool *valid, err *e)
{
    const generation *g = c->g;
    *valid = true;
    if (c->reason != ENGINE_STOP) return ERR_OK;
    if (g->schema && c->n_calls == 0)
        TRY(judge(g->schema, g->schema, buf_str(&c->content), valid, e));
    for (int i = 0; i < c->n_calls && *valid; i++) {
        str name = buf_str(&c->calls[i].name);
        const json *parameters = json_get(outparse_find_tool(g->tools, name), "parameters");
        if (parameters && is_strict(g, name))
            TRY(judge(parameters, parameters, buf_str(&c->calls[i].arguments), valid, e));
    }
    return ERR_OK;
}
