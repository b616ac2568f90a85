/* hub_server: a server on loopback that speaks the hub's protocol, with faults on request.
 *
 * GET /api/models/O/R/revision/REV?blobs=true lists what hub_server_put took; …/resolve/COMMIT/PATH
 * gives it, with ranges; large files (is_lfs) by a redirect to /cdn/…, as the hub does. A fault
 * belongs to addresses that contain its text and lasts for `n` requests. */
#ifndef RIPTIDE_TESTS_HUB_SERVER_H
#define RIPTIDE_TESTS_HUB_SERVER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/sha.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/thread.h"
#include "support/test.h"

enum { HUB_FILES = 32, HUB_FAULTS = 8, HUB_REQUESTS = 512 };
#define HUB_COMMIT "0123456789abcdef0123456789abcdef01234567"

typedef enum {
    HUB_CUT,         /* close after `at` bytes of the body */
    HUB_CODE,        /* answer `at` with the header lines `text` */
    HUB_PAGE,        /* a web page, 200 */
    HUB_PAGE_CHUNKS, /* the same without a length */
    HUB_OTHER_RANGE, /* 206 that begins a byte late */
    HUB_OTHER_TOTAL, /* 206 of a file of another size */
    HUB_NO_RANGE,    /* 200 with all of it */
    HUB_GOTO,        /* 302 to `text` */
    HUB_LENGTH,      /* 200 that claims `at` bytes */
    HUB_FLIP,        /* byte `at` is another */
    HUB_ENDLESS,     /* no length, and bytes without end */
    HUB_HEADERS,     /* header lines without end */
    HUB_EXTRA,       /* the header lines `text` besides */
    HUB_STALL,       /* nothing for `at` ms, then closed */
    HUB_BODY         /* 200 with `text` as its body */
} hub_fault_kind;

typedef struct {
    const char *match, *text;
    hub_fault_kind kind;
    int64_t at;
    int n;
} hub_fault;

typedef struct {
    char path[256], digest[65];
    str bytes;
    bool is_lfs;
} hub_file;

typedef struct {
    char url[512], range[64], token[128];
} hub_seen;

typedef struct {
    int fd, port;
    thread loop;
    mutex m; /* of all below */
    bool is_stopping;
    char commit[41];
    hub_file files[HUB_FILES];
    int n_files;
    hub_fault faults[HUB_FAULTS];
    int n_faults;
    hub_seen seen[HUB_REQUESTS];
    int n_seen;
    int64_t n_body; /* bytes of files sent */
} hub_server;

static inline void hub_hex(const unsigned char *raw, int n, char *out)
{
    for (int i = 0; i < n; i++) snprintf(out + 2 * i, 3, "%02x", raw[i]);
}

/* `bytes` must outlive the server. */
static inline void hub_server_put(hub_server *s, const char *path, str bytes, bool is_lfs)
{
    hub_file *f = NULL;
    mutex_lock(&s->m);
    for (int i = 0; i < s->n_files; i++)
        if (strcmp(s->files[i].path, path) == 0) f = &s->files[i];
    if (!f) f = &s->files[s->n_files++];
    snprintf(f->path, sizeof f->path, "%s", path);
    f->bytes = bytes;
    f->is_lfs = is_lfs;
    unsigned char raw[32];
    if (is_lfs) {
        SHA256((const unsigned char *)bytes.ptr, bytes.len, raw);
        hub_hex(raw, 32, f->digest);
    } else {
        buf b;
        buf_init(&b);
        buf_printf(&b, "blob %zu", bytes.len);
        buf_put_byte(&b, '\0');
        buf_put_str(&b, bytes);
        SHA1((const unsigned char *)b.ptr, b.len, raw);
        buf_fini(&b);
        hub_hex(raw, 20, f->digest);
    }
    mutex_unlock(&s->m);
}

