/* links: chat */
/* The first byte says how to cut and whether reasoning is open; the rest is model output. However
 * it is cut the joined events are the same, and the arguments of every call are a JSON object. */
#include "base/asserts.h"
#include "chat/outparse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char tools_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"s\":{\"type\":\"string\"},\"i\":{\"type\":\"integer\"},"
    "\"o\":{\"$ref\":\"#/$defs/o\"},\"l\":{\"type\":\"array\",\"items\":{\"type\":\"number\"}},"
    "\"n\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"},{\"type\":\"boolean\"}]},"
    "\"u\":{}},\"$defs\":{\"o\":{\"properties\":{\"x\":{\"type\":\"boolean\"}}}}}}},"
    "{\"name\":\"g\",\"input_schema\":{\"$ref\":\"#\"}}]";

/* Everything that came, with marks between kinds. */
typedef struct {
    buf all, arguments;
    int kind;
} record;

static void collect(void *ctx, const outparse_event *event)
{
    record *r = ctx;
    bool is_piece = event->kind == OUTPARSE_ARGUMENTS; /* pieces may differ in number */
    if (!is_piece && ((int)event->kind != r->kind || event->kind >= OUTPARSE_CALL_BEGIN)) {
        buf_printf(&r->all, "[%d %d %d]", (int)event->kind, event->index, event->is_complete);
        r->kind = (int)event->kind;
    }
    buf_put_str(is_piece ? &r->arguments : &r->all, event->text);
    if (event->kind != OUTPARSE_CALL_END) return;
    arena a;
    const json *v = NULL;
    arena_init(&a, 0);
    ASSERT(json_parse(&a, buf_str(&r->arguments), "arguments", 128, 0, &v, NULL) == ERR_OK);
    ASSERT(v->kind == JSON_OBJECT);
    arena_fini(&a);
    buf_put_str(&r->all, buf_str(&r->arguments));
    buf_clear(&r->arguments);
}

static void parse(record *r, const json *tools, bool in_reasoning, str text, size_t step)
{
    outparse_options o = {tools, in_reasoning, collect, r, false};
    outparse *p = NULL;
    *r = (record){.kind = -1};
    buf_init(&r->all);
    buf_init(&r->arguments);
    ASSERT(outparse_open(&p, &o, NULL) == ERR_OK);
    for (size_t at = 0; at < text.len; at += step) {
        size_t to = at + step < text.len ? at + step : text.len;
        ASSERT(outparse_feed(p, str_slice(text, at, to), NULL) == ERR_OK);
    }
    ASSERT(outparse_finish(p, NULL) == ERR_OK);
    outparse_close(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) return 0;
    arena a;
    const json *tools = NULL;
    record whole, cut;
    str text = {(const char *)data + 1, n - 1};
    bool in_reasoning = data[0] & 1;
    arena_init(&a, 0);
    ASSERT(json_parse(&a, STR(tools_text), "tools", 64, 0, &tools, NULL) == ERR_OK);
    if (data[0] & 2) tools = NULL;
    parse(&whole, tools, in_reasoning, text, text.len + 1);
    parse(&cut, tools, in_reasoning, text, 1u + (data[0] >> 2) % 7);
    ASSERT(str_equal(buf_str(&whole.all), buf_str(&cut.all)));
    buf_fini(&whole.all);
    buf_fini(&whole.arguments);
    buf_fini(&cut.all);
    buf_fini(&cut.arguments);
    arena_fini(&a);
    return 0;
}
