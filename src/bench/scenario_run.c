/* The scenarios. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "bench/bench_priv.h"
#include "bench/client_priv.h"
#include "bench/scenario_priv.h"

enum { DECODE_PROMPT = 39, DECODE_NEW = 64, LANES_MOST = 8, SPARE = 1024 };

typedef struct {
    const scenario_request *r;
    scenario_record *out;
    engine *en;
    token_ids text, prompt;
    int n_prompts; /* made so far: each begins with a token of its own */
    bool is_plain; /* without the draft */
} bench;

/* ---- metrics ---- */

static scenario_metric *metric(bench *b, const char *name)
{
    scenario_record *r = b->out;
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->metrics[i].name, name) == 0) return &r->metrics[i];
    if (r->n == SCENARIO_METRICS_MAX) return &r->metrics[r->n - 1];
    scenario_metric *m = &r->metrics[r->n++];
    *m = (scenario_metric){0};
    snprintf(m->name, sizeof m->name, "%s", name);
    return m;
}

static void add(bench *b, const char *name, double ms, const client_answer *a)
{
    scenario_metric *m = metric(b, name);
    if (m->n < SCENARIO_SAMPLES_MAX) m->samples[m->n++] = ms;
    m->output = hash_bytes(&a->output, sizeof a->output, m->output);
    b->out->drafted += a->drafted;
    b->out->accepted += a->accepted;
}

static void check(bench *b, bool holds, const char *what)
{
    scenario_record *r = b->out;
    if (holds || r->n_failures == SCENARIO_FAILURES_MAX) return;
    snprintf(r->failures[r->n_failures++], sizeof r->failures[0], "%s", what);
}

