/* One loop over what is not yet consumed. Each state takes what it is sure of and stops at the
 * first tag that is still open; feeding more, or the end, decides it. */
#include "chat/outparse_priv.h"

#include "base/mem.h"
#include "base/utf8.h"

typedef enum { STATE_REASONING, STATE_CONTENT, STATE_CALL, STATE_VALUE } state;

struct outparse {
    outparse_options o;
    state state;
    buf in;      /* not yet consumed */
    size_t at;   /* consumed in this run */
    size_t scan; /* VALUE: up to here no tag was found */
    bool is_final;

    /* text */
    buf space;     /* white space that only counts when text follows */
    bool is_fresh; /* right behind reasoning or a call: newlines do not count */
    bool has_text; /* visible text of the current kind was sent */
    bool has_content, has_reasoning, after_call;

    /* the open call */
    int n_calls, n_params;
    const json *schema; /* of its arguments, or NULL */
    buf seen;           /* keys so far, each ended by a NUL */
    bool is_closed;     /* </function> was there */
    buf junk;           /* text between parameters */

    /* the open value */
    const json *value_schema;
    unsigned types;
    bool at_start, is_ignored, is_streamed;
    buf value; /* collected until its type is known */

    bool has_value; /* some of it was taken */

    buf piece; /* JSON on its way out */
    bool is_failed;
};

bool outparse_is_open_think(str prompt)
{
    return str_ends(str_trim(prompt), STR("<think>"));
}

status outparse_open(outparse **p, const outparse_options *o, err *e)
{
    outparse *n = mem_new(sizeof *n);
    if (!n) return err_set(e, ERR_NOMEM, "output", -1, "no memory for the output parser");
    n->o = *o;
    n->state = o->starts_in_reasoning ? STATE_REASONING : STATE_CONTENT;
    n->has_reasoning = o->starts_in_reasoning;
    buf *const bufs[] = {&n->in, &n->space, &n->seen, &n->junk, &n->value, &n->piece};
    for (size_t i = 0; i < sizeof bufs / sizeof bufs[0]; i++) buf_init(bufs[i]);
    *p = n;
    return ERR_OK;
}

void outparse_close(outparse *p)
{
    if (!p) return;
    buf *const bufs[] = {&p->in, &p->space, &p->seen, &p->junk, &p->value, &p->piece};
    for (size_t i = 0; i < sizeof bufs / sizeof bufs[0]; i++) buf_fini(bufs[i]);
    mem_free(p);
}

static bool has_failed(const outparse *p)
{
    return p->is_failed || p->in.failed || p->space.failed || p->seen.failed || p->junk.failed ||
           p->value.failed || p->piece.failed;
}

/* Empty a buffer, but remember that it could not grow. */
static void clear(outparse *p, buf *b)
{
    p->is_failed |= b->failed;
    buf_clear(b);
}

static void emit(outparse *p, outparse_kind kind, str text, bool is_complete)
{
    bool of_call = kind >= OUTPARSE_CALL_BEGIN;
    if (has_failed(p) || (text.len == 0 && kind != OUTPARSE_CALL_END)) return;
    outparse_event event = {kind, text, of_call ? p->n_calls - 1 : 0, is_complete};
    p->o.emit(p->o.ctx, &event);
}

static tag_text rest_of(const outparse *p)
{
    return (tag_text){buf_str(&p->in), p->is_final};
}

/* ---- text ---- */

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Send text of the current state, holding back white space at its end. */
static void put_text(outparse *p, str s)
{
    bool is_content = p->state == STATE_CONTENT;
    while (p->is_fresh && s.len && (s.ptr[0] == '\n' || s.ptr[0] == '\r')) s = str_skip(s, 1);
    if (s.len) p->is_fresh = false;
    while (!is_content && !p->has_text && s.len && is_space(s.ptr[0])) s = str_skip(s, 1);
    size_t end = s.len;
    while (end > 0 && is_space(s.ptr[end - 1])) end--;
    outparse_kind kind = is_content ? OUTPARSE_CONTENT : OUTPARSE_REASONING;
    if (end > 0) {
        emit(p, kind, buf_str(&p->space), false);
        clear(p, &p->space);
        emit(p, kind, str_slice(s, 0, end), false);
        p->has_text = true;
        if (is_content) p->has_content = true;
        p->after_call = false;
    }
    buf_put_str(&p->space, str_skip(s, end));
}

