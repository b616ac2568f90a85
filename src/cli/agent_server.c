/* One request to a server that may not be there: what does it serve? */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "cli/agent_priv.h"
#include "hub/http_fetch.h"

enum { WAIT_MS = 5000, REPLY_MAX = 1 << 20 };

static status read_model(arena *a, str body, const char *where, agent_server *out, err *e)
{
    const json *root;
    str name;
    TRY(json_parse(a, body, where, JSON_DEPTH_DEFAULT, 0, &root, e));
    const json *data = json_is(root, JSON_OBJECT) ? json_get(root, "data") : NULL;
    const json *model = json_is(data, JSON_ARRAY) ? data->first : NULL;
    if (!json_is(model, JSON_OBJECT) || !json_to_str(json_get(model, "id"), &name) ||
        !json_to_int64(json_get(model, "context_length"), &out->context))
        return err_set(e, ERR_FORMAT, where, -1, "is no riptide server");
    out->model = arena_copy(a, name.ptr, name.len);
    return out->model ? ERR_OK : err_set(e, ERR_NOMEM, where, -1, "name of the model");
}

static status take_bytes(void *ctx, const uint8_t *bytes, size_t n, err *e)
{
    buf *reply = ctx;
    buf_put(reply, bytes, n);
    return reply->failed ? err_set(e, ERR_FORMAT, "server", -1, "gave no whole answer") : ERR_OK;
}

/* The body of what it says of its models. */
static status ask(const char *url, const char *where, const char *key, buf *reply, err *e)
{
    http_fetch *http = NULL;
    http_head head;
    bool is_passing;
    err why = {0};
    http_request q = {.url = url,
                      .token = key,
                      .from = -1,
                      .timeout_ms = WAIT_MS,
                      .is_direct = true,
                      .on_bytes = take_bytes,
                      .ctx = reply};
    TRY(http_fetch_open(&http, e));
    status s = http_fetch_get(http, &q, &head, &is_passing, &why);
    http_fetch_close(http);
    if (s == ERR_IO && is_passing)
        return err_set(e, s, where, -1, "%s; is `riptide serve` running there?", why.msg);
    if (s == ERR_IO) return err_set(e, ERR_FORMAT, where, -1, "is no riptide server: %s", why.msg);
    if (s != ERR_OK) return err_set(e, s, where, -1, "%s", why.msg);
    if (head.code == 401)
        return err_set(e, ERR_INVALID, "--api-key", -1, "is missing or wrong for %s", where);
    return head.code == 200 ? ERR_OK : err_set(e, ERR_FORMAT, where, -1, "answered %d", head.code);
}

status agent_find_server(arena *a, const char *host, int port, const char *key, agent_server *out,
                         err *e)
{
    char url[512];
    bool has_key = key && key[0], is_v6 = strchr(host, ':') != NULL;
    int n = snprintf(url, sizeof url, is_v6 ? "http://[%s]:%d" : "http://%s:%d", host, port);
    if (n > (int)(sizeof url - sizeof "/v1/models"))
        return err_set(e, ERR_INVALID, "--host", -1, "is too long");
    agent_server s = {.url = arena_copy(a, url, (size_t)n), .key = has_key ? key : "riptide"};
    if (!s.url) return err_set(e, ERR_NOMEM, "server", -1, "address");
    memcpy(url + n, "/v1/models", sizeof "/v1/models");
    buf reply;
    buf_init(&reply);
    reply.limit = REPLY_MAX;
    status st = ask(url, s.url, has_key ? key : NULL, &reply, e);
    if (st == ERR_OK) st = read_model(a, buf_str(&reply), s.url, &s, e);
    buf_fini(&reply);
    if (st == ERR_OK) *out = s;
    return st;
}
