/* grammar_answers: answers under many schemas by a bundled model at temperature 1, with the draft
 * and without: every finished one must satisfy its schema and both must be the same; then the time
 * of a cycle with masks against one without, at equal rows.
 *
 * Schemas are drawn: objects, arrays, strings with lengths, patterns and formats, numbers with
 * bounds, enums, unions, references. Prints a line for each ten schemas and totals; ends with 1
 * when an answer was wrong.
 *
 * Usage: grammar_answers [SCHEMAS [ANSWERS [TOKENS [MODEL]]]], default 100 20 160 models/mini-dense
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "grammar/schema_check.h"

enum { ANSWERS_MOST = 64, IDS_MOST = 1024, LANES = 8, DEPTH = 3, TIMED = 60, TIMED_TOKENS = 48 };

static const char prompt_text[] =
    "<|im_start|>user\nExtract name, city and age as JSON: Mara, 31, lives in Oslo.<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n";

static uint64_t state = 7;

static int below(int n)
{
    state += 0x9e3779b97f4a7c15ull;
    uint64_t z = state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return (int)((z ^ z >> 31) % (uint64_t)n);
}

static void must(status s, const err *e)
{
    if (s == ERR_OK) return;
    fprintf(stderr, "grammar_answers: %s: %s\n", e->where, e->msg);
    exit(1);
}

/* ---- schemas ---- */

static void put_schema(buf *b, int depth);

static void put_string(buf *b)
{
    static const char *const patterns[] = {"^[a-z]{2,8}$", "^\\\\d{3}-[A-F]+$", "o{2}",
                                           "^(yes|no|may ?be)$", "^[^x]{1,6}$"};
    static const char *const formats[] = {"date", "uuid", "ipv4", "date-time", "email"};
    int kind = below(4);
    buf_put_c(b, "{\"type\":\"string\"");
    if (kind == 0) buf_printf(b, ",\"minLength\":%d,\"maxLength\":%d", below(3), 3 + below(12));
    if (kind == 1) buf_printf(b, ",\"pattern\":\"%s\",\"maxLength\":20", patterns[below(5)]);
    if (kind == 2) buf_printf(b, ",\"format\":\"%s\",\"maxLength\":48", formats[below(5)]);
    if (kind == 3) buf_printf(b, ",\"maxLength\":%d", 4 + below(12));
    buf_put_c(b, "}");
}

static void put_number(buf *b)
{
    int low = below(2000) - 1000;
    switch (below(5)) {
    case 0: buf_printf(b, "{\"type\":\"integer\",\"minimum\":%d}", low); break;
    case 1:
        buf_printf(b, "{\"type\":\"integer\",\"minimum\":%d,\"exclusiveMaximum\":%d}", low,
                   low + 1 + below(5000));
        break;
    case 2: buf_put_c(b, "{\"type\":\"integer\",\"maximum\":9007199254740991}"); break;
    case 3:
        buf_printf(b, "{\"type\":\"number\",\"minimum\":%d,\"maximum\":%d.5}", low, low + 9);
        break;
    default: buf_printf(b, "{\"type\":\"integer\",\"multipleOf\":%d}", 2 + below(11)); break;
    }
}

static void put_object(buf *b, int depth)
{
    int n = 1 + below(4), n_required = below(n + 1);
    buf_put_c(b, "{\"type\":\"object\",\"properties\":{");
    for (int i = 0; i < n; i++) {
        buf_printf(b, "%s\"key%d\":", i ? "," : "", i);
        put_schema(b, depth - 1);
    }
    buf_put_c(b, "},\"required\":[");
    for (int i = 0; i < n_required; i++) buf_printf(b, "%s\"key%d\"", i ? "," : "", i);
    buf_printf(b, "],\"additionalProperties\":%s}", below(5) ? "false" : "{\"type\":\"null\"}");
}

static void put_schema(buf *b, int depth)
{
    switch (depth > 0 ? below(9) : 3 + below(4)) {
    case 0:
    case 1: put_object(b, depth); break;
    case 2:
        buf_printf(b, "{\"type\":\"array\",\"minItems\":%d,\"maxItems\":%d,\"items\":", below(2),
                   2 + below(3));
        put_schema(b, depth - 1);
        buf_put_c(b, "}");
        break;
    case 3: put_string(b); break;
    case 4: put_number(b); break;
    case 5: buf_put_c(b, "{\"enum\":[\"red\",\"reddish\",17,null,{\"a\":[true]}]}"); break;
    case 6: buf_put_c(b, below(2) ? "{\"type\":\"boolean\"}" : "{\"const\":\"v1.0\"}"); break;
    case 7:
        buf_put_c(b, "{\"anyOf\":[");
        put_schema(b, depth - 1);
        buf_put_c(b, ",{\"type\":\"null\"}]}");
        break;
    default: /* a tree */ buf_put_c(b, "{\"$ref\":\"#/$defs/tree\"}");
    }
}