static void enter_content(outparse *p)
{
    clear(p, &p->space);
    p->state = STATE_CONTENT;
    p->has_text = p->has_content;
    p->is_fresh = !p->has_content;
}

static void enter_reasoning(outparse *p)
{
    clear(p, &p->space);
    p->state = STATE_REASONING;
    p->has_text = false;
    p->is_fresh = false;
    p->has_reasoning = true;
}

/* ---- calls ---- */

static void put_arguments(outparse *p)
{
    emit(p, OUTPARSE_ARGUMENTS, buf_str(&p->piece), false);
    clear(p, &p->piece);
}

static void begin_call(outparse *p, str name)
{
    const json *function = outparse_find_tool(p->o.tools, name);
    clear(p, &p->space);
    clear(p, &p->seen);
    clear(p, &p->junk);
    p->schema = schema_of_tool(function);
    p->n_calls++;
    p->n_params = 0;
    p->is_closed = false;
    p->state = STATE_CALL;
    emit(p, OUTPARSE_CALL_BEGIN, name, false);
    emit(p, OUTPARSE_ARGUMENTS, STR("{"), false);
}

static void end_call(outparse *p, bool is_complete)
{
    emit(p, OUTPARSE_ARGUMENTS, STR("}"), false);
    emit(p, OUTPARSE_CALL_END, (str){"", 0}, is_complete);
    enter_content(p);
    p->after_call = true;
}

static bool is_seen(const outparse *p, str key)
{
    str seen = buf_str(&p->seen);
    for (size_t at = 0; at < seen.len;) {
        size_t len = strlen(seen.ptr + at);
        if (str_equal((str){seen.ptr + at, len}, key)) return true;
        at += len + 1;
    }
    return false;
}

/* May a parameter of this name open here, inside a value that was not closed? */
static bool is_key(const void *ctx, str key)
{
    const outparse *p = ctx;
    if (is_seen(p, key)) return false;
    return !json_get(p->schema, "properties") || schema_property(p->schema, p->schema, key);
}

static void begin_value(outparse *p, str key)
{
    p->state = STATE_VALUE;
    p->scan = p->at;
    p->at_start = true;
    p->has_value = false;
    p->is_ignored = is_seen(p, key);
    p->value_schema = p->schema ? schema_property(p->schema, p->schema, key) : NULL;
    p->types = schema_types(p->schema, p->value_schema);
    p->is_streamed = p->types == SCHEMA_ANY || p->types == SCHEMA_STRING;
    clear(p, &p->value);
    if (p->is_ignored) return;
    buf_put_str(&p->seen, key);
    buf_put_byte(&p->seen, 0);
    if (p->n_params++) buf_put_byte(&p->piece, ',');
    json_put_string(&p->piece, key);
    buf_put_c(&p->piece, p->is_streamed ? ":\"" : ":");
    put_arguments(p);
}

static void put_value(outparse *p, str s)
{
    if (p->is_ignored || s.len == 0) return;
    if (!p->is_streamed) {
        buf_put_str(&p->value, s);
        if (!(p->types & SCHEMA_STRING) || schema_may_be_json(p->types, buf_str(&p->value))) return;
        p->is_streamed = true;
        buf_put_byte(&p->piece, '"');
        s = buf_str(&p->value);
    }
    json_put_escaped(&p->piece, s);
    put_arguments(p);
}

static void end_value(outparse *p)
{
    p->state = STATE_CALL;
    if (p->is_ignored) return;
    if (p->is_streamed)
        buf_put_byte(&p->piece, '"');
    else if (schema_put_value(&p->piece, p->schema, p->value_schema, buf_str(&p->value)))
        p->piece.failed = true;
    put_arguments(p);
}

/* ---- states; each returns false when it needs more text ---- */

/* How much of the unfinished input is whole characters. */
static size_t whole_end(const outparse *p)
{
    str s = buf_str(&p->in);
    return p->is_final ? s.len : s.len - (size_t)utf8_tail(s);
}

