/* serve_fixture: a server with the bundled model on threads of its own, and JSON of its answers. */
#ifndef RIPTIDE_TESTS_SERVE_FIXTURE_H
#define RIPTIDE_TESTS_SERVE_FIXTURE_H

#include "base/json.h"
#include "base/mem.h"
#include "base/thread.h"
#include "client.h"
#include "server/server_priv.h"

/* With a sanitizer the model is up to hundreds of times slower: less is asked of it then. */
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { SERVE_IS_SLOW = 1 };
#else
enum { SERVE_IS_SLOW = 0 };
#endif

typedef struct {
    engine *en;
    server *s;
    thread worker;
    uv_async_t poke; /* uv_async_send runs on_poke on the loop */
    void (*on_poke)(server *s);
    int port;
    buf in;     /* of the last exchange */
    arena tree; /* of the last parse */
} serve_fixture;

static inline void serve_take_poke(uv_async_t *a)
{
    serve_fixture *f = a->data;
    f->on_poke(f->s);
}

static inline void *serve_run(void *arg)
{
    serve_fixture *f = arg;
    err e = {0};
    CHECK_OK(server_run(f->s, &e), &e);
    return NULL;
}

static inline server_options serve_options(void)
{
    server_options o = server_options_default();
    o.port = 0;
    o.limits.tick_ms = 50;
    return o;
}

/* lanes, waiting answers, context. */
static inline void serve_open(serve_fixture *f, server_options so, int n_lanes, int queue,
                              int64_t context)
{
    err e = {0};
    *f = (serve_fixture){0};
    engine_options eo = {.model = "models/mini-dense",
                         .draft = SERVE_IS_SLOW ? NULL : "models/mini-dense-dflash2",
                         .backend = "cpu",
                         .n_threads = SERVE_IS_SLOW ? 1 : 2,
                         .n_lanes = n_lanes,
                         .prefill_rows = SERVE_IS_SLOW ? 8 : 64,
                         .max_context = context,
                         .draft_rows = -1,
                         .queue_size = queue,
                         .guards_steps = true};
    CHECK_OK(engine_open(&f->en, &eo, &e), &e);
    CHECK_OK(server_open(&f->s, &so, &e), &e);
    CHECK_OK(server_attach(f->s, f->en, &e), &e);
    CHECK_OK(server_listen(f->s, &e), &e);
    f->port = server_port(f->s);
    uv_async_init(&f->s->loop, &f->poke, serve_take_poke);
    uv_unref((uv_handle_t *)&f->poke); /* it does not keep the loop running */
    f->poke.data = f;
    buf_init(&f->in);
    arena_init(&f->tree, 0);
    CHECK_OK(thread_start(&f->worker, "loop", serve_run, f, &e), &e);
}

static inline void serve_join(serve_fixture *f)
{
    thread_join(&f->worker);
    assert_null(f->s->generations);
    assert_int_equal(f->s->listener.body_bytes, 0);
    uv_close((uv_handle_t *)&f->poke, NULL);
    server_close(f->s);
    engine_close(f->en);
    buf_fini(&f->in);
    arena_fini(&f->tree);
}

static inline void serve_close(serve_fixture *f)
{
    server_stop(f->s);
    server_stop(f->s);
    serve_join(f);
}

