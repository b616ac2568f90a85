#include "server/completion_output_priv.h"

#include "server/chat_output_priv.h"
#include "server/sse_priv.h"

static void put_choice(json_writer *w, const answer *c, str text, const char *finish_reason)
{
    json_open_object(w);
    json_key(w, "index");
    json_int(w, c->index);
    json_key(w, "text");
    json_string(w, text);
    json_key(w, "logprobs");
    json_null(w);
    json_key(w, "finish_reason");
    if (finish_reason)
        json_c_string(w, finish_reason);
    else
        json_null(w);
    json_close_object(w);
}

static void put_event(buf *out, buf *text)
{
    if (text->failed) out->failed = true;
    sse_put_event(out, NULL, buf_str(text));
    buf_fini(text);
}

/* finish_reason NULL: not the last one of the choice. */
static void put_chunk(buf *out, const generation *g, const answer *c, str text,
                      const char *finish_reason)
{
    buf b;
    json_writer w;
    buf_init(&b);
    json_writer_init(&w, &b);
    chat_write_head(&w, g, "text_completion");
    json_key(&w, "choices");
    json_open_array(&w);
    put_choice(&w, c, text, finish_reason);
    json_close_array(&w);
    if (finish_reason) {
        json_key(&w, "timings");
        chat_write_timings(&w, c);
    }
    json_close_object(&w);
    put_event(out, &b);
}

void completion_put_part(buf *out, const generation *g, const answer *c, str text)
{
    put_chunk(out, g, c, text, NULL);
}

void completion_put_finish(buf *out, const generation *g, const answer *c)
{
    put_chunk(out, g, c, STR(""), answer_finish_reason(c));
}

void completion_put_usage(buf *out, const generation *g)
{
    buf b;
    json_writer w;
    buf_init(&b);
    json_writer_init(&w, &b);
    chat_write_head(&w, g, "text_completion");
    json_key(&w, "choices");
    json_raw(&w, STR("[]"));
    json_key(&w, "usage");
    chat_write_usage(&w, g);
    json_close_object(&w);
    put_event(out, &b);
}

void completion_put_whole(buf *out, const generation *g)
{
    json_writer w;
    json_writer_init(&w, out);
    chat_write_head(&w, g, "text_completion");
    json_key(&w, "choices");
    json_open_array(&w);
    for (int i = 0; i < g->request.n; i++) {
        const answer *c = &g->answers[i];
        put_choice(&w, c, buf_str(&c->content), answer_finish_reason(c));
    }
    json_close_array(&w);
    json_key(&w, "usage");
    chat_write_usage(&w, g);
    json_key(&w, "timings");
    chat_write_timings(&w, &g->answers[0]);
    json_close_object(&w);
}