/* Find the next '<' at or behind `from`; s.len when there is none. */
static size_t find_tag(str s, size_t from)
{
    const char *at = from < s.len ? memchr(s.ptr + from, '<', s.len - from) : NULL;
    return at ? (size_t)(at - s.ptr) : s.len;
}

/* A call that opens here; *is_open when more text must tell. In reasoning, and without the outer
 * tag, only a known function's name makes it one. */
static bool opens_call(const outparse *p, str *name, size_t *end, bool *is_open)
{
    if (!p->o.tools) return false;
    if (p->o.text_has_no_calls && p->state == STATE_CONTENT && p->has_content) return false;
    tag_match m = tag_call(rest_of(p), p->at, true, name, end);
    *is_open |= m == TAG_MORE;
    if (m != TAG_YES) return false;
    bool is_bare = p->in.ptr[p->at + 1] == 'f';
    return (p->state == STATE_CONTENT && !is_bare) || outparse_find_tool(p->o.tools, *name);
}

/* At '<' in reasoning or content: true when a tag was taken. */
static bool take_tag(outparse *p, bool *is_open)
{
    tag_text t = rest_of(p);
    str name;
    size_t end;
    if (opens_call(p, &name, &end, is_open)) {
        p->at = end;
        begin_call(p, name);
        return true;
    }
    bool in_reasoning = p->state == STATE_REASONING;
    tag_match m = tag_literal(t, p->at, "</think>");
    bool may_close = in_reasoning || (p->has_reasoning && !p->has_content && !p->after_call);
    if (may_close && m == TAG_YES) {
        p->at += strlen("</think>");
        enter_content(p);
        return true;
    }
    *is_open |= may_close && m == TAG_MORE;
    m = tag_literal(t, p->at, "<think>");
    bool may_open = in_reasoning ? !p->has_text
                                 : !p->has_reasoning && !p->has_content && !p->after_call;
    if (may_open && m == TAG_YES) {
        p->at += strlen("<think>");
        enter_reasoning(p);
        return true;
    }
    *is_open |= may_open && m == TAG_MORE;
    m = p->after_call ? tag_literal(t, p->at, "</tool_call>") : TAG_NO;
    if (m == TAG_YES) p->at += strlen("</tool_call>");
    *is_open |= m == TAG_MORE;
    return m == TAG_YES;
}

static bool run_text(outparse *p)
{
    str s = buf_str(&p->in);
    size_t tag = find_tag(s, p->at), end = tag < s.len ? tag : whole_end(p);
    put_text(p, str_slice(s, p->at, end));
    p->at = end;
    if (tag == s.len) return false;
    bool is_open = false;
    if (take_tag(p, &is_open)) return true;
    if (is_open) return false;
    put_text(p, str_slice(s, p->at, p->at + 1));
    p->at++;
    return true;
}

/* Between parameters, at '<': true when a tag was taken. */
static bool take_call_tag(outparse *p, bool *is_open)
{
    tag_text t = rest_of(p);
    str name;
    size_t end;
    tag_match m = tag_named(t, p->at, "<parameter=", &name, &end);
    if (m == TAG_YES) {
        p->at = end;
        clear(p, &p->junk);
        begin_value(p, name);
        return true;
    }
    *is_open |= m == TAG_MORE;
    static const char *const closing[] = {"</parameter>", "</function>", "</tool_call>"};
    for (int i = 0; i < 3; i++) {
        m = tag_literal(t, p->at, closing[i]);
        *is_open |= m == TAG_MORE;
        if (m != TAG_YES) continue;
        p->at += strlen(closing[i]);
        p->is_closed |= i == 1;
        if (i == 2) end_call(p, true);
        return true;
    }
    m = tag_call(t, p->at, true, &name, &end);
    *is_open |= m == TAG_MORE;
    if (m == TAG_YES) end_call(p, true); /* the next one begins without closing this one */
    return m == TAG_YES;
}

/* The text ends inside a tag that belongs to a call. */
static bool is_cut_tag(str rest)
{
    static const char *const tags[] = {"<parameter=",  "</parameter>", "</function>",
                                       "</tool_call>", "<tool_call>",  "<function="};
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        str tag = str_from(tags[i]);
        if (str_starts(tag, rest) || (str_ends(tag, STR("=")) && str_starts(rest, tag)))
            return true;
    }
    return false;
}

