#include "hub/http_fetch.h"

#include <curl/curl.h>
#include <stdio.h>
#include <strings.h>

#include "base/mem.h"

enum { REDIRECTS_MOST = 5, HEAD_BYTES_MOST = 64 << 10, DROPPED_MOST = 64 << 10, URL_MOST = 8192 };

struct http_fetch {
    CURL *curl;
};

/* One request under way. */
typedef struct {
    const http_request *q;
    http_head head;
    int n_hops;
    int64_t n_head, n_dropped;
    bool was_announced; /* on_head was called */
    status failed;      /* of a callback */
    err *e;
} transfer;

status http_fetch_open(http_fetch **out, err *e)
{
    http_fetch *h = mem_new(sizeof *h);
    if (!h) return err_set(e, ERR_NOMEM, "hub", -1, "out of memory");
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        mem_free(h);
        return err_set(e, ERR_NOMEM, "hub", -1, "libcurl did not start");
    }
    h->curl = curl_easy_init();
    if (!h->curl) {
        http_fetch_close(h);
        return err_set(e, ERR_NOMEM, "hub", -1, "libcurl did not start");
    }
    *out = h;
    return ERR_OK;
}

void http_fetch_close(http_fetch *h)
{
    if (!h) return;
    curl_easy_cleanup(h->curl);
    curl_global_cleanup();
    mem_free(h);
}

static void copy_text(char *out, size_t cap, str s)
{
    size_t n = s.len < cap - 1 ? s.len : cap - 1;
    memcpy(out, s.ptr, n);
    out[n] = '\0';
}

/* W/"abc" and "abc" as abc. */
static str unquote(str s)
{
    if (str_starts(s, STR("W/"))) s = str_skip(s, 2);
    if (s.len >= 2 && s.ptr[0] == '"' && s.ptr[s.len - 1] == '"') s = str_slice(s, 1, s.len - 1);
    return s;
}

/* "bytes 10-19/20" */
static void read_range(http_head *h, str v)
{
    int64_t dash = str_find(v, STR("-"), 0), slash = str_find(v, STR("/"), 0), from, total;
    if (!str_starts(v, STR("bytes ")) || dash < 6 || slash < dash) return;
    if (!str_to_int64(str_slice(v, 6, (size_t)dash), &from)) return;
    if (!str_to_int64(str_skip(v, (size_t)slash + 1), &total)) total = -1;
    h->range_from = from;
    h->range_total = total;
}

static bool is_field(str name, const char *want)
{
    return name.len == strlen(want) && strncasecmp(name.ptr, want, name.len) == 0;
}

static void read_field(transfer *t, str name, str v)
{
    http_head *h = &t->head;
    int64_t n;
    bool is_first = t->n_hops == 0;
    if (is_field(name, "content-length") && str_to_int64(v, &n) && n >= 0) h->n_body = n;
    if (is_field(name, "content-range")) read_range(h, v);
    if (is_field(name, "content-encoding")) h->is_encoded = !str_is(v, "identity");
    if (is_field(name, "content-type")) copy_text(h->type, sizeof h->type, v);
    if (is_field(name, "x-error-code")) copy_text(h->problem, sizeof h->problem, v);
    if (is_field(name, "retry-after") && str_to_int64(v, &n) && n >= 0)
        h->retry_after_s = n > INT32_MAX ? INT32_MAX : (int)n;
    if (is_first && is_field(name, "x-repo-commit")) copy_text(h->commit, sizeof h->commit, v);
    if (is_first && is_field(name, "x-linked-etag")) copy_text(h->etag, sizeof h->etag, unquote(v));
    if (is_first && is_field(name, "etag") && !h->etag[0])
        copy_text(h->etag, sizeof h->etag, unquote(v));
}

/* The fields that belong to one answer; those of the first stay. */
static void reset_head(http_head *h)
{
    h->n_body = h->range_from = h->range_total = -1;
    h->retry_after_s = -1;
    h->is_encoded = false;
    h->type[0] = h->problem[0] = '\0';
}

/* "HTTP/1.1 206 Partial Content" */
static int read_code(str line)
{
    int64_t space = str_find(line, STR(" "), 0), code;
    if (space < 0 || line.len < (size_t)space + 4) return 0;
    str digits = str_slice(line, (size_t)space + 1, (size_t)space + 4);
    return str_to_int64(digits, &code) && code >= 100 ? (int)code : 0;
}

static size_t take_header(char *bytes, size_t size, size_t n, void *ctx)
{
    transfer *t = ctx;
    str line = {bytes, size * n};
    t->n_head += (int64_t)line.len;
    if (t->n_head > HEAD_BYTES_MOST) {
        t->failed = err_set(t->e, ERR_FORMAT, t->q->url, -1, "the answer's head has no end");
        return 0;
    }
    if (str_starts(line, STR("HTTP/"))) { /* also behind a 100 */
        reset_head(&t->head);
        t->head.code = read_code(line);
    }
    int64_t colon = str_find(line, STR(":"), 0);
    if (colon > 0)
        read_field(t, str_slice(line, 0, (size_t)colon),
                   str_trim(str_skip(line, (size_t)colon + 1)));
    return size * n;
}

static bool has_body(int code)
{
    return code == 200 || code == 206;
}

static void announce(transfer *t)
{
    if (t->was_announced || t->failed != ERR_OK) return;
    t->was_announced = true;
    if (t->q->on_head) t->failed = t->q->on_head(t->q->ctx, &t->head, t->e);
}

