/* links: grammar */
/* A grammar, a NUL, and numbers that choose a text of it: no state is a dead end. */
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
    err e = {0};
    grammar *g = NULL;
    const uint8_t *end = n ? memchr(data, 0, n) : NULL;
    size_t len = end ? (size_t)(end - data) : n;
    source numbers = {data + len, n - len, 1};
    status s = grammar_open_gbnf(&g, (str){(const char *)data, len}, &e);
    if (s == ERR_OK) {
        buf text;
        buf_init(&text);
        grammar_walk(g, 100, pick, &numbers, &text);
        buf_fini(&text);
        grammar_close(g);
    } else {
        ASSERT(e.code == s && e.msg[0] && e.pos <= (long)len);
    }
    return 0;
}
