#include "server/request_log_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "server/listen_priv.h"

status request_log_open(request_log *l, const char *path, err *e)
{
    l->fd = -1;
    if (!path || !path[0]) return ERR_OK;
    l->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return l->fd >= 0 ? ERR_OK : err_set(e, ERR_IO, path, -1, "%s", strerror(errno));
}

void request_log_close(request_log *l)
{
    if (l->fd >= 0) close(l->fd);
    l->fd = -1;
}

static str target_of(const http_head *h)
{
    str target = buf_str(&h->text);
    if (target.len > h->target_len) target.len = h->target_len;
    return target;
}

void request_log_keep(request_log *l, const conn *c)
{
    if (l->fd < 0) return;
    buf line;
    json_writer w;
    buf_init(&line);
    json_writer_init(&w, &line);
    json_open_object(&w);
    json_key(&w, "at_ms");
    json_int(&w, (int64_t)uv_now(c->l->loop));
    json_key(&w, "id");
    json_c_string(&w, c->request_id);
    json_key(&w, "method");
    json_c_string(&w, http_method_text(conn_head(c)->method));
    json_key(&w, "path");
    json_string(&w, target_of(conn_head(c)));
    json_key(&w, "body");
    json_string(&w, conn_body(c));
    json_close_object(&w);
    buf_put_byte(&line, '\n');
    int r = line.failed ? ENOMEM : file_write_fd(l->fd, buf_str(&line)) ? 0 : errno;
    buf_fini(&line);
    if (r == 0) return;
    log_event(LOG_WARN, "request_log_ends", "request=%s why=\"%s\"", c->request_id, strerror(r));
    request_log_close(l);
}

/* What is asked for every few seconds. */
static bool is_poll(str path)
{
    return str_is(path, "/health") || str_is(path, "/ready") || str_is(path, "/metrics") ||
           str_is(path, "/status");
}

void request_log_tell(const conn *c, bool is_whole)
{
    str path = http_head_path(conn_head(c));
    if (c->status == 200 && is_whole && is_poll(path)) return;
    long long ms = c->request_id[0] ? (long long)(uv_now(c->l->loop) - c->request_ms) : 0;
    log_event(LOG_INFO, "request", "id=%s method=%s path=%.*s status=%d%s ms=%lld%s%s",
              c->request_id[0] ? c->request_id : "-", http_method_text(conn_head(c)->method),
              STR_ARG(path), c->status, is_whole ? "" : " cut", ms, c->note[0] ? " " : "", c->note);
}
