#include "server/http_parse_priv.h"

#include "base/mem.h"
#include "hostile.h"
#include "support/guard.h"
#include "support/test.h"

/* What came of feeding bytes: one line a message, then how it ended. */
typedef struct {
    buf text;
    int status; /* of a refusal, else 0 */
} outcome;

static bool keep_body(void *ctx, str bytes)
{
    buf_put_str(ctx, bytes);
    return true;
}

static void describe(buf *out, const http_head *h, const buf *body)
{
    str path = http_head_path(h);
    buf_printf(out, "%s %.*s 1.%d body=%lld keep=%d fields=%d", http_method_text(h->method),
               STR_ARG(path), h->minor, (long long)h->body_bytes, h->keeps_alive, h->n_fields);
    for (int i = 0; i < h->n_fields; i++) {
        const http_field *f = &h->fields[i];
        buf_printf(out, " [%.*s]=[%.*s]", (int)f->name_len, h->text.ptr + f->name_at,
                   (int)f->value_len, h->text.ptr + f->value_at);
    }
    buf_printf(out, " {%.*s}\n", STR_ARG(buf_str(body)));
}

/* Feed `in` in pieces of `size` bytes, or cut in two at `cut` when size is 0. */
static outcome feed(str in, size_t size, size_t cut)
{
    outcome o = {0};
    buf body;
    http_parser p;
    buf_init(&body);
    buf_init(&o.text);
    http_parser_init(&p);
    p.on_body = keep_body;
    p.ctx = &body;
    for (size_t at = 0; at < in.len && !o.status;) {
        size_t n = size ? size : at < cut ? cut - at : in.len - at;
        str piece = str_slice(in, at, at + n < in.len ? at + n : in.len);
        at += piece.len;
        for (;;) {
            size_t used;
            http_step step = http_parse(&p, piece, &used);
            assert_true(used <= piece.len);
            piece = str_skip(piece, used);
            if (step == HTTP_BAD) {
                o.status = p.status;
                assert_non_null(p.reason);
                break;
            }
            if (step == HTTP_MORE) {
                assert_int_equal(piece.len, 0);
                break;
            }
            if (step == HTTP_HEAD_DONE) continue;
            assert_int_equal(step, HTTP_DONE);
            describe(&o.text, &p.head, &body);
            buf_clear(&body);
            http_parser_reset(&p);
        }
    }
    if (!o.status && http_parser_has_begun(&p)) buf_put_c(&o.text, "unfinished\n");
    http_parser_fini(&p);
    buf_fini(&body);
    return o;
}

/* The same whole, cut at every place, and byte by byte. */
static void expect(str in, const char *want, int want_status)
{
    for (size_t cut = 0; cut <= in.len; cut++) {
        outcome o = feed(in, cut == 0 ? in.len : 0, cut);
        assert_string_equal(buf_str(&o.text).ptr, want);
        assert_int_equal(o.status, want_status);
        buf_fini(&o.text);
    }
    outcome o = feed(in, 1, 0);
    assert_string_equal(buf_str(&o.text).ptr, want);
    assert_int_equal(o.status, want_status);
    buf_fini(&o.text);
}

TEST(a_get_has_no_body)
{
    expect(STR("GET /health?x=1 HTTP/1.1\r\nHost: a\r\nX-Y:  z  \r\n\r\n"),
           "GET /health 1.1 body=0 keep=1 fields=2 [host]=[a] [x-y]=[z] {}\n", 0);
}

TEST(a_post_with_a_length_gives_its_body)
{
    expect(STR("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"),
           "POST /a 1.1 body=5 keep=1 fields=2 [host]=[a] [content-length]=[5] {hello}\n", 0);
}

TEST(chunks_are_joined_and_trailers_ignored)
{
    expect(STR("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n"
               "2\r\nde\r\n0\r\n"
               "X-T: u\r\n\r\n"),
           "POST /a 1.1 body=-1 keep=1 fields=2 [host]=[a] [transfer-encoding]=[chunked] {abcde}\n",
           0);
}

