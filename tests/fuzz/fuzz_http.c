/* links: server */
/* Requests in pieces: however the bytes are cut, the outcome is the same, and what is let through
 * keeps the rules that llhttp alone does not. */
#include <stddef.h>
#include <stdint.h>

#include "base/asserts.h"
#include "base/buf.h"
#include "server/http_parse_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool keep_body(void *ctx, str bytes)
{
    buf_put_str(ctx, bytes);
    return true;
}

static void check_head(const http_head *h)
{
    int n_hosts = http_head_count(h, "host");
    ASSERT(h->minor == 0 || h->minor == 1);
    ASSERT(n_hosts == 1 || (n_hosts == 0 && h->minor == 0));
    ASSERT(h->n_fields <= HTTP_FIELDS_MAX && h->text.len <= HTTP_HEAD_BYTES_MAX);
    ASSERT(h->body_bytes >= -1);
    for (int i = 0; i < h->n_fields; i++) {
        const http_field *f = &h->fields[i];
        ASSERT((size_t)f->name_at + f->name_len <= h->text.len && f->name_len > 0);
        ASSERT((size_t)f->value_at + f->value_len <= h->text.len);
        str value = {h->text.ptr + f->value_at, f->value_len};
        ASSERT(str_find(value, STR("\n"), 0) < 0 && str_find(value, STR("\r"), 0) < 0);
    }
    str path = http_head_path(h);
    buf decoded;
    buf_init(&decoded);
    http_decode_path(path, &decoded);
    ASSERT(decoded.len <= path.len);
    buf_fini(&decoded);
}

/* Everything that came out, as text; fed in one piece, or in small ones whose sizes follow from
 * `cut`. */
static void feed(str in, bool in_one, uint32_t cut, buf *out)
{
    http_parser p;
    buf body;
    buf_init(&body);
    http_parser_init(&p);
    p.on_body = keep_body;
    p.ctx = &body;
    bool goes_on = true;
    for (size_t at = 0; at < in.len && goes_on;) {
        cut = cut * 1664525u + 1013904223u;
        size_t n = in_one ? in.len : 1 + (cut >> 16) % 40;
        if (n > in.len - at) n = in.len - at;
        str piece = str_slice(in, at, at + n);
        at += n;
        for (http_step step = HTTP_DONE; step != HTTP_MORE && goes_on;) {
            size_t n_used;
            step = http_parse(&p, piece, &n_used);
            ASSERT(n_used <= piece.len);
            piece = str_skip(piece, n_used);
            if (step == HTTP_HEAD_DONE) check_head(&p.head);
            if (step == HTTP_BAD) {
                /* Which of two faults is met first depends on the cut. */
                ASSERT(p.status >= 400 && p.reason);
                buf_put_c(out, "refused\n");
                goes_on = false;
            }
            if (step != HTTP_DONE) continue;
            ASSERT(p.head.body_bytes < 0 || (size_t)p.head.body_bytes == body.len);
            buf_printf(out, "%s %d %d ", http_method_text(p.head.method), p.head.minor,
                       p.head.keeps_alive);
            buf_put_str(out, buf_str(&p.head.text));
            buf_put_str(out, buf_str(&body));
            buf_clear(&body);
            http_parser_reset(&p);
        }
    }
    http_parser_fini(&p);
    buf_fini(&body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4) return 0;
    buf whole, pieces;
    uint32_t cut = (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 |
                   data[3];
    str in = {(const char *)data + 4, size - 4};
    buf_init(&whole);
    buf_init(&pieces);
    feed(in, true, 0, &whole);
    feed(in, false, cut, &pieces);
    ASSERT(str_equal(buf_str(&whole), buf_str(&pieces)));
    buf_fini(&whole);
    buf_fini(&pieces);
    return 0;
}
