/* links: grammar */
/* Reads frames (4 bytes little endian length, then JSON) from standard input until its end and
 * answers each with a frame. A question is {"schema": S, "values": [V ...], "texts": [T ...]} (or
 * "gbnf" or "regex", a text, instead of the schema); the answer {"status", "where", "msg",
 * "accepts": [bool ...], "check": STATUS, "valid": [bool ...]}: whether the automaton takes each
 * text to its end, and whether the judge takes each value. "space" and "lenient" are options; with
 * "generate": [SEED, N] the answer has "made": up to N random texts of the grammar. */
#include <stdio.h>

#include "base/mem.h"
#include "grammar/grammar.h"
#include "grammar/schema_check.h"
#include "support/grammar_walk.h"

static bool read_frame(buf *b)
{
    unsigned char head[4];
    if (fread(head, 1, 4, stdin) != 4) return false;
    size_t n = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
    buf_fini(b);
    b->ptr = mem_new(n);
    b->len = b->cap = n;
    return b->ptr && fread(b->ptr, 1, n, stdin) == n;
}

static void write_frame(const buf *b)
{
    size_t n = b->len;
    unsigned char head[4] = {n & 0xff, n >> 8 & 0xff, n >> 16 & 0xff, n >> 24 & 0xff};
    fwrite(head, 1, 4, stdout);
    fwrite(b->ptr, 1, n, stdout);
    fflush(stdout);
}

static bool takes(const grammar *g, str text)
{
    grammar_state *s = NULL;
    if (grammar_state_open(&s, g, NULL, 1, NULL) != ERR_OK) return false;
    bool ok = grammar_state_advance_bytes(s, text) && grammar_state_can_end(s);
    grammar_state_close(s);
    return ok;
}

static status open_grammar(grammar **g, const json *question, err *e)
{
    grammar_json_options opt = {GRAMMAR_SPACE_DEFAULT, false};
    int64_t space;
    const json *schema = json_get(question, "schema");
    str text;
    if (json_to_int64(json_get(question, "space"), &space)) opt.space_most = (int)space;
    json_to_bool(json_get(question, "lenient"), &opt.is_lenient);
    if (json_to_str(json_get(question, "gbnf"), &text)) return grammar_open_gbnf(g, text, e);
    if (json_to_str(json_get(question, "regex"), &text)) return grammar_open_regex(g, text, e);
    return grammar_open_schema(g, schema, &opt, NULL, e);
}

static uint64_t pick(void *ctx, uint64_t below)
{
    uint64_t *seed = ctx;
    *seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
    return (*seed >> 33) % below;
}

static void make_texts(json_writer *w, const grammar *g, const json *generate)
{
    int64_t seed = 0, n = 0;
    json_to_int64(json_at(generate, 0), &seed);
    json_to_int64(json_at(generate, 1), &n);
    uint64_t state = (uint64_t)seed;
    json_key(w, "made");
    json_open_array(w);
    for (int64_t i = 0; i < n; i++) {
        buf text;
        buf_init(&text);
        if (grammar_walk(g, 150, pick, &state, &text)) json_string(w, buf_str(&text));
        buf_fini(&text);
    }
    json_close_array(w);
}

static void answer(const json *question, buf *out)
{
    json_writer w;
    err e = {0};
    grammar *g = NULL;
    status s = open_grammar(&g, question, &e), checked = ERR_OK;
    const json *schema = json_get(question, "schema"), *texts = json_get(question, "texts");
    const json *values = json_get(question, "values");
    json_writer_init(&w, out);
    json_open_object(&w);
    json_key(&w, "status");
    json_c_string(&w, status_name(s));
    json_key(&w, "where");
    json_c_string(&w, e.where);
    json_key(&w, "msg");
    json_c_string(&w, e.msg);
    json_key(&w, "accepts");
    json_open_array(&w);
    for (const json *t = g && texts ? texts->first : NULL; t; t = t->next)
        json_bool(&w, takes(g, t->text));
    json_close_array(&w);
    json_key(&w, "valid");
    json_open_array(&w);
    for (const json *v = schema && values ? values->first : NULL; v; v = v->next) {
        bool valid = false;
        status one = schema_check(schema, schema, v, &valid, &e);
        if (one != ERR_OK) checked = one;
        json_bool(&w, valid);
    }
    json_close_array(&w);
    if (g && json_get(question, "generate")) make_texts(&w, g, json_get(question, "generate"));
    json_key(&w, "check");
    json_c_string(&w, status_name(checked));
    json_close_object(&w);
    grammar_close(g);
}

int main(void)
{
    buf in, out;
    buf_init(&in);
    buf_init(&out);
    while (read_frame(&in)) {
        arena a;
        err e;
        const json *question;
        arena_init(&a, 0);
        buf_clear(&out);
        if (json_parse(&a, buf_str(&in), "question", 200, 0, &question, &e) == ERR_OK)
            answer(question, &out);
        else
            buf_put_c(&out, "{\"status\":\"FORMAT\",\"where\":\"question\"}");
        arena_fini(&a);
        write_frame(&out);
    }
    buf_fini(&in);
    buf_fini(&out);
    return 0;
}