static void finish_call(outparse *p)
{
    end_call(p, p->is_closed);
    put_text(p, buf_str(&p->junk));
    clear(p, &p->junk);
}

static bool run_call(outparse *p)
{
    tag_text t = rest_of(p);
    size_t at = tag_skip_space(t, p->at);
    if (p->junk.len) buf_put_str(&p->junk, str_slice(t.s, p->at, at));
    p->at = at;
    if (at == t.s.len) {
        if (p->is_final) finish_call(p);
        return false;
    }
    bool is_open = false, is_tag = t.s.ptr[at] == '<';
    if (is_tag && take_call_tag(p, &is_open)) return true;
    if (is_open) return false;
    if (is_tag && p->is_final && is_cut_tag(str_skip(t.s, at))) {
        p->at = t.s.len;
        finish_call(p);
        return false;
    }
    if (p->is_closed) {
        end_call(p, true);
        return true;
    }
    size_t end = find_tag(t.s, at + 1);
    buf_put_str(&p->junk, str_slice(t.s, at, end));
    p->at = end;
    return true;
}

/* Take value text up to `end`, keeping back one newline that may be the last. */
static void take_value(outparse *p, size_t end, bool is_last)
{
    str s = buf_str(&p->in);
    size_t to = end;
    if (to > p->at && s.ptr[to - 1] == '\n') to--;
    if (to > p->at) {
        put_value(p, str_slice(s, p->at, to));
        p->has_value = true;
    }
    p->at = is_last ? end : to;
}

static bool run_value(outparse *p)
{
    tag_text t = rest_of(p);
    if (p->at_start) {
        if (p->at == t.s.len && !p->is_final) return false;
        if (p->at < t.s.len && t.s.ptr[p->at] == '\n') p->scan = ++p->at;
        p->at_start = false;
    }
    size_t tag = find_tag(t.s, p->scan);
    if (tag == t.s.len) {
        take_value(p, whole_end(p), p->is_final);
        p->scan = p->is_final ? p->at : whole_end(p);
        if (p->is_final) end_value(p);
        return p->is_final;
    }
    /* A newline right before is always still here. */
    bool at_line_start = tag == p->at ? !p->has_value : t.s.ptr[tag - 1] == '\n';
    tag_match m = tag_value_end(t, tag, at_line_start, is_key, p);
    if (m != TAG_NO) take_value(p, tag, false);
    /* JSON has no raw newlines inside strings, so a tag in one is never at the start of a line. */
    if (m == TAG_YES && !p->is_streamed && !at_line_start &&
        schema_is_unfinished(buf_str(&p->value)))
        m = TAG_NO;
    p->scan = m == TAG_NO ? tag + 1 : tag;
    if (m == TAG_YES) {
        p->at = tag;
        end_value(p);
    }
    return m != TAG_MORE;
}

static status run(outparse *p, err *e)
{
    bool goes_on = true;
    while (goes_on && !has_failed(p)) {
        switch (p->state) {
        case STATE_REASONING:
        case STATE_CONTENT: goes_on = run_text(p); break;
        case STATE_CALL: goes_on = run_call(p); break;
        case STATE_VALUE: goes_on = run_value(p); break;
        }
    }
    buf_consume(&p->in, p->at);
    p->scan = p->scan > p->at ? p->scan - p->at : 0;
    p->at = 0;
    if (has_failed(p)) return err_set(e, ERR_NOMEM, "output", -1, "no memory to parse output");
    return ERR_OK;
}

status outparse_feed(outparse *p, str bytes, err *e)
{
    buf_put_str(&p->in, bytes);
    return run(p, e);
}

size_t outparse_held(const outparse *p)
{
    return p->space.len + p->in.len;
}

status outparse_finish(outparse *p, err *e)
{
    p->is_final = true;
    TRY(run(p, e));
    if (p->state == STATE_CONTENT && p->has_content && !p->after_call)
        emit(p, OUTPARSE_CONTENT, buf_str(&p->space), false);
    clear(p, &p->space);
    return ERR_OK;
}
