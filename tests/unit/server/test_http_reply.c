#include "server/http_reply_priv.h"

#include "support/test.h"

static void expect(const http_reply_head *h, const char *want)
{
    buf b;
    buf_init(&b);
    http_put_head(&b, h);
    assert_string_equal(buf_str(&b).ptr, want);
    buf_fini(&b);
}

TEST(a_head_has_its_fields_and_an_empty_line)
{
    expect(
        &(http_reply_head){.code = 200, .content_type = "text/plain", .body_bytes = 12, .now_s = 0},
        "HTTP/1.1 200 OK\r\nServer: riptide\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
        "Content-Type: text/plain\r\nContent-Length: 12\r\nConnection: keep-alive\r\n\r\n");
    /* The example of RFC 9110, 5.6.7. */
    expect(&(http_reply_head){.code = 404,
                              .content_type = "a/b",
                              .body_bytes = HTTP_BODY_CHUNKED,
                              .closes = true,
                              .allow_origin = STR("http://x"),
                              .request_id = "r1",
                              .extra = "A: b\r\n",
                              .now_s = 784111777},
           "HTTP/1.1 404 Not Found\r\nServer: riptide\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
           "Content-Type: a/b\r\nTransfer-Encoding: chunked\r\nConnection: close\r\nX-Request-Id: "
           "r1\r\nRequest-Id: r1\r\n"
           "Access-Control-Allow-Origin: http://x\r\nVary: Origin\r\nA: b\r\n\r\n");
    expect(&(http_reply_head){.code = 204, .body_bytes = HTTP_BODY_NONE},
           "HTTP/1.1 204 No Content\r\nServer: riptide\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
           "Connection: keep-alive\r\n\r\n");
    expect(
        &(http_reply_head){
            .code = 299, .content_type = "x", .body_bytes = HTTP_BODY_UNTIL_CLOSE, .closes = true},
        "HTTP/1.1 299 Status\r\nServer: riptide\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
        "Content-Type: x\r\nConnection: close\r\n\r\n");
}

TEST(chunks_have_their_length_in_hex_and_an_empty_one_only_ends)
{
    buf b;
    char long_text[300];
    memset(long_text, 'x', sizeof long_text);
    buf_init(&b);
    http_put_chunk(&b, STR("hello"));
    http_put_chunk(&b, STR(""));
    http_put_last_chunk(&b);
    assert_string_equal(buf_str(&b).ptr, "5\r\nhello\r\n0\r\n\r\n");
    buf_clear(&b);
    http_put_chunk(&b, (str){long_text, 300});
    assert_true(str_starts(buf_str(&b), STR("12c\r\nxxx")));
    assert_int_equal(b.len, 300 + 7);
    buf_fini(&b);
}
