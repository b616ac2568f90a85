/* The server's life: open, run, stop, close; and what is decided by the head of a request. */
#include "server/server_priv.h"

#include <signal.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

#include "base/asserts.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "server/endpoint_priv.h"
#include "server/notify_priv.h"
#include "server/restart_priv.h"
#include "server/route_priv.h"

enum {
    OTHER_BODY_MAX = 64 << 10, /* of a request that wants none */
    LAST_BYTES_MS = 1000,      /* for answers to leave after the last one has ended */
};

server_options server_options_default(void)
{
    return (server_options){
        .host = "127.0.0.1",
        .port = 8000,
        .limits = http_limits_default(),
        .body_max = 128 << 20,
        .keep_alive_ms = 2000,
        .grace_ms = 10000,
        .listen_fd = -1,
        .choices_max = 64,
        .response_bytes = RESPONSE_STORE_BYTES,
        .reasoning_most = -1,
    };
}

bool server_has_name(const server *s, str name)
{
    if (str_is(name, s->about->model_name) || str_is(name, "default")) return true;
    for (int i = 0; i < s->opt.n_names; i++)
        if (str_equal(name, s->opt.names[i])) return true;
    return false;
}

void server_new_id(server *s, const char *prefix, char *out)
{
    uint64_t a = rng_mix64(++s->id_state), b = rng_mix64(++s->id_state);
    snprintf(out, 64, "%s%016llx%08x", prefix, (unsigned long long)a, (unsigned)(b >> 32));
}

/* --- the service behind the connections --------------------------------------------------------
 */

static void reply_status(conn *c, int http, const char *code, const char *message,
                         const char *extra)
{
    api_error a;
    api_error_set(&a, http, code, NULL, "%s", message);
    conn_reply_error(c, &a, extra);
}

/* Host, then Origin. False when the request was refused. */
static bool check_access(server *s, conn *c)
{
    err e = {0};
    const http_head *h = conn_head(c);
    str host = http_head_get(h, "host"), origin = http_head_get(h, "origin");
    status st = access_check_host(&s->opt.access, host, &e);
    if (st == ERR_OK) st = access_check_origin(&s->opt.access, origin, host, &e);
    if (st == ERR_OK) {
        c->allow_origin = origin;
        return true;
    }
    if (st == ERR_FORMAT)
        reply_status(c, 400, "invalid_request_error", e.msg, NULL);
    else
        reply_status(c, 403, "forbidden", e.msg, NULL);
    return false;
}

static bool is_field_list(str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] < 0x20 || s.ptr[i] == 0x7f) return false;
    return s.len > 0 && s.len < 4096;
}

/* A browser asks what it may send before it sends it. */
static void reply_preflight(conn *c, str path)
{
    buf extra;
    buf_init(&extra);
    buf_put_c(&extra, "Allow: ");
    route_put_methods(path, &extra);
    buf_put_c(&extra, "\r\n");
    if (c->allow_origin.len) {
        str wanted = http_head_get(conn_head(c), "access-control-request-headers");
        buf_put_c(&extra, "Access-Control-Allow-Methods: ");
        route_put_methods(path, &extra);
        buf_put_c(&extra, "\r\nAccess-Control-Allow-Headers: ");
        buf_put_str(&extra,
                    is_field_list(wanted) ? wanted : STR("Authorization, Content-Type, X-Api-Key"));
        buf_put_c(&extra, "\r\nAccess-Control-Max-Age: 600\r\n");
    }
    conn_reply_empty(c, 204, extra.failed ? NULL : buf_str(&extra).ptr);
    buf_fini(&extra);
}

static void reply_wrong_method(conn *c, str path)
{
    buf extra;
    buf_init(&extra);
    buf_put_c(&extra, "Allow: ");
    route_put_methods(path, &extra);
    buf_put_c(&extra, "\r\n");
    reply_status(c, 405, "method_not_allowed", "this path has other methods",
                 extra.failed ? NULL : buf_str(&extra).ptr);
    buf_fini(&extra);
}

static bool is_plain_coding(const http_head *h)
{
    str coding = http_head_get(h, "content-encoding");
    return !coding.len || (coding.len == 8 && strncasecmp(coding.ptr, "identity", 8) == 0);
}

