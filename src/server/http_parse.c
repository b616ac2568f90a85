#include "server/http_parse_priv.h"

#include <llhttp.h>

#include "base/asserts.h"
#include "base/mem.h"

enum { EXTRA_BYTES_MAX = 8 << 10 };

/* Refuse, keeping the first reason. */
static int refuse(http_parser *p, int code, const char *reason)
{
    if (p->status == 0) {
        p->status = code;
        p->reason = reason;
    }
    return HPE_USER;
}

/* --- llhttp's callbacks: 0 goes on, HPE_USER fails -----------------------------------------------
 */

static http_method method_of(uint8_t method)
{
    switch (method) {
    case HTTP_GET: return METHOD_GET;
    case HTTP_HEAD: return METHOD_HEAD;
    case HTTP_POST: return METHOD_POST;
    case HTTP_DELETE: return METHOD_DELETE;
    case HTTP_OPTIONS: return METHOD_OPTIONS;
    default: return METHOD_OTHER;
    }
}

static int put_text(http_parser *p, const char *at, size_t n)
{
    buf_put(&p->head.text, at, n);
    return p->head.text.failed ? refuse(p, 503, "out of memory") : 0;
}

static int take_url(llhttp_t *ll, const char *at, size_t n)
{
    http_parser *p = ll->data;
    p->head.target_len += (uint32_t)n;
    return put_text(p, at, n);
}

static int count_extra(http_parser *p, size_t n)
{
    p->extra_bytes += (int)n;
    if (p->extra_bytes <= EXTRA_BYTES_MAX) return 0;
    return refuse(p, 431, "trailers or chunk extensions are too long");
}

/* A field's first piece opens a new entry; http_field.value_at is 0 until its value begins. */
static int take_name(llhttp_t *ll, const char *at, size_t n)
{
    http_parser *p = ll->data;
    http_head *h = &p->head;
    if (p->has_head) return count_extra(p, n);
    if (!h->fields) {
        h->fields = mem_new_array(HTTP_FIELDS_MAX, sizeof *h->fields);
        if (!h->fields) return refuse(p, 503, "out of memory");
    }
    bool opens = h->n_fields == 0 || h->fields[h->n_fields - 1].value_at;
    if (opens) {
        if (h->n_fields == HTTP_FIELDS_MAX) return refuse(p, 431, "too many header fields");
        h->fields[h->n_fields++] = (http_field){.name_at = (uint32_t)h->text.len};
    }
    h->fields[h->n_fields - 1].name_len += (uint32_t)n;
    int code = put_text(p, at, n);
    for (size_t i = code ? h->text.len : h->text.len - n; i < h->text.len; i++)
        if (h->text.ptr[i] >= 'A' && h->text.ptr[i] <= 'Z') h->text.ptr[i] += 'a' - 'A';
    return code;
}

static int end_name(llhttp_t *ll)
{
    http_parser *p = ll->data;
    http_head *h = &p->head;
    if (!p->has_head && h->n_fields > 0)
        h->fields[h->n_fields - 1].value_at = (uint32_t)h->text.len;
    return 0;
}

static int take_value(llhttp_t *ll, const char *at, size_t n)
{
    http_parser *p = ll->data;
    if (p->has_head) return count_extra(p, n);
    p->head.fields[p->head.n_fields - 1].value_len += (uint32_t)n;
    return put_text(p, at, n);
}

static int end_value(llhttp_t *ll)
{
    http_parser *p = ll->data;
    http_head *h = &p->head;
    if (p->has_head) return 0;
    http_field *f = &h->fields[h->n_fields - 1];
    str value = str_trim((str){h->text.ptr + f->value_at, f->value_len});
    if (value.len) f->value_at = (uint32_t)(value.ptr - h->text.ptr);
    f->value_len = (uint32_t)value.len;
    return 0;
}

static int end_head(llhttp_t *ll)
{
    http_parser *p = ll->data;
    http_head *h = &p->head;
    p->has_head = true;
    ll->upgrade = 0; /* nothing is upgraded to; the request is answered as it stands */
    h->method = method_of(ll->method);
    h->minor = ll->http_minor;
    h->keeps_alive = llhttp_should_keep_alive(ll) != 0;
    h->body_bytes = ll->flags & F_CHUNKED ? -1 : (int64_t)ll->content_length;
    return 0;
}

static int take_extension(llhttp_t *ll, const char *at, size_t n)
{
    (void)at;
    return count_extra(ll->data, n);
}

static int take_body(llhttp_t *ll, const char *at, size_t n)
{
    http_parser *p = ll->data;
    if (p->scan != HEAD_ENDED) return refuse(p, 400, "malformed head");
    if (p->on_body(p->ctx, (str){at, n})) return 0;
    p->is_stopped = true;
    return HPE_USER;
}

static int end_message(llhttp_t *ll)
{
    http_parser *p = ll->data;
    p->is_done = true;
    return HPE_PAUSED;
}

/* --- the parser ----------------------------------------------------------------------------------
 */

static const llhttp_settings_t *settings(void)
{
    static const llhttp_settings_t callbacks = {
        .on_url = take_url,
        .on_header_field = take_name,
        .on_header_field_complete = end_name,
        .on_header_value = take_value,
        .on_header_value_complete = end_value,
        .on_headers_complete = end_head,
        .on_chunk_extension_name = take_extension,
        .on_chunk_extension_value = take_extension,
        .on_body = take_body,
        .on_message_complete = end_message,
    };
    return &callbacks;
}

