/* links: grammar */
/* The tools of a request, a NUL, and numbers that choose calls of them: no state is a dead end. */
#include "support/grammar_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

typedef struct {
    const uint8_t *data;
    size_t n, at;
} source;

static uint64_t pick(void *ctx, uint64_t below)
{
    source *s = ctx;
    uint64_t v = s->at < s->n ? s->data[s->at] : s->at * 7;
    s->at++;
    return v % below;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    arena a;
    err e = {0};
    grammar *g = NULL;
    const uint8_t *end = n ? memchr(data, 0, n) : NULL;
    size_t len = end ? (size_t)(end - data) : n;
    source numbers = {data + len, n - len, 1};
    uint64_t shape = pick(&numbers, 64);
    grammar_json_options opt = {2, shape & 1};
    grammar_tools_wish w = {.least = shape >> 1 & 1,
                            .most = shape & 4 ? -1 : 2,
                            .has_text = shape & 8,
                            .all_strict = shape & 16};
    arena_init(&a, 64 << 20);
    if (json_parse(&a, (str){(const char *)data, len}, "tools", 128, 0, &w.tools, NULL) == ERR_OK) {
        status s = grammar_open_tools(&g, &w, &opt, NULL, &e);
        if (s == ERR_OK) {
            buf text;
            buf_init(&text);
            grammar_walk(g, 200, pick, &numbers, &text);
            buf_fini(&text);
            grammar_close(g);
        } else {
            ASSERT(e.code == s && e.where[0] && e.msg[0]);
        }
    }
    arena_fini(&a);
    return 0;
}
