#include "server/sse_priv.h"

#include "base/asserts.h"

void sse_put_event(buf *out, const char *name, str data)
{
    DASSERT(!memchr(data.ptr, '\n', data.len) && !memchr(data.ptr, '\r', data.len));
    sse_open_event(out, name);
    buf_put_str(out, data);
    sse_close_event(out);
}

void sse_open_event(buf *out, const char *name)
{
    if (name) {
        buf_put_c(out, "event: ");
        buf_put_c(out, name);
        buf_put_byte(out, '\n');
    }
    buf_put(out, "data: ", 6);
}

void sse_close_event(buf *out)
{
    buf_put(out, "\n\n", 2);
}

void sse_put_comment(buf *out, const char *text)
{
    buf_printf(out, ": %s\n\n", text);
}

void sse_put_failure(buf *out, const api_error *a)
{
    buf text;
    buf_init(&text);
    api_error_put_openai(&text, a);
    if (text.failed)
        out->failed = true;
    else
        sse_put_event(out, NULL, buf_str(&text));
    buf_fini(&text);
    sse_put_event(out, NULL, STR("[DONE]"));
}
