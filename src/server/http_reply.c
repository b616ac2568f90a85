#include "server/http_reply_priv.h"

#include <time.h>

const char *http_status_text(int code)
{
    static const struct {
        int code;
        const char *text;
    } table[] = {
        {100, "Continue"},
        {200, "OK"},
        {204, "No Content"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].code == code) return table[i].text;
    return "Status";
}

/* IMF-fixdate; the names are fixed, whatever the locale. */
static void put_date(buf *out, int64_t now_s)
{
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t t = (time_t)now_s;
    struct tm tm;
    if (!gmtime_r(&t, &tm)) return;
    buf_printf(out, "Date: %s, %02d %s %04d %02d:%02d:%02d GMT\r\n", days[tm.tm_wday], tm.tm_mday,
               months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

void http_put_head(buf *out, const http_reply_head *h)
{
    buf_printf(out, "HTTP/1.1 %d %s\r\nServer: riptide\r\n", h->code, http_status_text(h->code));
    put_date(out, h->now_s);
    if (h->content_type) buf_printf(out, "Content-Type: %s\r\n", h->content_type);
    if (h->body_bytes >= 0) buf_printf(out, "Content-Length: %lld\r\n", (long long)h->body_bytes);
    if (h->body_bytes == HTTP_BODY_CHUNKED) buf_put_c(out, "Transfer-Encoding: chunked\r\n");
    buf_put_c(out, h->closes ? "Connection: close\r\n" : "Connection: keep-alive\r\n");
    if (h->request_id) /* under both names that clients look for */
        buf_printf(out, "X-Request-Id: %s\r\nRequest-Id: %s\r\n", h->request_id, h->request_id);
    if (h->allow_origin.len) {
        buf_put_c(out, "Access-Control-Allow-Origin: ");
        buf_put_str(out, h->allow_origin);
        buf_put_c(out, "\r\nVary: Origin\r\n");
    }
    if (h->extra) buf_put_c(out, h->extra);
    buf_put_c(out, "\r\n");
}

void http_put_chunk(buf *out, str bytes)
{
    if (bytes.len == 0) return;
    char size[2 * sizeof bytes.len + 2]; /* hexadecimal, and the end of the line */
    size_t at = sizeof size;
    size[--at] = '\n';
    size[--at] = '\r';
    for (size_t n = bytes.len; n > 0; n >>= 4) size[--at] = "0123456789abcdef"[n & 15];
    buf_put(out, size + at, sizeof size - at);
    buf_put_str(out, bytes);
    buf_put_c(out, "\r\n");
}

void http_put_last_chunk(buf *out)
{
    buf_put_c(out, "0\r\n\r\n");
}