static inline void hub_server_fault(hub_server *s, hub_fault f)
{
    mutex_lock(&s->m);
    assert_true(s->n_faults < HUB_FAULTS);
    s->faults[s->n_faults++] = f;
    mutex_unlock(&s->m);
}

static inline int hub_server_count(hub_server *s, const char *match)
{
    int n = 0;
    mutex_lock(&s->m);
    for (int i = 0; i < s->n_seen; i++) n += strstr(s->seen[i].url, match) != NULL;
    mutex_unlock(&s->m);
    return n;
}

static inline void hub_server_forget(hub_server *s)
{
    mutex_lock(&s->m);
    s->n_seen = s->n_faults = 0;
    s->n_body = 0;
    mutex_unlock(&s->m);
}

/* What the server says, in memory of its own: a test may make allocations fail. */
typedef struct {
    char *ptr;
    size_t len;
} hub_out;

enum { HUB_ROOM = 6 << 20 };

static inline void out_init(hub_out *o, int i)
{
    static char rooms[2][HUB_ROOM];
    *o = (hub_out){rooms[i], 0};
}

static inline void out_put(hub_out *o, const void *bytes, size_t n)
{
    assert_true(o->len + n < HUB_ROOM);
    memcpy(o->ptr + o->len, bytes, n);
    o->len += n;
}

__attribute__((format(printf, 2, 3))) static inline void out_printf(hub_out *o, const char *fmt,
                                                                    ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(o->ptr + o->len, HUB_ROOM - o->len, fmt, args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < HUB_ROOM - o->len);
    o->len += (size_t)n;
}

static inline bool hub_send(int fd, const char *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t w = send(fd, bytes + at, n - at, MSG_NOSIGNAL);
        if (w <= 0) return false;
        at += (size_t)w;
    }
    return true;
}

static inline void hub_put_listing(hub_server *s, hub_out *out)
{
    out_printf(out, "{\"id\":\"o/r\",\"sha\":\"%s\",\"siblings\":[", s->commit);
    for (int i = 0; i < s->n_files; i++) {
        const hub_file *f = &s->files[i];
        out_printf(out, "%s{\"rfilename\":\"%s\",\"size\":%zu,\"blobId\":\"%s\"", i ? "," : "",
                   f->path, f->bytes.len,
                   f->is_lfs ? "00000000000000000000000000000000000000aa" : f->digest);
        if (f->is_lfs)
            out_printf(out, ",\"lfs\":{\"sha256\":\"%s\",\"size\":%zu,\"pointerSize\":135}",
                       f->digest, f->bytes.len);
        out_printf(out, "}");
    }
    out_printf(out, "]}");
}

static inline void hub_field(const char *head, const char *name, char *out, size_t cap)
{
    const char *at = strcasestr(head, name);
    out[0] = '\0';
    if (!at) return;
    at += strlen(name);
    size_t n = strcspn(at, "\r\n");
    snprintf(out, cap, "%.*s", (int)n, at);
}

static inline void hub_page(hub_out *out, bool is_chunked)
{
    const char *page = "<html><body>Please log in to the network.</body></html>";
    if (!is_chunked)
        out_printf(out,
                   "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %zu\r\n"
                   "Connection: close\r\n\r\n%s",
                   strlen(page), page);
    else
        out_printf(out, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n%s",
                   page);
}

