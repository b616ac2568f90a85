#include "server/sse_priv.h"

#include "support/test.h"

TEST(events_and_comments_end_in_an_empty_line)
{
    buf b;
    buf_init(&b);
    sse_put_event(&b, NULL, STR("{\"a\":1}"));
    sse_put_event(&b, "ping", STR("{}"));
    sse_open_event(&b, "delta");
    buf_put_c(&b, "[]");
    sse_close_event(&b);
    sse_put_comment(&b, "keep-alive");
    sse_put_event(&b, NULL, STR("[DONE]"));
    assert_string_equal(buf_str(&b).ptr,
                        "data: {\"a\":1}\n\nevent: ping\ndata: {}\n\nevent: delta\ndata: []\n\n"
                        ": keep-alive\n\ndata: [DONE]\n\n");
    buf_fini(&b);
}