static size_t take_body(char *bytes, size_t size, size_t n, void *ctx)
{
    transfer *t = ctx;
    (void)size; /* is 1 */
    if (!has_body(t->head.code)) {
        t->n_dropped += (int64_t)n;
        return t->n_dropped > DROPPED_MOST ? 0 : n;
    }
    announce(t);
    if (t->failed == ERR_OK) t->failed = t->q->on_bytes(t->q->ctx, (const uint8_t *)bytes, n, t->e);
    return t->failed == ERR_OK ? n : 0;
}

/* "https://host:port" of an address: its bytes up to the path. */
static str origin(const char *url)
{
    str s = str_from(url);
    int64_t at = str_find(s, STR("://"), 0);
    if (at < 0) return s;
    size_t end = (size_t)at + 3;
    while (end < s.len && !strchr("/?#", s.ptr[end])) end++;
    return str_slice(s, 0, end);
}

static bool is_same_origin(const char *a, const char *b)
{
    str x = origin(a), y = origin(b);
    return x.len == y.len && strncasecmp(x.ptr, y.ptr, x.len) == 0;
}

static bool is_loopback(const char *url)
{
    str s = origin(url);
    s = str_skip(s, (size_t)str_find(s, STR("://"), 0) + 3);
    return str_starts(s, STR("127.")) || str_starts(s, STR("localhost")) ||
           str_starts(s, STR("[::1]"));
}

static bool is_passing_fault(CURLcode c)
{
    switch (c) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM: return true;
    default: return false;
    }
}

static struct curl_slist *make_headers(const http_request *q, bool sends_token)
{
    char line[4200];
    struct curl_slist *list = curl_slist_append(NULL, "Accept: */*");
    if (!list || !sends_token || !q->token) return list;
    int n = snprintf(line, sizeof line, "Authorization: Bearer %s", q->token);
    struct curl_slist *more = n < (int)sizeof line ? curl_slist_append(list, line) : NULL;
    if (!more) curl_slist_free_all(list);
    return more;
}

static void set_up(http_fetch *h, transfer *t, const char *url, struct curl_slist *headers,
                   char problem[CURL_ERROR_SIZE])
{
    const http_request *q = t->q;
    char range[64];
    CURL *c = h->curl;
    curl_easy_reset(c); /* connections stay */
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_USERAGENT, "riptide");
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, problem);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)q->timeout_ms);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)(q->timeout_ms + 999) / 1000);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)q->total_ms);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    if (q->is_direct || is_loopback(url)) curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
    if (q->from >= 0) {
        snprintf(range, sizeof range, "%lld-%lld", (long long)q->from, (long long)q->to - 1);
        curl_easy_setopt(c, CURLOPT_RANGE, range);
    }
}

static bool is_redirect(int code)
{
    return code == 301 || code == 302 || code == 303 || code == 307 || code == 308;
}

/* One answer. */
static status ask(http_fetch *h, transfer *t, const char *url, bool *is_passing)
{
    char problem[CURL_ERROR_SIZE] = "";
    struct curl_slist *headers = make_headers(t->q, is_same_origin(url, t->q->url));
    if (!headers) return err_set(t->e, ERR_NOMEM, t->q->url, -1, "out of memory for a header");
    t->n_head = t->n_dropped = 0;
    t->head.code = 0;
    set_up(h, t, url, headers, problem);
    CURLcode c = curl_easy_perform(h->curl);
    curl_slist_free_all(headers);
    if (t->failed != ERR_OK) return t->failed;
    bool was_dropped = t->n_dropped > 0 && t->head.code && !has_body(t->head.code);
    if (c == CURLE_OK || was_dropped) return ERR_OK;
    *is_passing = is_passing_fault(c);
    return err_set(t->e, c == CURLE_OUT_OF_MEMORY ? ERR_NOMEM : ERR_IO, t->q->url, -1, "%s",
                   problem[0] ? problem : curl_easy_strerror(c));
}

static status check_redirect(const transfer *t, const char *from, const char *to)
{
    if (!to || strlen(to) >= URL_MOST)
        return err_set(t->e, ERR_FORMAT, t->q->url, -1, "code %d without an address to go to",
                       t->head.code);
    bool is_https = strncasecmp(to, "https://", 8) == 0;
    if (!is_https && strncasecmp(to, "http://", 7) != 0)
        return err_set(t->e, ERR_UNSUPPORTED, t->q->url, -1,
                       "redirects to %.80s, which is neither http nor https", to);
    if (!is_https && strncasecmp(from, "https://", 8) == 0)
        return err_set(t->e, ERR_UNSUPPORTED, t->q->url, -1, "redirects from https to http");
    if (t->n_hops > REDIRECTS_MOST)
        return err_set(t->e, ERR_FORMAT, t->q->url, -1, "redirects without end");
    return ERR_OK;
}

status http_fetch_get(http_fetch *h, const http_request *q, http_head *head, bool *is_passing,
                      err *e)
{
    char url[URL_MOST];
    transfer t = {.q = q, .e = e};
    *is_passing = false;
    copy_text(url, sizeof url, str_from(q->url));
    for (;;) {
        TRY(ask(h, &t, url, is_passing));
        if (!is_redirect(t.head.code)) break;
        char *to = NULL;
        curl_easy_getinfo(h->curl, CURLINFO_REDIRECT_URL, &to);
        t.n_hops++;
        TRY(check_redirect(&t, url, to));
        copy_text(url, sizeof url, str_from(to));
    }
    if (has_body(t.head.code)) announce(&t);
    TRY(t.failed);
    *head = t.head;
    return ERR_OK;
}