static int64_t on_head(void *ctx, conn *c)
{
    server *s = ctx;
    const http_head *h = conn_head(c);
    const route *found = NULL;
    str path = http_head_path(h);
    if (!check_access(s, c)) return 0;
    if (h->method == METHOD_OPTIONS) {
        reply_preflight(c, path);
        return 0;
    }
    route_match match = route_find(h->method, path, &found);
    bool is_public = match == ROUTE_FOUND && found->is_public;
    if (!is_public && !access_has_key(&s->opt.access, http_head_get(h, "authorization"),
                                      http_head_get(h, "x-api-key")))
        reply_status(c, 401, "authentication_error", "the API key is missing or wrong", NULL);
    else if (match == ROUTE_NO_PATH)
        reply_status(c, 404, "not_found", "there is nothing at this path", NULL);
    else if (match == ROUTE_NO_METHOD)
        reply_wrong_method(c, path);
    else if (!is_plain_coding(h))
        reply_status(c, 415, "unsupported_media_type", "compressed bodies are not read", NULL);
    c->route = found;
    return found && found->has_body ? s->opt.body_max : OTHER_BODY_MAX;
}

static void on_request(void *ctx, conn *c)
{
    server *s = ctx;
    const route *r = c->route;
    if (r->has_body) request_log_keep(&s->requests, c);
    r->run(ctx, c);
}

static void on_done(void *ctx, conn *c, bool is_whole)
{
    (void)ctx;
    request_log_tell(c, is_whole);
}

/* By path, since what is refused may have no route. */
static void put_error(void *ctx, conn *c, const api_error *a, buf *out)
{
    (void)ctx;
    str path = http_head_path(conn_head(c)), anthropic = STR("/v1/messages");
    if (str_starts(path, anthropic) &&
        (path.len == anthropic.len || path.ptr[anthropic.len] == '/'))
        api_error_put_anthropic(out, a);
    else if (str_is(path, "/v1/systemone"))
        api_error_put_detail(out, a);
    else
        api_error_put_openai(out, a);
}

/* --- stopping ----------------------------------------------------------------------------------
 */

static void close_handle(uv_handle_t *h)
{
    if (h->loop && !uv_is_closing(h)) uv_close(h, NULL);
}

/* The loop ends when the last handle is closed. */
static void close_all(server *s)
{
    if (s->is_closed) return;
    s->is_closed = true;
    listener_close(&s->listener);
    bridge_close(&s->bridge);
    if (!s->has_stop) return;
    close_handle((uv_handle_t *)&s->stop_wake);
    close_handle((uv_handle_t *)&s->broken_wake);
    close_handle((uv_handle_t *)&s->stop_timer);
    for (int i = 0; i < 2; i++) close_handle((uv_handle_t *)&s->signals[i]);
}

/* No generation is left: close when the last bytes have gone, or after a while without them. */
static void on_last_bytes(uv_timer_t *timer)
{
    server *s = timer->data;
    if (s->listener.unsent_bytes == 0 || uv_now(&s->loop) >= s->close_ms) close_all(s);
}

static void on_grace_over(uv_timer_t *timer)
{
    generation_cancel_all(timer->data);
}

void server_on_idle(server *s)
{
    if (s->n_stops == 0 || s->n_generations > 0 || s->is_closed) return;
    s->close_ms = uv_now(&s->loop) + LAST_BYTES_MS;
    uv_timer_start(&s->stop_timer, on_last_bytes, 0, 10);
}

static void begin_stop(server *s)
{
    if (++s->n_stops > 1) {
        generation_cancel_all(s);
        return;
    }
    if (s->kept_fd < 0) notify_send("STOPPING=1");
    if (s->n_generations > 0)
        log_event(LOG_INFO, "stop", "running=%d grace_ms=%lld, again to stop at once",
                  s->n_generations, (long long)s->opt.grace_ms);
    uv_timer_start(&s->stop_timer, on_grace_over, (uint64_t)s->opt.grace_ms, 0);
    listener_drain(&s->listener);
    server_on_idle(s);
}

static void on_stop(uv_async_t *wake)
{
    begin_stop(wake->data);
}

void server_take_failure(void *ctx, const err *failure)
{
    server *s = ctx;
    s->failure = *failure;
    uv_async_send(&s->broken_wake);
}

/* What ran has failed by now, and so does what is asked next. */
static void on_broken(uv_async_t *wake)
{
    server *s = wake->data;
    s->is_broken = true;
    log_event(LOG_ERROR, "device_failed", "at=%s message=\"%s\"", s->failure.where, s->failure.msg);
    if (!s->opt.ends_broken || s->n_stops > 0) return;
    s->kept_fd = restart_keep_socket(&s->listener.tcp);
    begin_stop(s);
}

