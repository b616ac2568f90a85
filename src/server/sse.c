#include "server/sse_priv.h"

#include "base/asserts.h"

void sse_put_event(buf *out, const char *name, str data)
{
    DASSERT(!memchr(data.ptr, '\n', data.len) && !memchr(data.ptr, '\r', data.len));
    if (name) buf_printf(out, "event: %s\n", name);
    buf_put_c(out, "data: ");
    buf_put_str(out, data);
    buf_put_c(out, "\n\n");
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