/* The bytes of a file, as asked for and as a fault has it. */
static inline void hub_send_file(hub_server *s, int fd, const hub_file *f, const char *range,
                                 const hub_fault *fault)
{
    long long from = 0, to = (long long)f->bytes.len - 1, total = (long long)f->bytes.len;
    bool is_part = sscanf(range, "bytes=%lld-%lld", &from, &to) >= 1;
    hub_fault_kind kind = fault ? fault->kind : HUB_BODY;
    hub_out out;
    out_init(&out, 0);
    if (fault && kind == HUB_NO_RANGE) is_part = false;
    if (!is_part) {
        from = 0;
        to = total - 1;
    }
    if (to >= total) to = total - 1;
    long long length = to - from + 1;
    if (is_part) {
        bool is_late = fault && kind == HUB_OTHER_RANGE;
        bool is_other = fault && kind == HUB_OTHER_TOTAL;
        out_printf(&out, "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes %lld-%lld/%lld\r\n",
                   from + is_late, to + is_late, total + is_other);
    } else {
        out_printf(&out, "HTTP/1.1 200 OK\r\n");
    }
    if (fault && kind == HUB_LENGTH) length = fault->at;
    out_printf(&out,
               "Content-Type: application/octet-stream\r\nContent-Length: %lld\r\n"
               "ETag: \"%s\"\r\n%sConnection: close\r\n\r\n",
               length, f->is_lfs ? "cdn" : f->digest,
               fault && kind == HUB_EXTRA ? fault->text : "");
    hub_send(fd, out.ptr, out.len);
    long long n = to - from + 1;
    if (fault && kind == HUB_CUT && n > fault->at) n = fault->at;
    mutex_lock(&s->m);
    s->n_body += n;
    mutex_unlock(&s->m);
    const char *bytes = f->bytes.ptr + from;
    if (fault && kind == HUB_FLIP && fault->at >= from && fault->at < from + n) {
        out.len = 0;
        out_put(&out, bytes, (size_t)n);
        out.ptr[fault->at - from] ^= 1;
        bytes = out.ptr;
    }
    hub_send(fd, bytes, (size_t)n);
}

static inline bool hub_answer_fault(int fd, const hub_fault *f)
{
    hub_out out;
    out_init(&out, 0);
    switch (f->kind) {
    case HUB_CODE:
        out_printf(&out, "HTTP/1.1 %d No\r\n%sContent-Length: 4\r\nConnection: close\r\n\r\nsad\n",
                   (int)f->at, f->text ? f->text : "");
        break;
    case HUB_PAGE:
    case HUB_PAGE_CHUNKS: hub_page(&out, f->kind == HUB_PAGE_CHUNKS); break;
    case HUB_GOTO:
        out_printf(&out,
                   "HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n"
                   "Connection: close\r\n\r\n",
                   f->text);
        break;
    case HUB_BODY:
        out_printf(&out, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
                   strlen(f->text), f->text);
        break;
    case HUB_ENDLESS:
    case HUB_HEADERS:
        out_printf(&out, "HTTP/1.1 200 OK\r\n");
        if (f->kind == HUB_ENDLESS) out_printf(&out, "Connection: close\r\n\r\n");
        while (hub_send(fd, out.ptr, out.len)) {
            out.len = 0;
            for (int i = 0; i < 500; i++) out_printf(&out, "X-Filler: abcdefghijklmnop\r\n");
        }
        break;
    case HUB_STALL: {
        struct pollfd p = {.fd = fd, .events = POLLRDHUP};
        poll(&p, 1, (int)f->at);
        break;
    }
    default: return false;
    }
    hub_send(fd, out.ptr, out.len);
    return true;
}