double scenario_median(const double *samples, int n)
{
    double sorted[SCENARIO_SAMPLES_MAX];
    if (n == 0) return 0;
    memcpy(sorted, samples, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, bench_by_value);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static double median_of(bench *b, const char *name)
{
    const scenario_metric *m = metric(b, name);
    return scenario_median(m->samples, m->n);
}

/* ---- requests ---- */

/* A new engine with so many lanes; no width of drafts is chosen by time. */
static status open_engine(bench *b, int n_lanes, err *e)
{
    engine_options o = b->r->engine;
    if (b->is_plain) o.draft = NULL;
    o.n_lanes = n_lanes;
    engine_close(b->en);
    b->en = NULL;
    TRY(engine_open(&b->en, &o, e));
    return client_text(engine_tokenizer(b->en), 50000 + SPARE, &b->text, e);
}

/* Tokens of a prompt of about n at scale 1, with room for what a scenario appends. */
static int scaled(const bench *b, int n)
{
    int64_t most = engine_about(b->en)->max_context - SPARE;
    double len = n * b->r->scale;
    return len < 65 ? 65 : len > (double)most ? (int)most : (int)len;
}

/* n tokens that begin as no other prompt. */
static status new_prompt(bench *b, int n, err *e)
{
    b->prompt.n = 0;
    for (int i = 0; i < n; i++)
        if (!token_ids_push(&b->prompt, b->text.ptr[i]))
            return err_set(e, ERR_NOMEM, "prompt", -1, "%d tokens", n);
    b->prompt.ptr[0] = 300 + b->n_prompts++ % 1000;
    return ERR_OK;
}

/* More tokens of the text behind the prompt. */
static status lengthen(bench *b, int n, err *e)
{
    for (int i = 0; i < n; i++)
        if (!token_ids_push(&b->prompt, b->text.ptr[(b->prompt.n + 7) % b->text.n]))
            return err_set(e, ERR_NOMEM, "prompt", -1, "%d tokens", b->prompt.n);
    return ERR_OK;
}

static status ask(bench *b, int n_ids, int n_new, client_answer *a, err *e)
{
    client_ask q = {.ids = b->prompt.ptr, .n_ids = n_ids, .n_new = n_new};
    return client_ask_one(b->en, &q, a, e);
}

/* ---- scenarios ---- */

static const char *name_of(const bench *b, int L, char name[48])
{
    snprintf(name, 48, "decode%s, %d lanes, in all ms", b->is_plain ? " without draft" : "", L);
    return name;
}

static status run_lanes(bench *b, int L, err *e)
{
    static client_answer all[LANES_MOST];
    static int32_t ids[LANES_MOST][DECODE_PROMPT];
    char name[48];
    double longest = 0;
    for (int i = 0; i < L; i++) {
        TRY(new_prompt(b, DECODE_PROMPT, e));
        memcpy(ids[i], b->prompt.ptr, sizeof ids[i]);
        ids[i][0] = 300 + i; /* the same in every sample and at any number of lanes */
        client_ask q = {.ids = ids[i], .n_ids = DECODE_PROMPT, .n_new = DECODE_NEW};
        TRY(client_submit(b->en, &q, &all[i], e));
    }
    TRY(client_wait(b->en, all, L, e));
    for (int i = 0; i < L; i++)
        if (all[i].end_ms > longest) longest = all[i].end_ms;
    for (int i = 1; i < L; i++)
        all[0].output = hash_bytes(&all[i].output, sizeof all[i].output, all[0].output);
    add(b, name_of(b, L, name), longest, &all[0]);
    return ERR_OK;
}

static status run_widths(bench *b, bool is_plain, err *e)
{
    static const int lanes[] = {1, 2, 3, 4, 8};
    status st = ERR_OK;
    b->is_plain = is_plain;
    for (int i = 0; i < 5 && st == ERR_OK; i++) {
        st = open_engine(b, lanes[i], e);
        for (int s = 0; s < b->r->samples && st == ERR_OK; s++) st = run_lanes(b, lanes[i], e);
    }
    b->is_plain = false;
    return st;
}

/* Lanes must pay where each adds a row; at a fixed width a processor may be as busy with one. */
static status run_decode(bench *b, err *e)
{
    char name[48];
    double ms[4] = {0};
    TRY(run_widths(b, true, e));
    b->is_plain = true;
    for (int L = 1; L <= 3; L++) ms[L] = median_of(b, name_of(b, L, name));
    b->is_plain = false;
    check(b, ms[3] <= ms[1] + ms[2], "three lanes are slower than two and one after the other");
    return b->r->engine.draft ? run_widths(b, false, e) : ERR_OK;
}

static status run_short(bench *b, err *e)
{
    static const int lengths[] = {480, 512, 544, 640, 672, 1024, 1536, 2016};
    client_answer a;
    TRY(open_engine(b, 1, e));
    for (int s = 0; s < b->r->samples; s++)
        for (int i = 0; i < 8; i++) {
            char name[48];
            int n = scaled(b, lengths[i]);
            TRY(new_prompt(b, n, e));
            TRY(ask(b, n, 1, &a, e));
            check(b, a.n_cached == 0, "a short prompt was not cold");
            snprintf(name, sizeof name, "short, %d, first token ms", lengths[i]);
            add(b, name, a.first_ms, &a);
        }
    return ERR_OK;
}

static status run_partial(bench *b, err *e)
{
    client_answer cold, seed, hit;
    int head, whole;
    TRY(open_engine(b, 1, e));
    head = scaled(b, 10000);
    whole = scaled(b, 14096);
    for (int s = 0; s < b->r->samples; s++) {
        TRY(new_prompt(b, whole, e));
        int32_t first = b->prompt.ptr[0];
        TRY(ask(b, whole, 8, &cold, e));
        TRY(open_engine(b, 1, e));
        b->prompt.ptr[0] = first;
        TRY(ask(b, head, 1, &seed, e));
        TRY(ask(b, whole, 8, &hit, e));
        check(b, hit.output == cold.output, "partial: the answer differs from a cold one");
        check(b, hit.n_cached >= head / 2, "partial: the head was not taken over");
        add(b, "partial, cold, first token ms", cold.first_ms, &cold);
        add(b, "partial, seed, first token ms", seed.first_ms, &seed);
        add(b, "partial, hit, first token ms", hit.first_ms, &hit);
    }
    return ERR_OK;
}

static status context_of(bench *b, int length, err *e)
{
    char name[48];
    client_answer cold, again, rolling, answer, more;
    int n = scaled(b, length);
    TRY(new_prompt(b, n, e));
    TRY(ask(b, n, 4, &cold, e));
    TRY(ask(b, n, 4, &again, e));
    TRY(lengthen(b, 256, e));
    TRY(ask(b, b->prompt.n, 1, &rolling, e));
    TRY(ask(b, b->prompt.n, 96, &answer, e));
    TRY(lengthen(b, 64, e));
    TRY(ask(b, b->prompt.n, 1, &more, e));
    check(b, again.output == cold.output, "context: the answer differs from the cold one");
    check(b, 2 * again.first_ms <= cold.first_ms, "context: again takes over half of cold");
    const client_answer *all[] = {&cold, &again, &rolling, &more};
    static const char *const kinds[] = {"cold", "again", "256 more", "64 more"};
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "context, %d, %s, first token ms", length, kinds[i]);
        add(b, name, all[i]->first_ms, all[i]);
    }
    snprintf(name, sizeof name, "context, %d, answer of 96 ms", length);
    add(b, name, answer.end_ms - answer.first_ms, &answer);
    return ERR_OK;
}