static void put_root(buf *b)
{
    buf_put_c(b, "{\"$defs\":{\"tree\":{\"type\":\"object\",\"properties\":{\"n\":{\"type\":"
                 "\"integer\",\"minimum\":0,\"maximum\":99},\"kids\":{\"type\":\"array\","
                 "\"maxItems\":1,\"items\":{\"$ref\":\"#/$defs/tree\"}}},\"required\":[\"n\"],"
                 "\"additionalProperties\":false}},\"allOf\":[");
    if (below(3))
        put_object(b, DEPTH);
    else
        put_schema(b, DEPTH);
    buf_put_c(b, "]}");
}

/* ---- answers ---- */

typedef struct {
    int32_t ids[IDS_MOST];
    int n;
    buf text;
    engine_finish reason;
    engine_usage usage;
} answer;

typedef struct {
    answer of[ANSWERS_MOST];
} answers;

static void on_event(void *ctx, const engine_event *ev)
{
    answer *a = &((answers *)ctx)->of[ev->choice];
    for (int i = 0; i < ev->n_ids && a->n < IDS_MOST; i++) a->ids[a->n++] = ev->ids[i];
    buf_put_str(&a->text, ev->text);
    a->reason = ev->reason;
    a->usage = ev->usage;
    if (ev->error) must(ev->error->code, ev->error);
}

static engine *open_engine(const char *model, bool has_draft, int n_lanes, int draft_rows)
{
    err e = {0};
    engine *en = NULL;
    char draft[512];
    snprintf(draft, sizeof draft, "%s-dflash2", model);
    must(engine_open(&en,
                     &(engine_options){.model = model,
                                       .draft = has_draft ? draft : NULL,
                                       .n_lanes = n_lanes,
                                       .max_context = 1024,
                                       .draft_rows = draft_rows},
                     &e),
         &e);
    return en;
}

static token_ids encode(const engine *en)
{
    err e = {0};
    token_ids ids = {0};
    must(tokenizer_encode(engine_tokenizer(en), str_from(prompt_text), true, 0, &ids, &e), &e);
    return ids;
}

static void generate(engine *en, const token_ids *ids, grammar *g, int n, int64_t tokens,
                     uint64_t seed, answers *out)
{
    err e = {0};
    uint64_t id;
    engine_request r = {.ids = ids->ptr,
                        .n_ids = ids->n,
                        .max_tokens = tokens,
                        .policy = policy_neutral(),
                        .n = n,
                        .grammar = g,
                        .on_event = on_event,
                        .ctx = out};
    r.policy.seed = seed;
    for (int i = 0; i < n; i++) {
        buf_clear(&out->of[i].text);
        out->of[i].n = 0;
    }
    must(engine_submit(en, &r, &id, &e), &e);
    while (engine_step(en)) continue;
}

typedef struct {
    int n_schemas, n_answers, n_finished, n_invalid, n_different, n_skipped;
    int64_t n_tokens, cycles, drafted, accepted; /* with the draft */
} totals;

static bool satisfies(const json *schema, str text)
{
    arena a;
    err e = {0};
    const json *v = NULL;
    bool valid = false;
    arena_init(&a, 0);
    status s = json_parse(&a, text, "answer", 256, 0, &v, &e);
    if (s == ERR_OK) s = schema_check(schema, schema, v, &valid, &e);
    if (s != ERR_OK && s != ERR_FORMAT) must(s, &e);
    arena_fini(&a);
    return s == ERR_OK && valid;
}

static void judge(totals *t, const json *schema, str source, int n, const answers *x,
                  const answers *y)
{
    for (int i = 0; i < n; i++) {
        const answer *a = &x->of[i], *b = &y->of[i];
        t->n_answers++;
        t->n_tokens += b->n;
        t->cycles += b->usage.cycles;
        t->drafted += b->usage.drafted;
        t->accepted += b->usage.accepted;
        bool same = a->n == b->n && memcmp(a->ids, b->ids, (size_t)a->n * 4) == 0 &&
                    a->reason == b->reason;
        t->n_different += !same;
        if (a->reason != ENGINE_STOP) continue;
        t->n_finished++;
        if (satisfies(schema, buf_str(&a->text))) continue;
        t->n_invalid++;
        fprintf(stderr, "invalid: %.*s\n  of %.*s\n", STR_ARG(buf_str(&a->text)), STR_ARG(source));
    }
}

