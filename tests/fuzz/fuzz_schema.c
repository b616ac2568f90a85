/* links: grammar */
/* A schema, a NUL, and numbers that choose a text of it. No state is a dead end, and what the
 * automaton finishes satisfies the schema, as the judge of whole values says. */
#include "grammar/schema_check.h"
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

static void check_text(const json *schema, str text)
{
    arena a;
    const json *value = NULL;
    bool valid = true;
    arena_init(&a, 64 << 20);
    /* A name written twice is one member for the judge and two for a count. */
    if (json_parse(&a, text, "text", 300, JSON_UNIQUE_KEYS, &value, NULL) == ERR_OK &&
        schema_check(schema, schema, value, &valid, NULL) == ERR_OK)
        ASSERT(valid);
    arena_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    arena a;
    err e = {0};
    const json *schema = NULL;
    grammar *g = NULL;
    grammar_json_options opt = {2, false};
    const uint8_t *end = n ? memchr(data, 0, n) : NULL;
    size_t len = end ? (size_t)(end - data) : n;
    source numbers = {data + len, n - len, 1};
    arena_init(&a, 64 << 20);
    if (json_parse(&a, (str){(const char *)data, len}, "schema", 128, 0, &schema, NULL) == ERR_OK) {
        status s = grammar_open_schema(&g, schema, &opt, NULL, &e);
        if (s == ERR_OK) {
            buf text;
            buf_init(&text);
            if (grammar_walk(g, 200, pick, &numbers, &text)) check_text(schema, buf_str(&text));
            buf_fini(&text);
            grammar_close(g);
        } else {
            ASSERT(e.code == s && e.where[0] == '#' && e.msg[0]);
        }
    }
    arena_fini(&a);
    return 0;
}