void http_parser_init(http_parser *p)
{
    *p = (http_parser){0};
}

void http_parser_fini(http_parser *p)
{
    http_head_fini(&p->head);
    mem_free(p->ll);
    p->ll = NULL;
}

void http_parser_reset(http_parser *p)
{
    http_parser_fini(p);
    *p = (http_parser){.on_body = p->on_body, .ctx = p->ctx};
}

/* llhttp's state is made for a message and freed behind it: an idle connection has none. */
static void begin(http_parser *p)
{
    if (p->ll) return;
    p->ll = mem_new(sizeof *p->ll);
    if (!p->ll) {
        refuse(p, 503, "out of memory");
        return;
    }
    llhttp_init(p->ll, HTTP_REQUEST, settings());
    p->ll->data = p;
}

/* How many bytes of `in` belong to the head, judged by its raw lines alone. llhttp lets a line that
 * begins with white space continue the field before it, and one that begins with a colon be a field
 * without a name; we refuse both. */
static size_t scan_head(http_parser *p, str in)
{
    size_t i = 0;
    while (i < in.len && p->scan != HEAD_ENDED) {
        char c = in.ptr[i++];
        if (++p->head_bytes > HTTP_HEAD_BYTES_MAX) {
            refuse(p, 431, "the head is too long");
            break;
        }
        switch (p->scan) {
        case HEAD_START: p->scan = c == '\r' || c == '\n' ? HEAD_START : HEAD_IN_LINE; break;
        case HEAD_IN_LINE: p->scan = c == '\n' ? HEAD_LINE_START : HEAD_IN_LINE; break;
        case HEAD_LINE_START:
            if (c == ':') refuse(p, 400, "a header field has no name");
            if (c == ' ' || c == '\t') refuse(p, 400, "a header field is folded");
            p->scan = c == '\r' ? HEAD_LINE_CR : c == '\n' ? HEAD_ENDED : HEAD_IN_LINE;
            break;
        case HEAD_LINE_CR:
            if (c != '\n') refuse(p, 400, "a carriage return stands alone");
            p->scan = HEAD_ENDED;
            break;
        case HEAD_ENDED: break;
        }
    }
    return i;
}

static void check_head(http_parser *p)
{
    const http_head *h = &p->head;
    int n_hosts = http_head_count(h, "host");
    if (p->ll->http_major != 1 || h->minor > 1)
        refuse(p, 505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    else if (n_hosts > 1 || (h->minor == 1 && n_hosts == 0))
        refuse(p, 400, "want exactly one Host field");
    else if (h->minor == 0 && http_head_count(h, "transfer-encoding") > 0)
        refuse(p, 400, "HTTP/1.0 has no Transfer-Encoding");
    else if (h->body_bytes < -1)
        refuse(p, 400, "Content-Length is too large");
}

/* Why llhttp gave up, in our words where a client can do something about it. */
static void explain(http_parser *p, llhttp_errno_t code)
{
    switch (code) {
    case HPE_INVALID_METHOD: refuse(p, 400, "unknown method"); break;
    case HPE_INVALID_VERSION: refuse(p, 505, "unknown HTTP version"); break;
    case HPE_INVALID_CONTENT_LENGTH: refuse(p, 400, "invalid Content-Length"); break;
    case HPE_UNEXPECTED_CONTENT_LENGTH:
        refuse(p, 400, "Content-Length given twice or with chunks");
        break;
    case HPE_INVALID_TRANSFER_ENCODING: refuse(p, 400, "invalid Transfer-Encoding"); break;
    case HPE_INVALID_CHUNK_SIZE: refuse(p, 400, "invalid chunk size"); break;
    case HPE_INVALID_HEADER_TOKEN: refuse(p, 400, "invalid character in a header field"); break;
    default: refuse(p, 400, "malformed request"); break;
    }
}

/* Run llhttp over the bytes; returns how many it used. */
static size_t execute(http_parser *p, str in)
{
    llhttp_errno_t code = llhttp_execute(p->ll, in.ptr, in.len);
    if (code == HPE_OK) return in.len;
    if (code != HPE_PAUSED || !p->is_done) {
        if (!p->is_stopped) explain(p, code);
        return in.len;
    }
    const char *at = llhttp_get_error_pos(p->ll);
    ASSERT(at >= in.ptr && at <= in.ptr + in.len);
    return (size_t)(at - in.ptr);
}

http_step http_parse(http_parser *p, str in, size_t *n_used)
{
    *n_used = 0;
    if (p->status) return HTTP_BAD;
    if (p->is_stopped) return HTTP_STOPPED;
    if (p->told_head && p->is_done) return HTTP_DONE;
    if (in.len == 0) return HTTP_MORE;
    begin(p);
    if (p->status) return HTTP_BAD;

    if (!p->told_head) {
        size_t n = scan_head(p, in);
        size_t n_taken = p->status ? n : execute(p, str_slice(in, 0, n));
        *n_used = n;
        bool is_whole = p->scan == HEAD_ENDED;
        if (!p->status && (is_whole != p->has_head || n_taken != n))
            refuse(p, 400, "malformed head");
        if (!p->status && is_whole) check_head(p);
        if (p->status) return HTTP_BAD;
        if (!is_whole) return HTTP_MORE;
        p->told_head = true;
        return HTTP_HEAD_DONE;
    }
    *n_used = execute(p, in);
    if (p->status) return HTTP_BAD;
    if (p->is_stopped) return HTTP_STOPPED;
    return p->is_done ? HTTP_DONE : HTTP_MORE;
}