static void run_schemas(int n_schemas, int n, int64_t tokens, const char *model)
{
    static answers plain, drafted;
    totals t = {0};
    engine *a = open_engine(model, false, LANES, 0), *b = open_engine(model, true, LANES, -1);
    token_ids ids = encode(a);
    while (t.n_schemas < n_schemas) {
        buf source;
        arena mem;
        err e = {0};
        const json *schema = NULL;
        grammar *g = NULL;
        buf_init(&source);
        arena_init(&mem, 0);
        put_root(&source);
        must(json_parse(&mem, buf_str(&source), "schema", 64, 0, &schema, &e), &e);
        status s = grammar_open_schema(&g, schema, &(grammar_json_options){2, false}, NULL, &e);
        if (s == ERR_OK) {
            generate(a, &ids, g, n, tokens, (uint64_t)t.n_schemas, &plain);
            generate(b, &ids, g, n, tokens, (uint64_t)t.n_schemas, &drafted);
            judge(&t, schema, buf_str(&source), n, &plain, &drafted);
            t.n_schemas++;
        } else {
            t.n_skipped++; /* nothing satisfies it */
        }
        if (s == ERR_OK && t.n_schemas % 10 == 0) {
            printf("%d schemas: %d answers, %d finished, %d invalid, %d differ\n", t.n_schemas,
                   t.n_answers, t.n_finished, t.n_invalid, t.n_different);
            fflush(stdout);
        }
        grammar_close(g);
        arena_fini(&mem);
        buf_fini(&source);
    }
    printf(
        "total: %d schemas (%d without any value left out), %d answers, %d finished, %d invalid, "
        "%d differ with the draft; %.2f tokens a cycle, %.0f %% of proposals right\n",
        t.n_schemas, t.n_skipped, t.n_answers, t.n_finished, t.n_invalid, t.n_different,
        (double)t.n_tokens / (double)t.cycles, 100.0 * (double)t.accepted / (double)t.drafted);
    token_ids_fini(&ids);
    engine_close(a);
    engine_close(b);
    if (t.n_invalid || t.n_different) exit(1);
}

/* ---- time ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Milliseconds a cycle over short answers with and without a grammar, in turns: the median, and the
 * least, which says more on a machine that others use. */
static void time_cycles(const char *model, bool has_draft, int draft_rows)
{
    static answers out;
    double ms[2][TIMED];
    err e = {0};
    grammar *g = NULL;
    engine *en = open_engine(model, has_draft, 1, draft_rows);
    token_ids ids = encode(en);
    must(grammar_open_json_object(&g, &(grammar_json_options){2, false}, &e), &e);
    for (int i = -2; i < 2 * TIMED; i++) {
        bool masked = i & 1;
        generate(en, &ids, masked ? g : NULL, 1, TIMED_TOKENS, 3 + (uint64_t)(i + 2) / 2, &out);
        const engine_usage *u = &out.of[0].usage;
        if (i >= 0) ms[masked][i / 2] = u->decode_ms / (double)u->cycles;
    }
    for (int k = 0; k < 2; k++) qsort(ms[k], TIMED, sizeof(double), by_value);
    double plain = ms[0][TIMED / 2], masked = ms[1][TIMED / 2];
    printf("%d rows a cycle: median %.3f ms without, %.3f ms with masks (%+.1f %%); least %.3f and "
           "%.3f (%+.1f %%)\n",
           draft_rows + 1, plain, masked, 100 * (masked / plain - 1), ms[0][0], ms[1][0],
           100 * (ms[1][0] / ms[0][0] - 1));
    grammar_close(g);
    token_ids_fini(&ids);
    engine_close(en);
}

int main(int argc, char **argv)
{
    int n_schemas = argc > 1 ? atoi(argv[1]) : 100, n = argc > 2 ? atoi(argv[2]) : 20;
    int tokens = argc > 3 ? atoi(argv[3]) : 160;
    const char *model = argc > 4 ? argv[4] : "models/mini-dense";
    if (n < 1 || n > ANSWERS_MOST || tokens < 1 || tokens > IDS_MOST) return 2;
    if (n_schemas > 0) run_schemas(n_schemas, n, tokens, model);
    time_cycles(model, false, 0);
    time_cycles(model, true, 1);
    time_cycles(model, true, 7);
    return 0;
}
