/* grammar_masks: time of a token mask per row with a vocabulary of 248,320 made-up tokens, and of
 * compiling schemas, in processor time. links: grammar
 *
 * For each grammar random replies are drawn from the masks; the time of every mask is taken. The
 * first line of each is with empty caches, the second with those of the first. The floor of a mask
 * is writing its 31 KB: about 2 us. Then a list of tools is compiled whole.
 *
 * Usage: grammar_masks [substring of a name] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "grammar/grammar.h"
#include "token/vocab_priv.h"

enum { V = 248320, REPLIES = 40, TOKENS = 120, EOS = 0, TOOLS = 60, COMPILES = 15 };

static uint64_t seed = 1;

static uint64_t random_below(uint64_t n)
{
    seed += 0x9e3779b97f4a7c15ull;
    uint64_t z = seed;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return (z ^ z >> 31) % n;
}

static void must(status s, const err *e)
{
    if (s == ERR_OK) return;
    fprintf(stderr, "%s: %s\n", e->where, e->msg);
    exit(1);
}

/* ---- a vocabulary ---------------------------------------------------------------------------- */

static void put_word(buf *b)
{
    static const char *const syllables[] = {
        "an",  "er", "in", "to", "re", "st",  "co", "le", "ti", "con", "men", "ar", "ly", "un",
        "pro", "ex", "de", "is", "al", "ing", "s",  "e",  "th", "o",   "a",   "ur", "q",  "z"};
    int n = 1 + (int)random_below(4);
    for (int i = 0; i < n; i++) buf_put_c(b, syllables[random_below(28)]);
}

/* Words with and without a space, code, runs of space, other scripts: shares like in real ones. */
static void put_token(buf *b, int kind)
{
    static const char code[] = "\"\"\"{}[]():,;.'=+-*/<>!&|#@$%^_\\\n\t  ";
    if (kind < 45) {
        if (random_below(2)) buf_put_byte(b, ' ');
        put_word(b);
        if (random_below(6) == 0 && b->len) b->ptr[b->len - 1] &= ~32;
    } else if (kind < 60) {
        int n = 1 + (int)random_below(6);
        if (random_below(3) == 0) put_word(b);
        for (int i = 0; i < n; i++) buf_put_byte(b, code[random_below(sizeof code - 1)]);
        if (random_below(3) == 0) put_word(b);
    } else if (kind < 63) {
        int n = 1 + (int)random_below(100), c = random_below(3) ? ' ' : '\n';
        for (int i = 0; i < n; i++) buf_put_byte(b, (char)c);
    } else if (kind < 80) {
        int n = 1 + (int)random_below(4);
        for (int i = 0; i < n; i++) {
            uint32_t cp = 0x4e00 + (uint32_t)random_below(20000);
            char text[3] = {(char)(0xe0 | cp >> 12), (char)(0x80 | (cp >> 6 & 63)),
                            (char)(0x80 | (cp & 63))};
            buf_put(b, text, n == 4 && i == 3 ? 2 : 3); /* some end within a character */
        }
    } else {
        int n = 1 + (int)random_below(7);
        if (random_below(2)) buf_put_byte(b, ' ');
        for (int i = 0; i < n; i++) {
            uint32_t cp = 0x410 + (uint32_t)random_below(64);
            char text[2] = {(char)(0xc0 | cp >> 6), (char)(0x80 | (cp & 63))};
            buf_put(b, text, 2);
        }
    }
}

static vocab *make_vocab(arena *a)
{
    err e = {0};
    vocab *v = NULL;
    str *texts = mem_new_array(V, sizeof *texts);
    uint8_t *flags = mem_new(V);
    if (!texts || !flags) exit(1);
    texts[EOS] = STR("<|end|>");
    flags[EOS] = VOCAB_ADDED | VOCAB_SPECIAL;
    for (int id = 1; id < V; id++) {
        buf b;
        buf_init(&b);
        if (id <= 256)
            buf_put_byte(&b, (char)(id - 1));
        else
            put_token(&b, (int)random_below(100));
        texts[id] = (str){arena_copy(a, b.ptr, b.len), b.len};
        flags[id] = VOCAB_ADDED;
        buf_fini(&b);
    }
    must(vocab_open(&v, texts, flags, V, "bench", &e), &e);
    mem_free(texts);
    mem_free(flags);
    return v;
}