int server_take_socket(server *s)
{
    int fd = s->kept_fd;
    s->kept_fd = -1;
    return fd;
}

static void on_signal(uv_signal_t *signal, int number)
{
    (void)number;
    begin_stop(signal->data);
}

void server_stop(server *s)
{
    uv_async_send(&s->stop_wake);
}

/* --- life --------------------------------------------------------------------------------------
 */

static status open_stop(server *s, err *e)
{
    int r = uv_async_init(&s->loop, &s->stop_wake, on_stop);
    if (r != 0) return err_set(e, ERR_IO, "server", -1, "%s", uv_strerror(r));
    s->has_stop = true;
    s->stop_wake.data = s;
    r = uv_async_init(&s->loop, &s->broken_wake, on_broken);
    if (r != 0) return err_set(e, ERR_IO, "server", -1, "%s", uv_strerror(r));
    s->broken_wake.data = s;
    uv_timer_init(&s->loop, &s->stop_timer);
    s->stop_timer.data = s;
    static const int numbers[] = {SIGINT, SIGTERM};
    for (int i = 0; s->opt.handles_signals && i < 2; i++) {
        uv_signal_init(&s->loop, &s->signals[i]);
        s->signals[i].data = s;
        uv_signal_start(&s->signals[i], on_signal, numbers[i]);
    }
    return ERR_OK;
}

static status open_parts(server *s, err *e)
{
    int r = uv_loop_init(&s->loop);
    if (r != 0) return err_set(e, ERR_IO, "server", -1, "event loop: %s", uv_strerror(r));
    s->has_loop = true;
    TRY(bridge_open(&s->bridge, &s->loop, server_take_events, s, e));
    TRY(open_stop(s, e));
    http_service service = {on_head, on_request, put_error, s, on_done};
    if (s->opt.listen_fd >= 0)
        TRY(listener_open_at(&s->listener, &s->loop, s->opt.listen_fd, &s->opt.limits, &service,
                             e));
    else
        TRY(listener_open(&s->listener, &s->loop, s->opt.host, s->opt.port, &s->opt.limits,
                          &service, e));
    s->opt.access.is_loopback = s->listener.is_loopback;
    TRY(request_log_open(&s->requests, s->opt.request_log, e));
    return response_store_open(&s->responses, s->opt.response_store, s->opt.response_bytes, e);
}

status server_open(server **out, const server_options *o, err *e)
{
    server *s = mem_new(sizeof *s);
    if (!s) return err_set(e, ERR_NOMEM, "server", -1, "server");
    s->opt = *o;
    s->kept_fd = s->requests.fd = -1;
    s->opt.access.bind_name = str_from(o->host);
    s->created_s = clock_unix_s();
    grammar_cache_init(&s->grammars, GRAMMAR_CACHE_BYTES);
    if (getentropy(&s->id_state, sizeof s->id_state) != 0) s->id_state = (uint64_t)clock_ns();
    status st = open_parts(s, e);
    if (st != ERR_OK) {
        server_close(s);
        return st;
    }
    *out = s;
    return ERR_OK;
}

status server_attach(server *s, engine *en, err *e)
{
    const engine_info *about = engine_about(en);
    if (about->chat_template.len > 0)
        TRY(template_open(&s->template, about->chat_template, "chat template", e));
    s->engine = en;
    s->about = about;
    s->tokens = engine_tokenizer(en);
    s->think_open = tokenizer_find_added(s->tokens, STR("<think>"));
    s->think_close = tokenizer_find_added(s->tokens, STR("</think>"));
    return ERR_OK;
}

status server_listen(server *s, err *e)
{
    return listener_start(&s->listener, e);
}

status server_run(server *s, err *e)
{
    TRY(engine_start(s->engine, e));
    listener_mask_signals();
    uv_run(&s->loop, UV_RUN_DEFAULT);
    engine_stop(s->engine);
    return ERR_OK;
}

void server_close(server *s)
{
    if (!s) return;
    if (s->has_loop) {
        close_all(s);
        uv_run(&s->loop, UV_RUN_DEFAULT);
        int r = uv_loop_close(&s->loop);
        ASSERT(r == 0);
    }
    bridge_fini(&s->bridge);
    listener_fini(&s->listener);
    response_store_close(&s->responses);
    request_log_close(&s->requests);
    grammar_cache_fini(&s->grammars);
    template_close(s->template);
    if (s->kept_fd >= 0) close(s->kept_fd);
    mem_free(s);
}