TEST(pipelined_requests_come_one_by_one)
{
    expect(STR("\r\nGET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\n"
               "Content-Length: 2\r\n\r\n{}"
               "GET /3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
           "GET /1 1.1 body=0 keep=1 fields=1 [host]=[a] {}\n"
           "POST /2 1.1 body=2 keep=1 fields=2 [host]=[a] [content-length]=[2] {{}}\n"
           "GET /3 1.1 body=0 keep=0 fields=2 [host]=[a] [connection]=[close] {}\n",
           0);
}

TEST(http_1_0_needs_no_host_and_closes)
{
    expect(STR("GET / HTTP/1.0\r\n\r\n"), "GET / 1.0 body=0 keep=0 fields=0 {}\n", 0);
}

TEST(an_upgrade_is_not_taken_up)
{
    expect(STR("POST /a HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n"
               "Content-Length: 2\r\n\r\n{}"
               "GET /b HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
               "GET /c HTTP/1.1\r\nHost: a\r\n\r\n"),
           "POST /a 1.1 body=2 keep=1 fields=4 [host]=[a] [upgrade]=[h2c] [connection]=[Upgrade] "
           "[content-length]=[2] {{}}\n"
           "GET /b 1.1 body=0 keep=1 fields=3 [host]=[a] [upgrade]=[websocket] "
           "[connection]=[Upgrade] {}\n"
           "GET /c 1.1 body=0 keep=1 fields=1 [host]=[a] {}\n",
           0);
}

TEST(an_empty_value_is_a_value)
{
    expect(STR("GET / HTTP/1.1\r\nHost: a\r\nX-A:\r\nX-B: \r\nX-C: c\r\n\r\n"),
           "GET / 1.1 body=0 keep=1 fields=4 [host]=[a] [x-a]=[] [x-b]=[] [x-c]=[c] {}\n", 0);
}

TEST(an_absolute_target_gives_its_path)
{
    expect(
        STR("GET http://a/b/c?d HTTP/1.1\r\nHost: a\r\n\r\nGET http://a HTTP/1.1\r\nHost: a\r\n\r\n"
            "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
        "GET /b/c 1.1 body=0 keep=1 fields=1 [host]=[a] {}\n"
        "GET / 1.1 body=0 keep=1 fields=1 [host]=[a] {}\n"
        "OPTIONS * 1.1 body=0 keep=1 fields=1 [host]=[a] {}\n",
        0);
}

TEST(every_proper_prefix_is_unfinished)
{
    str whole = STR("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    for (size_t n = 1; n < whole.len; n++) {
        char *copy = guard_copy(whole.ptr, n);
        outcome o = feed((str){copy, n}, n, 0);
        assert_string_equal(buf_str(&o.text).ptr, "unfinished\n");
        assert_int_equal(o.status, 0);
        buf_fini(&o.text);
        guard_free(copy, n);
    }
}

TEST(each_hostile_request_is_refused_however_it_is_cut)
{
    for (int i = 0; i < N_HOSTILE - 1; i++) {
        const hostile_request *r = &hostile_requests[i];
        for (size_t cut = 0; cut <= r->bytes.len; cut++) {
            outcome o = feed(r->bytes, cut == 0 ? 1 : 0, cut);
            if (o.status != r->status)
                fail_msg("%s, cut at %zu: status %d", r->name, cut, o.status);
            assert_string_equal(buf_str(&o.text).ptr, "");
            buf_fini(&o.text);
        }
    }
    static char big[HOSTILE_MEGABYTE];
    size_t n = hostile_megabyte(big);
    size_t sizes[] = {n, 1, 1000, 65536};
    for (int i = 0; i < 4; i++) {
        outcome o = feed((str){big, n}, sizes[i], 0);
        assert_int_equal(o.status, 431);
        buf_fini(&o.text);
    }
}

static int code_of_fields(int n_fields)
{
    buf b;
    buf_init(&b);
    buf_put_c(&b, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 1; i < n_fields; i++) buf_printf(&b, "X-%d: y\r\n", i);
    buf_put_c(&b, "\r\n");
    outcome o = feed(buf_str(&b), b.len, 0);
    buf_fini(&o.text);
    buf_fini(&b);
    return o.status;
}

TEST(a_head_may_have_a_hundred_fields)
{
    assert_int_equal(code_of_fields(HTTP_FIELDS_MAX), 0);
    assert_int_equal(code_of_fields(HTTP_FIELDS_MAX + 1), 431);
}

TEST(a_head_may_have_64_kib)
{
    buf b;
    buf_init(&b);
    for (int extra = 0; extra < 2; extra++) {
        buf_clear(&b);
        buf_put_c(&b, "GET / HTTP/1.1\r\nHost: a\r\nA: ");
        while ((int)b.len + 4 < HTTP_HEAD_BYTES_MAX + extra) buf_put_byte(&b, 'x');
        buf_put_c(&b, "\r\n\r\n");
        outcome o = feed(buf_str(&b), b.len, 0);
        assert_int_equal(o.status, extra ? 431 : 0);
        buf_fini(&o.text);
    }
    buf_fini(&b);
}

TEST(trailers_and_extensions_have_an_end)
{
    static const char *const heads[] = {"0\r\nX-T: ", "3;x="};
    for (int i = 0; i < 2; i++) {
        buf b;
        buf_init(&b);
        buf_put_c(&b, "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        buf_put_c(&b, heads[i]);
        for (int k = 0; k < 9000; k++) buf_put_byte(&b, 'y');
        outcome o = feed(buf_str(&b), 100, 0);
        assert_int_equal(o.status, 431);
        buf_fini(&o.text);
        buf_fini(&b);
    }
}

TEST(other_versions_are_505)
{
    expect(STR("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), "", 505);
    expect(STR("GET / HTTP/0.9\r\n\r\n"), "", 505);
}

/* llhttp takes it, with or without a space behind. */
TEST(a_field_without_a_name_is_refused)
{
    expect(STR("GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n"), "", 400);
    expect(STR("GET / HTTP/1.1\r\n:\r\nHost: a\r\n\r\n"), "", 400);
}

TEST(what_is_no_http_is_refused)
{
    expect(STR("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), "", 400);
    expect(STR("hello there\r\n\r\n"), "", 400);
    expect(STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "", 400);
}

static bool refuse_body(void *ctx, str bytes)
{
    (void)bytes;
    return ++*(int *)ctx < 1;
}

TEST(the_body_can_be_stopped)
{
    int n = 0;
    size_t used;
    http_parser p;
    http_parser_init(&p);
    p.on_body = refuse_body;
    p.ctx = &n;
    str in = STR("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    assert_int_equal(http_parse(&p, in, &used), HTTP_HEAD_DONE);
    assert_int_equal(http_parse(&p, str_skip(in, used), &used), HTTP_STOPPED);
    assert_int_equal(http_parse(&p, STR("x"), &used), HTTP_STOPPED);
    assert_int_equal(n, 1);
    http_parser_fini(&p);
}

TEST(without_memory_a_head_is_503)
{
    int n_failed = 0;
    for (int n = 1; n < 50; n++) {
        size_t used;
        http_parser p;
        http_parser_init(&p);
        mem_fail_at(n);
        http_step step = http_parse(&p, STR("GET /a HTTP/1.1\r\nHost: a\r\nB: c\r\n\r\n"), &used);
        mem_fail_at(0);
        if (step == HTTP_BAD) {
            assert_int_equal(p.status, 503);
            n_failed++;
        }
        http_parser_fini(&p);
        if (step == HTTP_HEAD_DONE) break;
    }
    assert_true(n_failed >= 2);
}