static inline void hub_answer(hub_server *s, int fd, const char *head)
{
    char url[512] = "", range[64];
    hub_fault fault = {0};
    hub_file file = {0};
    hub_out out;
    sscanf(head, "GET %511s", url);
    hub_field(head, "\r\nRange: ", range, sizeof range);
    mutex_lock(&s->m);
    if (s->n_seen < HUB_REQUESTS) {
        hub_seen *seen = &s->seen[s->n_seen++];
        snprintf(seen->url, sizeof seen->url, "%s", url);
        snprintf(seen->range, sizeof seen->range, "%s", range);
        hub_field(head, "\r\nAuthorization: ", seen->token, sizeof seen->token);
    }
    bool is_faulty = false;
    for (int i = 0; i < s->n_faults && !is_faulty; i++) {
        is_faulty = s->faults[i].n > 0 && strstr(url, s->faults[i].match);
        if (!is_faulty) continue;
        fault = s->faults[i];
        s->faults[i].n--;
    }
    const char *path = strstr(url, "/cdn/") ? strstr(url, "/cdn/") + 5 : strstr(url, HUB_COMMIT);
    if (path && !strstr(url, "/cdn/")) path += 41;
    for (int i = 0; path && i < s->n_files; i++)
        if (strcmp(s->files[i].path, path) == 0) file = s->files[i];
    out_init(&out, 0);
    bool is_list = strncmp(url, "/api/models/", 12) == 0;
    if (is_list) {
        hub_put_listing(s, &out);
    }
    mutex_unlock(&s->m);
    if (is_faulty && hub_answer_fault(fd, &fault)) {
        return;
    }
    if (is_list) {
        hub_out reply;
        out_init(&reply, 1);
        out_printf(&reply, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                   out.len);
        out_put(&reply, out.ptr, out.len);
        size_t n = is_faulty && fault.kind == HUB_CUT ? reply.len - (size_t)fault.at : reply.len;
        hub_send(fd, reply.ptr, n);
    } else if (!file.path[0]) {
        hub_answer_fault(
            fd,
            &(hub_fault){.kind = HUB_CODE, .at = 404, .text = "X-Error-Code: EntryNotFound\r\n"});
    } else if (file.is_lfs && !strstr(url, "/cdn/")) {
        out_printf(&out,
                   "HTTP/1.1 302 Found\r\nLocation: http://localhost:%d/cdn/%s\r\n"
                   "X-Linked-Size: %zu\r\nX-Linked-Etag: \"%s\"\r\nX-Repo-Commit: %s\r\n"
                   "%sContent-Length: 0\r\nConnection: close\r\n\r\n",
                   s->port, file.path, file.bytes.len, file.digest, s->commit,
                   is_faulty && fault.kind == HUB_EXTRA ? fault.text : "");
        hub_send(fd, out.ptr, out.len);
    } else {
        hub_send_file(s, fd, &file, range, is_faulty ? &fault : NULL);
    }
}

static inline void hub_serve_one(hub_server *s, int fd)
{
    char head[8192];
    size_t n = 0;
    while (n + 1 < sizeof head) {
        ssize_t r = recv(fd, head + n, sizeof head - 1 - n, 0);
        if (r <= 0) break;
        n += (size_t)r;
        head[n] = '\0';
        if (!strstr(head, "\r\n\r\n")) continue;
        hub_answer(s, fd, head);
        break;
    }
    shutdown(fd, SHUT_WR);
    close(fd);
}

/* One connection after another: a stalled one must have its end before the next is served. */
static inline void *hub_server_loop(void *arg)
{
    hub_server *s = arg;
    for (;;) {
        int fd = accept(s->fd, NULL, NULL);
        mutex_lock(&s->m);
        bool is_stopping = s->is_stopping;
        mutex_unlock(&s->m);
        if (is_stopping) {
            if (fd >= 0) close(fd);
            return NULL;
        }
        if (fd >= 0) hub_serve_one(s, fd);
    }
}

static inline void hub_server_open(hub_server *s)
{
    memset(s, 0, sizeof *s);
    mutex_init(&s->m);
    snprintf(s->commit, sizeof s->commit, HUB_COMMIT);
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t n = sizeof a;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(s->fd >= 0 && bind(s->fd, (struct sockaddr *)&a, sizeof a) == 0);
    assert_true(listen(s->fd, 16) == 0 && getsockname(s->fd, (struct sockaddr *)&a, &n) == 0);
    s->port = ntohs(a.sin_port);
    err e = {0};
    CHECK_OK(thread_start(&s->loop, "hub", hub_server_loop, s, &e), &e);
}

static inline void hub_server_close(hub_server *s)
{
    mutex_lock(&s->m);
    s->is_stopping = true;
    mutex_unlock(&s->m);
    shutdown(s->fd, SHUT_RDWR); /* wakes accept */
    thread_join(&s->loop);
    close(s->fd);
    mutex_fini(&s->m);
}

#endif
