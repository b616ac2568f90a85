/* One request to a server that may not be there: what does it serve? */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "cli/agent_priv.h"

enum { WAIT_S = 5, REPLY_MAX = 1 << 20 };

static int connect_to(const char *host, int port, char *why, size_t n_why)
{
    char service[16];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    struct timeval wait = {.tv_sec = WAIT_S};
    int fd = -1;
    snprintf(service, sizeof service, "%d", port);
    int r = getaddrinfo(host, service, &hints, &list);
    if (r != 0) snprintf(why, n_why, "%s", gai_strerror(r));
    for (struct addrinfo *at = list; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        if (fd < 0) continue;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
        if (connect(fd, at->ai_addr, at->ai_addrlen) == 0) break;
        snprintf(why, n_why, "%s", strerror(errno));
        close(fd);
        fd = -1;
    }
    if (list) freeaddrinfo(list);
    return fd;
}

/* Send all of `text` and read to the end. */
static bool exchange(int fd, str text, buf *reply)
{
    while (text.len > 0) {
        ssize_t n = send(fd, text.ptr, text.len, MSG_NOSIGNAL);
        if (n <= 0) return false;
        text = str_skip(text, (size_t)n);
    }
    for (char piece[4096];;) {
        ssize_t n = recv(fd, piece, sizeof piece, 0);
        if (n < 0) return false;
        if (n == 0) return !reply->failed;
        buf_put(reply, piece, (size_t)n);
        if (reply->failed || reply->len > REPLY_MAX) return false;
    }
}

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

static status read_reply(arena *a, str reply, const char *where, agent_server *out, err *e)
{
    int64_t code = 0, at = str_find(reply, STR("\r\n\r\n"), 0);
    if (!str_starts(reply, STR("HTTP/1.")) || at < 12 ||
        !str_to_int64(str_slice(reply, 9, 12), &code))
        return err_set(e, ERR_FORMAT, where, -1, "is no riptide server");
    if (code == 401)
        return err_set(e, ERR_INVALID, "--api-key", -1, "is missing or wrong for %s", where);
    if (code != 200) return err_set(e, ERR_FORMAT, where, -1, "answered %lld", (long long)code);
    return read_model(a, str_skip(reply, (size_t)at + 4), where, out, e);
}

status agent_find_server(arena *a, const char *host, int port, const char *key, agent_server *out,
                         err *e)
{
    char why[200] = "no address";
    buf url, request, reply;
    bool is_v6 = strchr(host, ':') != NULL;
    buf_init(&url);
    buf_init(&request);
    buf_init(&reply);
    buf_printf(&url, is_v6 ? "http://[%s]:%d" : "http://%s:%d", host, port);
    buf_printf(&request, "GET /v1/models HTTP/1.0\r\nHost: %s\r\nConnection: close\r\n",
               url.failed ? "" : url.ptr + strlen("http://"));
    if (key && key[0]) buf_printf(&request, "Authorization: Bearer %s\r\n", key);
    buf_put_c(&request, "\r\n");
    agent_server s = {.key = key && key[0] ? key : "riptide"};
    if (!url.failed) s.url = arena_copy(a, url.ptr, url.len);
    status st = s.url && !request.failed ? ERR_OK : err_set(e, ERR_NOMEM, "server", -1, "request");
    if (st == ERR_OK) {
        int fd = connect_to(host, port, why, sizeof why);
        if (fd < 0)
            st = err_set(e, ERR_IO, s.url, -1, "%s; is `riptide serve` running there?", why);
        else if (!exchange(fd, buf_str(&request), &reply))
            st = err_set(e, ERR_IO, s.url, -1, "gave no whole answer");
        else
            st = read_reply(a, buf_str(&reply), s.url, &s, e);
        if (fd >= 0) close(fd);
    }
    if (st == ERR_OK) *out = s;
    buf_fini(&reply);
    buf_fini(&request);
    buf_fini(&url);
    return st;
}
