#include "server/answer_format_priv.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"

/* A grammar or a regular expression is the whole answer: nothing in it is a call. */
static bool is_text(const answer_format *f)
{
    return f->form == ANSWER_GRAMMAR || f->form == ANSWER_REGEX;
}

static bool binds_calls(const answer_format *f)
{
    return f->has_calls && !is_text(f) && (f->must_call || f->has_one_call || f->n_strict > 0);
}

bool answer_format_has_grammar(const answer_format *f)
{
    return f->form != ANSWER_FREE || binds_calls(f);
}

/* Everything the grammar depends on. */
static void put_key(buf *key, const answer_format *f, const json *tools)
{
    bool has_tools = f->has_calls && !is_text(f);
    buf_printf(key, "%d%d%d%d%d,%d,", (int)f->form, f->is_strict, f->must_call, f->has_one_call,
               has_tools, f->n_strict);
    json_put_string(key, f->only);
    for (int i = 0; i < f->n_strict; i++) json_put_string(key, f->strict[i]);
    if (f->schema) json_put_value(key, f->schema, JSON_COMPACT);
    if (has_tools) json_put_value(key, tools, JSON_COMPACT);
    buf_put_str(key, f->text);
}

/* The place inside the field. */
static status place(status s, const char *field, err *e)
{
    err inner = *e;
    if (s == ERR_OK || s == ERR_NOMEM || strcmp(inner.where, field) == 0) return s;
    snprintf(e->where, sizeof e->where, "%s%s%s", field, inner.where[0] == '#' ? "" : " ",
             inner.where);
    return s;
}

static status compile_calls(const answer_format *f, const json *tools,
                            const grammar_json_options *opt, grammar_notes *notes, grammar **g,
                            err *e)
{
    static const json type = {.kind = JSON_STRING, .text = {"object", 6}, .key = {"type", 4}};
    static const json object = {.kind = JSON_OBJECT, .n = 1, .first = &type};
    bool has_value = f->form != ANSWER_FREE && !f->must_call;
    grammar_tools_wish w = {
        .tools = tools,
        .only = f->only,
        .least = f->must_call,
        .most = f->has_one_call ? 1 : -1,
        .has_text = !f->must_call && !has_value,
        .strict = f->strict,
        .n_strict = f->n_strict,
        .answer = !has_value                 ? NULL
                  : f->form == ANSWER_SCHEMA ? f->schema
                                             : &object,
    };
    /* With a value, no call at all is that value. */
    if (has_value) w.least = 1;
    status s = grammar_open_tools(g, &w, opt, notes, e);
    return place(s, has_value && e->where[0] == '#' ? f->field : "tools", e);
}

static status compile(const answer_format *f, const json *tools, grammar **g, bool *is_whole,
                      err *e)
{
    /* A tool that says `strict` is kept whole even beside a schema that need not be. */
    grammar_json_options opt = {.space_most = GRAMMAR_SPACE_DEFAULT,
                                .is_lenient = f->form == ANSWER_SCHEMA && !f->is_strict &&
                                              f->n_strict == 0};
    grammar_notes notes = {0};
    status s = ERR_OK;
    if (f->has_calls && !is_text(f)) {
        s = compile_calls(f, tools, &opt, &notes, g, e);
    } else {
        switch (f->form) {
        case ANSWER_OBJECT: s = grammar_open_json_object(g, &opt, e); break;
        case ANSWER_GRAMMAR: s = grammar_open_gbnf(g, f->text, e); break;
        case ANSWER_REGEX: s = grammar_open_regex(g, f->text, e); break;
        default: s = grammar_open_schema(g, f->schema, &opt, &notes, e); break;
        }
        s = place(s, f->field, e);
    }
    *is_whole = notes.n_left_out == 0;
    return s;
}

status answer_format_compile(const answer_format *f, const json *tools, grammar_cache *cache,
                             grammar **g, bool *is_whole, err *e)
{
    buf key;
    err inner = {0};
    buf_init(&key);
    put_key(&key, f, tools);
    grammar *found = key.failed ? NULL : grammar_cache_get(cache, buf_str(&key), is_whole);
    bool was_there = found != NULL;
    status s = key.failed  ? err_set(&inner, ERR_NOMEM, "grammar", -1, "copy of its source")
               : was_there ? ERR_OK
                           : compile(f, tools, &found, is_whole, &inner);
    if (s == ERR_OK) {
        if (!was_there) grammar_cache_put(cache, buf_str(&key), found, *is_whole);
        *g = found;
    } else if (e) {
        *e = inner;
    }
    buf_fini(&key);
    return s;
}
