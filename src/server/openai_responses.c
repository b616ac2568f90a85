/* POST /v1/responses, GET and DELETE /v1/responses/ID, GET /v1/responses/ID/input_items. */
#include "base/log.h"
#include "server/endpoint_priv.h"
#include "server/fields_priv.h"
#include "server/input_items_priv.h"
#include "server/item_reference_priv.h"
#include "server/responses_output_priv.h"
#include "server/route_priv.h"
#include "server/sse_priv.h"

enum {
    ITEMS_DEPTH = 130, /* of a stored conversation: a request's depth and its own array */
    LIST_BYTES =
        64 << 20, /* for reading one to list it, on the loop's thread: a tenth of a second */
};

static void set_unknown(api_error *a, int http, const char *code, const char *param, str id)
{
    api_error_set(a, http, code, param, "there is no response \"%.*s\" here (any more)",
                  (int)(id.len < 100 ? id.len : 100), id.ptr);
}

/* The items that the request goes on from; *before NULL without any. False: an error. */
static bool find_before(generation *g, const json *body, const json **before, api_error *a)
{
    str id = {NULL, 0};
    err e = {0};
    buf items;
    *before = NULL;
    if (!json_is(body, JSON_OBJECT)) return true; /* refused later */
    if (field_str(body, "previous_response_id", &id, &e) != ERR_OK) {
        api_error_from(a, &e);
        return false;
    }
    if (!id.ptr || id.len == 0) return true;
    buf_init(&items);
    bool is_there = response_store_get(&g->server->responses, id, NULL, &items);
    char *copy = items.failed ? NULL : arena_copy(&g->scratch, buf_str(&items).ptr, items.len);
    str text = {copy, items.len};
    buf_fini(&items);
    if (!is_there) {
        set_unknown(a, 404, "previous_response_not_found", "previous_response_id", id);
        return false;
    }
    status s = copy ? json_parse(&g->scratch, text, "", ITEMS_DEPTH, 0, before, &e)
                    : err_set(&e, ERR_NOMEM, "previous_response_id", -1, "copy");
    if (s != ERR_OK) generation_explain(g, &e, a);
    return s == ERR_OK;
}

static void parse(generation *g, const json *body, api_error *a)
{
    err e = {0};
    chat_context x;
    const json *before;
    responses_echo *echo = arena_new(&g->mem, sizeof *echo);
    if (!generation_check_model(g->server, body, a)) return;
    if (!generation_get_context(g, &x, a)) return;
    if (!find_before(g, body, &before, a)) return;
    if (item_reference_resolve(&g->server->responses, body, &g->scratch, &body, &e) != ERR_OK) {
        generation_explain(g, &e, a);
        return;
    }
    status s = echo ? responses_request_parse(body, before, &x, &g->scratch, &g->mem, &g->request,
                                              echo, &e)
                    : err_set(&e, ERR_NOMEM, "response", -1, "request");
    if (s != ERR_OK) generation_explain(g, &e, a);
    if (s == ERR_OK && echo->n_ignored > 0)
        log_event(LOG_INFO, "tools_left_out", "response=%s n=%d", g->id, echo->n_ignored);
    g->extra = echo;
}

static void begin(generation *g)
{
    responses_put_start(g);
}

static void part(generation *g, answer *c, const outparse_event *event)
{
    responses_put_part(g, c, event);
}

static void finish(generation *g, answer *c)
{
    responses_put_finish(g, c);
}

static void store(generation *g)
{
    buf response, items;
    buf_init(&response);
    buf_init(&items);
    responses_put_response(&response, g);
    responses_put_items(&items, g);
    if (!response.failed && !items.failed)
        response_store_put(&g->server->responses, str_from(g->id), buf_str(&response),
                           buf_str(&items));
    buf_fini(&response);
    buf_fini(&items);
}

static void end(generation *g)
{
    const responses_echo *echo = g->extra;
    if (!g->request.streams) responses_put_response(&g->out, g);
    if (echo->is_stored) store(g);
}

static void fail(generation *g, const api_error *a)
{
    responses_put_failure(g, a);
}

static void keep_alive(generation *g)
{
    sse_put_comment(&g->out, "keep-alive");
}

void endpoint_responses(server *s, conn *c)
{
    static const dialect responses = {
        .id_prefix = "resp_",
        .keeps_text = true,
        .parse = parse,
        .begin = begin,
        .part = part,
        .finish = finish,
        .end = end,
        .fail = fail,
        .keep_alive = keep_alive,
    };
    generation_begin(s, c, &responses);
}

static void reply_unknown(conn *c, str id)
{
    api_error a;
    set_unknown(&a, 404, "not_found", NULL, id);
    conn_reply_error(c, &a, NULL);
}

/* The page as text; the conversation of a response is its input and, at the end, its output. */
static status list_input(str id, str response, str conversation, const input_items_page *page,
                         arena *a, buf *out, err *e)
{
    const json *stored, *items;
    TRY(json_parse(a, response, "stored response", ITEMS_DEPTH, 0, &stored, e));
    TRY(json_parse(a, conversation, "stored items", ITEMS_DEPTH, 0, &items, e));
    const json *output = json_get(stored, "output");
    return input_items_put(out, id, items, items->n - (output ? output->n : 0), page, a, e);
}

static void reply_input_items(server *s, conn *c, str id)
{
    buf response, items, list;
    input_items_page page;
    arena a;
    api_error failure = {0};
    err e = {0};
    buf_init(&response);
    buf_init(&items);
    buf_init(&list);
    arena_init(&a, LIST_BYTES);
    status st = input_items_parse(http_head_query(conn_head(c)), &page, &e);
    if (st == ERR_OK && !response_store_get(&s->responses, id, &response, &items))
        set_unknown(&failure, 404, "not_found", NULL, id);
    else if (st == ERR_OK && (response.failed || items.failed))
        st = err_set(&e, ERR_NOMEM, "input_items", -1, "copy");
    else if (st == ERR_OK)
        st = list_input(id, buf_str(&response), buf_str(&items), &page, &a, &list, &e);
    if (st != ERR_OK) api_error_from(&failure, &e);
    if (failure.http)
        conn_reply_error(c, &failure, NULL);
    else
        conn_reply_buf(c, 200, NULL, &list);
    arena_fini(&a);
    input_items_page_fini(&page);
    buf_fini(&list);
    buf_fini(&items);
    buf_fini(&response);
}

void endpoint_get_response(server *s, conn *c)
{
    const str below = STR("/input_items");
    buf response;
    str id = route_rest(c->route, http_head_path(conn_head(c)));
    if (str_ends(id, below)) {
        reply_input_items(s, c, str_slice(id, 0, id.len - below.len));
        return;
    }
    buf_init(&response);
    if (response_store_get(&s->responses, id, &response, NULL))
        conn_reply_buf(c, 200, NULL, &response);
    else
        reply_unknown(c, id);
    buf_fini(&response);
}

void endpoint_delete_response(server *s, conn *c)
{
    buf b;
    str id = route_rest(c->route, http_head_path(conn_head(c)));
    buf_init(&b);
    if (response_store_drop(&s->responses, id)) {
        buf_put_c(&b, "{\"id\":");
        json_put_string(&b, id);
        buf_put_c(&b, ",\"object\":\"response\",\"deleted\":true}");
        conn_reply_buf(c, 200, NULL, &b);
    } else {
        reply_unknown(c, id);
    }
    buf_fini(&b);
}
