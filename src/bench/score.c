/* riptide bench score. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "bench/bench_priv.h"
#include "bench/peak_priv.h"
#include "bench/score_priv.h"
#include "build_id.h"
#include "engine/engine_flags.h"

typedef struct {
    engine_flags engine;
    const char *text, *against, *against_kv;
    int64_t tokens, window;
    bool as_json;
} score_flags;

static const char *const kv_names[] = {
    [ENGINE_KV_INT8] = "int8", [ENGINE_KV_BF16] = "bf16", [ENGINE_KV_F32] = "f32"};

static const char *state_name(const score_request *r)
{
    return r->engine.state == ENGINE_STATE_BF16 ? "bf16" : "f32";
}

static status resolve(const score_flags *f, arena *a, score_request *r, err *e)
{
    TRY(engine_flags_resolve(&f->engine, a, &r->engine, e));
    r->against = f->against;
    for (int i = 0; i < 3; i++)
        if (strcmp(f->against_kv, kv_names[i]) == 0) r->against_kv = (engine_kv)i;
    r->max_tokens = f->tokens;
    r->window = (int)f->window;
    r->text = score_bundled_text();
    return f->text ? file_read(a, f->text, 1 << 28, &r->text, e) : ERR_OK;
}

static double mean(double sum, const score *s)
{
    return sum / (double)s->n;
}

static double share(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 1;
}

static void print_people(const score_flags *f, const score_request *r, score_result *x)
{
    score *s = &x->s;
    double median = score_median_norm(s);
    printf("riptide %s, model %s, %s: %lld tokens in %lld windows of %d, %lld rows\n",
           RIPTIDE_BUILD_ID, r->engine.model, f->text ? f->text : "the bundled text",
           (long long)x->n_tokens, (long long)x->n_windows, r->window, (long long)s->n);
    printf("%s %s, %s KV, %s states, against %s, %s KV, f32 states\n", x->backend, x->isa,
           kv_names[r->engine.kv], state_name(r), x->reference, kv_names[r->against_kv]);
    printf("  perplexity        %.5f, reference %.5f (x %.5f)\n", exp(mean(s->nll, s)),
           exp(mean(s->reference_nll, s)), exp(mean(s->nll - s->reference_nll, s)));
    printf("  KL divergence     %.3e nats a row, worst %.3e\n", mean(s->kl, s), s->worst_kl);
    printf("  same first token  %.3f %% of rows; %.3f %% of the %lld whose gap exceeds %.1f\n",
           100 * share(s->n_same, s->n), 100 * share(s->n_clear_same, s->n_clear),
           (long long)s->n_clear, SCORE_GAP);
    printf("  norm of error     %.3e median, %.3e worst\n", median, (double)s->norms[s->n - 1]);
}

static void put_text(json_writer *w, const char *key, const char *v)
{
    json_key(w, key);
    json_c_string(w, v);
}

static void put_int(json_writer *w, const char *key, int64_t v)
{
    json_key(w, key);
    json_int(w, v);
}

static void put_double(json_writer *w, const char *key, double v)
{
    json_key(w, key);
    json_double(w, v);
}

static void put_settings(json_writer *w, const score_flags *f, const score_request *r,
                         const score_result *x)
{
    char machine[96];
    peak_name_machine(machine, sizeof machine, strcmp(x->backend, "cuda") == 0);
    put_text(w, "build", RIPTIDE_BUILD_ID);
    put_text(w, "machine", machine);
    put_text(w, "backend", x->backend);
    put_text(w, "isa", x->isa);
    put_int(w, "threads", x->n_threads);
    json_key(w, "settings");
    json_open_object(w);
    put_text(w, "model", r->engine.model);
    put_text(w, "kv_format", kv_names[r->engine.kv]);
    put_text(w, "state_format", state_name(r));
    put_text(w, "against", x->reference);
    put_text(w, "against_isa", x->reference_isa);
    put_text(w, "against_kv", kv_names[r->against_kv]);
    put_text(w, "text", f->text ? f->text : "bundled");
    put_int(w, "window", r->window);
    json_close_object(w);
}

static void put_score(const score_flags *f, const score_request *r, score_result *x, buf *out)
{
    score *s = &x->s;
    json_writer w;
    char hash[24];
    double median = score_median_norm(s);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)s->output_hash);
    json_writer_init(&w, out);
    json_open_object(&w);
    put_settings(&w, f, r, x);
    put_int(&w, "tokens", x->n_tokens);
    put_int(&w, "windows", x->n_windows);
    put_int(&w, "rows", s->n);
    put_double(&w, "perplexity", exp(mean(s->nll, s)));
    put_double(&w, "reference_perplexity", exp(mean(s->reference_nll, s)));
    put_double(&w, "kl", mean(s->kl, s));
    put_double(&w, "worst_kl", s->worst_kl);
    put_double(&w, "top1_agreement", share(s->n_same, s->n));
    put_int(&w, "clear_rows", s->n_clear);
    put_double(&w, "clear_top1_agreement", share(s->n_clear_same, s->n_clear));
    put_double(&w, "median_norm", median);
    put_double(&w, "worst_norm", (double)s->norms[s->n - 1]);
    put_text(&w, "output_hash", hash);
    json_close_object(&w);
    buf_put_byte(out, '\n');
}

static status run(const score_flags *f, arena *a, err *e)
{
    score_request r = {0};
    score_result x = {0};
    TRY(resolve(f, a, &r, e));
    status s = score_run(&r, &x, e);
    if (s == ERR_OK && f->as_json) {
        buf out;
        buf_init(&out);
        put_score(f, &r, &x, &out);
        s = bench_print_record(&out, e);
    } else if (s == ERR_OK) {
        print_people(f, &r, &x);
    }
    mem_free(x.s.norms);
    return s;
}

/* The engine's flags that mean something here. */
static size_t shared_rows(engine_flags *f, option_row *rows)
{
    static const char *const names[] = {"model", "backend", "kv-format", "state-format", "threads"};
    option_row all[ENGINE_FLAG_ROWS];
    size_t n = 0;
    int n_all = engine_flags_rows(f, all);
    for (int i = 0; i < n_all; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (strcmp(all[i].name, names[k]) == 0) rows[n++] = all[i];
    return n;
}

int bench_score(int argc, char **argv)
{
    score_flags f = {.against = "ref", .against_kv = "f32", .tokens = 4096, .window = 512};
    const option_row own[] = {
        {"text", OPTION_TEXT, &f.text,
         .help = "file whose tokens are predicted (else a bundled one)"},
        {"tokens", OPTION_INT, &f.tokens, .min = 0, .max = 1 << 24,
         .help = "most tokens of it (0: all)"},
        {"window", OPTION_INT, &f.window, .min = 2, .max = 1 << 20,
         .help = "tokens that are read from an empty context"},
        {"against", OPTION_TEXT, &f.against, .help = "backend of the reference"},
        {"against-kv", OPTION_CHOICE, &f.against_kv, .choices = "int8|bf16|f32",
         .help = "its KV format"},
        {"json", OPTION_FLAG, &f.as_json, .help = "one JSON object instead of lines"},
    };
    option_row rows[ENGINE_FLAG_ROWS + sizeof own / sizeof *own + 1] = {{0}};
    engine_flags_init(&f.engine, 1);
    size_t n = shared_rows(&f.engine, rows);
    memcpy(rows + n, own, sizeof own);
    int code = bench_parse(rows, "riptide bench score [--model M] [--text FILE]", argc, argv);
    if (code >= 0) return code;
    arena a;
    err e = {0};
    arena_init(&a, 0);
    status s = run(&f, &a, &e);
    arena_fini(&a);
    return s == ERR_OK ? 0 : bench_fail(argv[0], &e);
}