static status run_context(bench *b, err *e)
{
    static const int lengths[] = {2048, 10000, 50000};
    TRY(open_engine(b, 1, e));
    for (int s = 0; s < b->r->samples; s++)
        for (int i = 0; i < 3; i++) TRY(context_of(b, lengths[i], e));
    return ERR_OK;
}

static status run_exact(bench *b, err *e)
{
    client_answer cold, again;
    TRY(open_engine(b, 1, e));
    int n = scaled(b, 4096);
    for (int s = 0; s < b->r->samples; s++) {
        TRY(new_prompt(b, n, e));
        TRY(ask(b, n, 8, &cold, e));
        TRY(ask(b, n, 8, &again, e));
        check(b, again.output == cold.output, "exact: the answer differs from the cold one");
        add(b, "exact, cold, first token ms", cold.first_ms, &cold);
        add(b, "exact, again, first token ms", again.first_ms, &again);
    }
    check(b,
          2 * median_of(b, "exact, again, first token ms") <=
              median_of(b, "exact, cold, first token ms"),
          "exact: again takes over half of cold");
    return ERR_OK;
}

static status run_beside(bench *b, err *e)
{
    client_answer both[2]; /* the long and the short one */
    int32_t ids[64];
    TRY(open_engine(b, 2, e));
    int n = scaled(b, 16384);
    for (int s = 0; s < b->r->samples; s++) {
        TRY(new_prompt(b, 64, e));
        memcpy(ids, b->prompt.ptr, sizeof ids);
        TRY(new_prompt(b, n, e));
        client_ask longer = {.ids = b->prompt.ptr, .n_ids = n, .n_new = 1};
        client_ask shorter = {.ids = ids, .n_ids = 64, .n_new = 1};
        TRY(client_submit(b->en, &longer, &both[0], e));
        for (int i = 0; i < 4; i++) engine_step(b->en);
        TRY(client_submit(b->en, &shorter, &both[1], e));
        /* As if it had come just when a slice began. */
        while (!both[1].is_done && engine_step(b->en)) continue;
        check(b, !both[0].is_done || n < 1024, "beside: the long prompt went first");
        TRY(client_wait(b->en, both, 2, e));
        double slice = engine_stats(b->en).tally.slice.sum_ms /
                       (double)engine_stats(b->en).tally.slice.n;
        add(b, "beside, first token and a slice ms", both[1].first_ms + slice, &both[1]);
        add(b, "beside, long prompt, first token ms", both[0].first_ms, &both[0]);
    }
    return ERR_OK;
}

/* ---- all of them ---- */

typedef struct {
    const char *name;
    status (*run)(bench *b, err *e);
} scenario;

static const scenario scenarios[] = {{"decode", run_decode},   {"short", run_short},
                                     {"partial", run_partial}, {"context", run_context},
                                     {"exact", run_exact},     {"beside", run_beside}};
enum { SCENARIOS = sizeof scenarios / sizeof *scenarios };

static status check_names(str names, err *e)
{
    while (names.len > 0 && !str_is(names, "all")) {
        int64_t comma = str_find(names, STR(","), 0);
        str one = comma < 0 ? names : str_slice(names, 0, (size_t)comma);
        bool is_known = false;
        for (int i = 0; i < SCENARIOS; i++) is_known |= str_is(one, scenarios[i].name);
        if (!is_known)
            return err_set(e, ERR_INVALID, "--scenario", -1,
                           "\"%.*s\": want all or some of decode, short, partial, context, exact, "
                           "beside",
                           STR_ARG(one));
        names = comma < 0 ? (str){0} : str_skip(names, (size_t)comma + 1);
    }
    return ERR_OK;
}

static bool is_wanted(str names, const char *name)
{
    return str_is(names, "all") || str_find(names, str_from(name), 0) >= 0;
}

status scenario_run(const scenario_request *r, scenario_record *out,
                    void (*on_metric)(const scenario_metric *), err *e)
{
    bench b = {.r = r, .out = out};
    str names = str_from(r->names);
    *out = (scenario_record){0};
    TRY(check_names(names, e));
    status s = ERR_OK;
    for (int i = 0, told = 0; i < SCENARIOS && s == ERR_OK; i++) {
        if (!is_wanted(names, scenarios[i].name)) continue;
        s = scenarios[i].run(&b, e);
        for (; on_metric && told < out->n; told++) on_metric(&out->metrics[told]);
    }
    engine_close(b.en);
    token_ids_fini(&b.text);
    token_ids_fini(&b.prompt);
    return s;
}