/* The request as bytes; `fields` are complete lines. */
static inline void serve_put_request(buf *out, const char *method, const char *path,
                                     const char *fields, const char *body)
{
    buf_printf(out, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s", method, path, fields);
    if (body) buf_printf(out, "Content-Length: %zu\r\n", strlen(body));
    buf_put_c(out, "\r\n");
    if (body) buf_put_c(out, body);
}

/* One request on a connection of its own; the answer is in f->in. Returns its status. */
static inline int serve_ask(serve_fixture *f, const char *method, const char *path,
                            const char *body)
{
    buf q;
    buf_init(&q);
    serve_put_request(&q, method, path, "Connection: close\r\n", body);
    client_fetch(f->port, buf_str(&q), &f->in);
    buf_fini(&q);
    return client_status(&f->in);
}
/* A chat request. For legibility its quotes are single ones; it has no apostrophes. */
static inline int serve_chat(serve_fixture *f, const char *body)
{
    size_t n = strlen(body) + 1;
    char *copy = mem_new(n);
    for (size_t i = 0; i < n; i++) copy[i] = body[i] == '\'' ? '"' : body[i];
    int code = serve_ask(f, "POST", "/v1/chat/completions", copy);
    mem_free(copy);
    return code;
}

static inline str serve_body(const serve_fixture *f)
{
    str all = buf_str(&f->in);
    int64_t at = str_find(all, STR("\r\n\r\n"), 0);
    assert_true(at > 0);
    return str_skip(all, (size_t)at + 4);
}

static inline const json *serve_parse(serve_fixture *f, str text)
{
    const json *root;
    err e = {0};
    CHECK_OK(json_parse(&f->tree, text, "answer", 64, JSON_UNIQUE_KEYS, &root, &e), &e);
    return root;
}
/* The body as JSON; lives until the next call. */
static inline const json *serve_json(serve_fixture *f)
{
    arena_fini(&f->tree);
    arena_init(&f->tree, 0);
    return serve_parse(f, serve_body(f));
}

/* "choices/0/message/content": a value by its way, or NULL. */
static inline const json *serve_at(const json *v, const char *way)
{
    for (str rest = str_from(way); v && rest.len > 0;) {
        int64_t slash = str_find(rest, STR("/"), 0), i;
        str step = slash < 0 ? rest : str_slice(rest, 0, (size_t)slash);
        rest = slash < 0 ? STR("") : str_skip(rest, (size_t)slash + 1);
        v = str_to_int64(step, &i) && v->kind == JSON_ARRAY ? json_at(v, (int)i)
                                                            : json_get_str(v, step);
    }
    return v;
}
static inline str serve_text(const json *v, const char *way)
{
    str s = {NULL, 0};
    json_to_str(serve_at(v, way), &s);
    return s;
}
static inline int64_t serve_int(const json *v, const char *way)
{
    int64_t n = -1;
    if (!json_to_int64(serve_at(v, way), &n)) fail_msg("no number at %s", way);
    return n;
}

static inline void serve_expect_text(const json *v, const char *way, const char *want)
{
    str s = serve_text(v, way);
    if (!str_is(s, want)) fail_msg("%s is \"%.*s\", want \"%s\"", way, STR_ARG(s), want);
}

/* The next `data:` line of an event stream at *at, or an empty slice. Undoes chunked framing of the
 * whole body in place first: see serve_stream. */
static inline str serve_next_event(str stream, size_t *at)
{
    int64_t from = str_find(stream, STR("data: "), *at);
    if (from < 0) return (str){NULL, 0};
    int64_t to = str_find(stream, STR("\n\n"), (size_t)from);
    assert_true(to > 0);
    *at = (size_t)to + 2;
    return str_slice(stream, (size_t)from + 6, (size_t)to);
}

/* The body of a chunked answer, joined into `out`; fails when it does not end properly. */
static inline void serve_unchunk(str in, buf *out)
{
    for (size_t at = 0;;) {
        int64_t line = str_find(in, STR("\r\n"), at);
        assert_true(line > 0);
        size_t n = 0;
        for (size_t i = at; i < (size_t)line; i++) {
            char c = in.ptr[i];
            n = n * 16 + (size_t)(c <= '9' ? c - '0' : c - 'a' + 10);
        }
        at = (size_t)line + 2;
        assert_true(at + n + 2 <= in.len);
        buf_put(out, in.ptr + at, n);
        at += n + 2;
        if (n == 0) {
            assert_int_equal(at, in.len);
            return;
        }
    }
}

/* A streamed answer put together again. */
typedef struct {
    buf reasoning, content, calls; /* calls: "name arguments;" of each */
    char finish[16];
    int n_chunks, n_roles;
    int64_t completion_tokens; /* of the usage chunk, -1 without one */
    bool is_done;              /* [DONE] came */
    bool has_error;
} serve_stream;

static inline void serve_take_delta(serve_stream *s, const json *choice)
{
    const json *d = json_get(choice, "delta");
    str text;
    s->n_roles += serve_text(d, "role").ptr != NULL;
    if (json_to_str(json_get(d, "reasoning_content"), &text)) buf_put_str(&s->reasoning, text);
    if (json_to_str(json_get(d, "content"), &text)) buf_put_str(&s->content, text);
    const json *calls = json_get(d, "tool_calls");
    for (const json *call = calls ? calls->first : NULL; call; call = call->next) {
        if (json_to_str(serve_at(call, "function/name"), &text)) {
            assert_true(str_starts(serve_text(call, "id"), STR("call_")));
            if (s->calls.len) buf_put_byte(&s->calls, ';');
            buf_put_str(&s->calls, text);
            buf_put_byte(&s->calls, ' ');
        }
        buf_put_str(&s->calls, serve_text(call, "function/arguments"));
    }
    if (json_to_str(json_get(choice, "finish_reason"), &text)) {
        assert_int_equal(s->finish[0], 0);
        snprintf(s->finish, sizeof s->finish, "%.*s", STR_ARG(text));
    }
}

/* Ask with a body that streams, and join the chunks of choice 0. */
static inline void serve_chat_stream(serve_fixture *f, const char *body, serve_stream *s)
{
    buf joined;
    *s = (serve_stream){.completion_tokens = -1};
    buf_init(&joined);
    assert_int_equal(serve_chat(f, body), 200);
    serve_unchunk(serve_body(f), &joined);
    arena_fini(&f->tree);
    arena_init(&f->tree, 0);
    size_t at = 0;
    for (str event; (event = serve_next_event(buf_str(&joined), &at)).len > 0;) {
        assert_false(s->is_done);
        if (str_is(event, "[DONE]")) {
            s->is_done = true;
            continue;
        }
        s->n_chunks++;
        const json *chunk = serve_parse(f, event);
        s->has_error |= json_get(chunk, "error") != NULL;
        const json *choices = json_get(chunk, "choices");
        for (const json *c = choices ? choices->first : NULL; c; c = c->next)
            if (serve_int(c, "index") == 0) serve_take_delta(s, c);
        if (json_is(json_get(chunk, "usage"), JSON_OBJECT))
            s->completion_tokens = serve_int(chunk, "usage/completion_tokens");
    }
    buf_fini(&joined);
}
static inline void serve_stream_fini(serve_stream *s)
{
    buf_fini(&s->reasoning);
    buf_fini(&s->content);
    buf_fini(&s->calls);
}

#endif
