#include "session/said_priv.h"

#include "chat/outparse.h"

enum { ARGUMENTS_DEPTH = 128, CALLS_MOST = 256 };

typedef struct {
    buf reasoning, content, names, arguments; /* of calls: all behind one another */
    size_t name_end[CALLS_MOST], arguments_end[CALLS_MOST];
    int n_calls;
} reading;

static void take(void *ctx, const outparse_event *ev)
{
    reading *r = ctx;
    int i = ev->index < CALLS_MOST ? ev->index : CALLS_MOST - 1;
    switch (ev->kind) {
    case OUTPARSE_REASONING: buf_put_str(&r->reasoning, ev->text); break;
    case OUTPARSE_CONTENT: buf_put_str(&r->content, ev->text); break;
    case OUTPARSE_CALL_BEGIN:
        buf_put_str(&r->names, ev->text);
        r->name_end[i] = r->names.len;
        r->n_calls = ev->index + 1;
        break;
    case OUTPARSE_ARGUMENTS: buf_put_str(&r->arguments, ev->text); break;
    case OUTPARSE_CALL_END: r->arguments_end[i] = r->arguments.len; break;
    }
}

static bool keep(arena *a, const buf *b, str *out)
{
    str s = str_trim(buf_str(b));
    *out = (str){b->failed ? NULL : arena_copy(a, s.ptr, s.len), s.len};
    return out->ptr != NULL;
}

static status keep_calls(const reading *r, arena *a, said *out, err *e)
{
    int n = r->n_calls < CALLS_MOST ? r->n_calls : CALLS_MOST;
    said_call *calls = arena_new_array(a, (size_t)n + 1, sizeof *calls);
    char *names = arena_copy(a, buf_str(&r->names).ptr, r->names.len);
    char *arguments = arena_copy(a, buf_str(&r->arguments).ptr, r->arguments.len);
    if (!calls || !names || !arguments) return err_set(e, ERR_NOMEM, "messages", -1, "calls");
    for (int i = 0; i < n; i++) {
        size_t name = i > 0 ? r->name_end[i - 1] : 0, from = i > 0 ? r->arguments_end[i - 1] : 0;
        str text = {arguments + from, r->arguments_end[i] - from};
        calls[i].name = (str){names + name, r->name_end[i] - name};
        TRY(json_parse(a, text, "arguments", ARGUMENTS_DEPTH, 0, &calls[i].arguments, e));
    }
    out->calls = calls;
    out->n_calls = r->n_calls;
    return ERR_OK;
}

status said_read(str text, const json *tools, bool starts_in_reasoning, arena *a, said *out, err *e)
{
    reading r = {.n_calls = 0};
    buf *const bufs[] = {&r.reasoning, &r.content, &r.names, &r.arguments};
    outparse *p = NULL;
    outparse_options o = {
        .tools = tools, .starts_in_reasoning = starts_in_reasoning, .emit = take, .ctx = &r};
    for (int i = 0; i < 4; i++) buf_init(bufs[i]);
    *out = (said){0};
    status s = outparse_open(&p, &o, e);
    if (s == ERR_OK) s = outparse_feed(p, text, e);
    if (s == ERR_OK) s = outparse_finish(p, e);
    outparse_close(p);
    if (s == ERR_OK &&
        (!keep(a, &r.reasoning, &out->reasoning) || !keep(a, &r.content, &out->content) ||
         r.names.failed || r.arguments.failed))
        s = err_set(e, ERR_NOMEM, "messages", -1, "an assistant's turn");
    if (s == ERR_OK) s = keep_calls(&r, a, out, e);
    for (int i = 0; i < 4; i++) buf_fini(bufs[i]);
    return s;
}

/* ---- equality ---- */

static bool is_same_number(const json *x, const json *y)
{
    double a, b;
    if (str_equal(x->text, y->text)) return true;
    int64_t n, m;
    if (json_to_int64(x, &n) && json_to_int64(y, &m)) return n == m;
    return json_to_double(x, &a) && json_to_double(y, &b) && a <= b && a >= b;
}

static bool is_same_value(const json *x, const json *y);

static bool has_same_members(const json *x, const json *y)
{
    for (const json *v = x->first; v; v = v->next) {
        const json *w = json_get_str(y, v->key);
        if (!w || !is_same_value(v, w)) return false;
    }
    return true;
}

/* Depth is bounded by that of the text. */
static bool is_same_value(const json *x, const json *y)
{
    if (x->kind != y->kind || x->n != y->n) return false;
    switch (x->kind) {
    case JSON_NUMBER: return is_same_number(x, y);
    case JSON_STRING: return str_equal(x->text, y->text);
    case JSON_OBJECT: return has_same_members(x, y);
    case JSON_ARRAY:
        for (const json *v = x->first, *w = y->first; v; v = v->next, w = w->next)
            if (!is_same_value(v, w)) return false;
        return true;
    default: return true;
    }
}

bool said_is_same(const said *x, const said *y)
{
    if (x->n_calls != y->n_calls || x->n_calls > CALLS_MOST || !str_equal(x->content, y->content))
        return false;
    for (int i = 0; i < x->n_calls; i++)
        if (!str_equal(x->calls[i].name, y->calls[i].name) ||
            !is_same_value(x->calls[i].arguments, y->calls[i].arguments))
            return false;
    return true;
}
