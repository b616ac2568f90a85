/* links: chat */
/* outparse_driver: parses model output for tests/oracle/outparse.py.
 *
 * Reads one JSON object a line: {"text", "tools", "in_reasoning", "cuts": [offsets]} and answers
 * {"reasoning", "content", "calls": [{"name", "arguments", "complete"}], "events": n}. */
#include <stdio.h>
#include <stdlib.h>

#include "chat/outparse.h"

enum { CALLS_MOST = 64 };

typedef struct {
    buf reasoning, content;
    buf names[CALLS_MOST], arguments[CALLS_MOST];
    bool is_complete[CALLS_MOST];
    int n_calls, n_events;
} result;

static void collect(void *ctx, const outparse_event *event)
{
    result *r = ctx;
    r->n_events++;
    switch (event->kind) {
    case OUTPARSE_REASONING: buf_put_str(&r->reasoning, event->text); break;
    case OUTPARSE_CONTENT: buf_put_str(&r->content, event->text); break;
    case OUTPARSE_CALL_BEGIN:
        if (event->index != r->n_calls++ || r->n_calls > CALLS_MOST) exit(2);
        buf_put_str(&r->names[event->index], event->text);
        break;
    case OUTPARSE_ARGUMENTS: buf_put_str(&r->arguments[event->index], event->text); break;
    case OUTPARSE_CALL_END: r->is_complete[event->index] = event->is_complete; break;
    }
}

static void answer(const result *r)
{
    buf b;
    json_writer w;
    buf_init(&b);
    json_writer_init(&w, &b);
    json_open_object(&w);
    json_key(&w, "reasoning");
    json_string(&w, buf_str(&r->reasoning));
    json_key(&w, "content");
    json_string(&w, buf_str(&r->content));
    json_key(&w, "calls");
    json_open_array(&w);
    for (int i = 0; i < r->n_calls; i++) {
        json_open_object(&w);
        json_key(&w, "name");
        json_string(&w, buf_str(&r->names[i]));
        json_key(&w, "arguments");
        json_string(&w, buf_str(&r->arguments[i]));
        json_key(&w, "complete");
        json_bool(&w, r->is_complete[i]);
        json_close_object(&w);
    }
    json_close_array(&w);
    json_key(&w, "events");
    json_int(&w, r->n_events);
    json_close_object(&w);
    puts(b.ptr);
    buf_fini(&b);
}

static void parse(const json *request)
{
    static result r;
    err e = {0};
    str text = {"", 0};
    outparse *p = NULL;
    buf_clear(&r.reasoning);
    buf_clear(&r.content);
    for (int i = 0; i < CALLS_MOST; i++) {
        buf_clear(&r.names[i]);
        buf_clear(&r.arguments[i]);
    }
    r.n_calls = r.n_events = 0;
    outparse_options o = {.emit = collect, .ctx = &r};
    const json *tools = json_get(request, "tools");
    if (json_is(tools, JSON_ARRAY)) o.tools = tools;
    json_to_bool(json_get(request, "in_reasoning"), &o.starts_in_reasoning);
    json_to_str(json_get(request, "text"), &text);
    if (outparse_open(&p, &o, &e)) exit(1);
    size_t at = 0;
    for (const json *cut = json_get(request, "cuts")->first; cut; cut = cut->next) {
        int64_t to = 0;
        json_to_int64(cut, &to);
        if (outparse_feed(p, str_slice(text, at, (size_t)to), &e)) exit(1);
        at = (size_t)to;
    }
    if (outparse_feed(p, str_skip(text, at), &e) || outparse_finish(p, &e)) exit(1);
    outparse_close(p);
    answer(&r);
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    setvbuf(stdout, NULL, _IOLBF, 1 << 16);
    while ((n = getline(&line, &cap, stdin)) > 0) {
        arena a;
        err e = {0};
        const json *request = NULL;
        arena_init(&a, 0);
        if (json_parse(&a, (str){line, (size_t)n}, "request", 256, 0, &request, &e)) {
            fprintf(stderr, "outparse_driver: %s\n", e.msg);
            return 1;
        }
        parse(request);
        arena_fini(&a);
    }
    free(line);
    return 0;
}