/* Of this thread alone: what others do on the machine is no part of it. */
static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- masks ----------------------------------------------------------------------------------- */

static int by_time(const void *p, const void *q)
{
    int64_t x = *(const int64_t *)p, y = *(const int64_t *)q;
    return (x > y) - (x < y);
}

static bool allowed(const uint32_t *words, int32_t id)
{
    return words[id / 32] >> (id % 32) & 1;
}

/* Mostly any allowed token; sometimes what closes a string, an array or an object. */
static int32_t draw(const uint32_t *words)
{
    static const char close[] = "\"}],:";
    if (random_below(3) == 0)
        for (int i = 0; close[i]; i++)
            if (allowed(words, 1 + close[i])) return 1 + close[i];
    for (int tries = 0; tries < 100; tries++) {
        int32_t id = (int32_t)random_below(V);
        if (allowed(words, id)) return id;
    }
    for (int32_t at = (int32_t)random_below(V), i = 0; i < V; i++)
        if (allowed(words, (at + i) % V)) return (at + i) % V;
    return EOS;
}

static void run_masks(const char *name, const char *round, const grammar *g, grammar_tokens *t)
{
    static int64_t ns[REPLIES * TOKENS];
    static uint32_t words[V / 32];
    int n = 0;
    int64_t advance_ns = 0;
    seed = 77;
    for (int r = 0; r < REPLIES; r++) {
        err e = {0};
        grammar_state *s = NULL;
        must(grammar_state_open(&s, g, t, 16, &e), &e);
        for (int i = 0; i < TOKENS; i++) {
            int64_t from = cpu_ns();
            if (grammar_state_mask(s, words) == 0) exit(2);
            ns[n++] = cpu_ns() - from;
            int32_t id = draw(words);
            from = cpu_ns();
            if (!grammar_state_advance(s, id)) exit(3);
            advance_ns += cpu_ns() - from;
            if (id == EOS) break;
        }
        grammar_state_close(s);
    }
    qsort(ns, (size_t)n, sizeof *ns, by_time);
    int middle = n / 2, tenth = n * 9 / 10, hundredth = n * 99 / 100;
    printf("%-22s %-5s %5d rows  median %7.1f us  p90 %7.1f  p99 %7.1f  max %8.1f  advance %5.2f\n",
           name, round, n, (double)ns[middle] / 1e3, (double)ns[tenth] / 1e3,
           (double)ns[hundredth] / 1e3, (double)ns[n - 1] / 1e3, (double)advance_ns / n / 1e3);
}

/* ---- schemas --------------------------------------------------------------------------------- */

static grammar *compile(const char *text)
{
    arena a;
    err e = {0};
    grammar *g = NULL;
    const json *schema = NULL;
    arena_init(&a, 0);
    must(json_parse(&a, str_from(text), "bench", 128, 0, &schema, &e), &e);
    must(grammar_open_schema(&g, schema, NULL, NULL, &e), &e);
    arena_fini(&a);
    return g;
}

/* A tool like those of coding agents: long texts, bounded ones, patterns, lists, choices. */
static void put_tool(buf *b, int i)
{
    buf_printf(b,
               "%s{\"type\":\"object\",\"properties\":{\"name\":{\"const\":\"tool_%d\"},"
               "\"arguments\":{\"type\":\"object\",\"properties\":{",
               i ? "," : "", i);
    for (int p = 0; p < 12; p++) {
        buf_printf(b,
                   "%s\"field_%d_%d\":{\"description\":\"What the field is for, at length: %d\",",
                   p ? "," : "", i, p, p);
        switch (p % 8) {
        case 0: buf_put_c(b, "\"type\":\"string\"}"); break;
        case 1: buf_printf(b, "\"type\":\"string\",\"maxLength\":%d}", 2000 + i); break;
        case 2:
            buf_put_c(b, "\"type\":\"integer\",\"minimum\":0,\"maximum\":9007199254740991}");
            break;
        case 3:
            buf_put_c(b, "\"enum\":[\"read\",\"write\",\"append\",\"delete\",\"list\"]}");
            break;
        case 4:
            buf_put_c(b, "\"type\":\"array\",\"maxItems\":100,\"items\":{\"type\":\"object\","
                         "\"properties\":{\"path\":{\"type\":\"string\"},\"line\":{\"type\":"
                         "\"integer\"}},\"required\":[\"path\"],\"additionalProperties\":false}}");
            break;
        case 5:
            buf_printf(b, "\"type\":\"string\",\"pattern\":\"^[a-z0-9_-]{1,%d}$\"}", 16 + i % 8);
            break;
        case 6:
            buf_put_c(
                b,
                "\"anyOf\":[{\"type\":\"string\",\"format\":\"date-time\"},{\"type\":\"null\"}]}");
            break;
        default: buf_put_c(b, "\"type\":\"boolean\",\"default\":false}"); break;
        }
    }
    buf_printf(
        b,
        "},\"required\":[\"field_%d_0\"],\"additionalProperties\":%s}},\"required\":[\"name\","
        "\"arguments\"],\"additionalProperties\":false}",
        i, i % 2 ? "false" : "{}");
}

static void put_tools(buf *b)
{
    buf_put_c(b, "{\"anyOf\":[");
    for (int i = 0; i < TOOLS; i++) put_tool(b, i);
    buf_put_c(b, "]}");
}

static void run_compile(const buf *tools)
{
    int64_t ns[COMPILES];
    for (int i = 0; i < COMPILES; i++) {
        int64_t from = cpu_ns();
        grammar *g = compile(tools->ptr);
        ns[i] = cpu_ns() - from;
        grammar_close(g);
    }
    qsort(ns, COMPILES, sizeof *ns, by_time);
    int middle = COMPILES / 2;
    printf("compile %d tools, %zu bytes of schema: median %.1f ms, least %.1f\n", TOOLS, tools->len,
           (double)ns[middle] / 1e6, (double)ns[0] / 1e6);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name, *schema;
    } cases[] = {
        {"any object", "{\"type\":\"object\"}"},
        {"strings", "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}"},
        {"bounded strings",
         "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":40}}"},
        {"patterns", "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":"
                     "\"^[a-z0-9 _-]+(/[a-z0-9 _-]+)*\\\\.(c|h|py)$\",\"maxLength\":100}}"},
        {"numbers", "{\"type\":\"array\",\"items\":{\"type\":\"number\",\"minimum\":-1e6}}"},
        {"enums",
         "{\"type\":\"array\",\"items\":{\"enum\":[\"north\",\"east\",\"south\",\"west\"]}}"},
        {"tools", NULL},
    };
    arena a;
    err e = {0};
    int32_t eos = EOS;
    buf tools;
    arena_init(&a, 0);
    buf_init(&tools);
    put_tools(&tools);
    vocab *v = make_vocab(&a);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        grammar_tokens *t = NULL;
        if (argc > 1 && !strstr(cases[i].name, argv[1])) continue;
        int64_t from = clock_ns();
        must(grammar_tokens_open(&t, v, V, &eos, 1, &e), &e);
        if (i == 0) printf("vocabulary opened in %.0f ms\n", (double)(clock_ns() - from) / 1e6);
        grammar *g = compile(cases[i].schema ? cases[i].schema : tools.ptr);
        run_masks(cases[i].name, "cold", g, t);
        run_masks(cases[i].name, "warm", g, t);
        grammar_close(g);
        grammar_tokens_close(t);
    }
    run_compile(&tools);
    vocab_close(v);
    buf_fini(&tools);
    arena_fini(&a);
    return 0;
}
