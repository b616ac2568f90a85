/* riptide bench decode-profile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bench/bench_priv.h"
#include "bench/profile_model_priv.h"
#include "bench/profile_priv.h"
#include "engine/engine_flags.h"

typedef struct {
    engine_flags engine;
    const char *lanes, *prompts, *shape;
    int64_t layers;
    int64_t tokens;
    double temperature;
    bool as_json;
} profile_flags;

/* "1,2,4" ascending, each within [min, max]. */
static status parse_list(const char *text, const char *flag, int64_t min, int64_t max, int64_t *out,
                         int *n, err *e)
{
    *n = 0;
    for (const char *at = text; *at;) {
        size_t len = strcspn(at, ",");
        int64_t v;
        if (*n == PROFILE_LIST_MAX || !str_to_int64((str){at, len}, &v) || v < min || v > max ||
            (*n > 0 && v <= out[*n - 1]))
            return err_set(e, ERR_INVALID, flag, -1,
                           "\"%s\": want at most %d ascending numbers from %ld to %ld", text,
                           PROFILE_LIST_MAX, (long)min, (long)max);
        out[(*n)++] = v;
        at += len + (at[len] == ',');
    }
    return *n > 0 ? ERR_OK : err_set(e, ERR_INVALID, flag, -1, "is empty");
}

static status resolve(const profile_flags *f, arena *a, profile_request *r, err *e)
{
    int64_t lanes[PROFILE_LIST_MAX];
    TRY(engine_flags_resolve(&f->engine, a, &r->engine, e));
    TRY(parse_list(f->lanes, "--lanes", 1, 64, lanes, &r->n_lanes, e));
    TRY(parse_list(f->prompts, "--prompt-tokens", 2, 1 << 20, r->prompts, &r->n_prompts, e));
    for (int i = 0; i < r->n_lanes; i++) r->lanes[i] = (int)lanes[i];
    r->tokens = (int)f->tokens;
    r->temperature = f->temperature;
    return ERR_OK;
}

/* Everything that is measured; the order of printing. */
typedef struct {
    profile_prefill prefill[PROFILE_LIST_MAX];
    profile_decode decode[PROFILE_LIST_MAX * PROFILE_LIST_MAX];
    int n_prefill, n_decode;
} profile_record;

static status measure(const profile_context *x, profiler *p, profile_record *rec, bool as_json)
{
    const profile_request *r = x->r;
    for (int i = 0; i < r->n_prompts; i++) {
        profile_prefill *f = &rec->prefill[rec->n_prefill++];
        profiler_set_prompt(p);
        TRY(profiler_prefill(p, r->prompts[i], f));
        if (!as_json) profile_print_prefill(x, f);
        for (int k = 0; k < r->n_lanes; k++) {
            profile_decode *d = &rec->decode[rec->n_decode++];
            TRY(profiler_decode(p, r->prompts[i], r->lanes[k], d));
            if (!as_json) profile_print_decode(x, d);
            fflush(stdout);
        }
    }
    return ERR_OK;
}

static status print_json(const profile_context *x, const profile_record *rec, err *e)
{
    buf out;
    buf_init(&out);
    profile_json(x, rec->prefill, rec->n_prefill, rec->decode, rec->n_decode, &out);
    return bench_print_record(&out, e);
}

/* With --shape in place of --model. */
static status make_model(const profile_flags *f, profile_model *m, profile_request *r, err *e)
{
    if (!f->shape) return ERR_OK;
    shape s = *shape_find(f->shape);
    if (f->layers > 0) shape_set_layers(&s, (int)f->layers);
    TRY(profile_model_make(m, &s, 1, e));
    r->engine.model = m->target;
    r->engine.draft = m->draft;
    return ERR_OK;
}

static status open_profiler(const profile_flags *f, profiler *p, profile_request *r, err *e)
{
    profile_model m = {0};
    status s = make_model(f, &m, r, e);
    if (s == ERR_OK) s = profiler_open(p, r, e);
    profile_model_remove(&m);
    if (f->shape) r->engine.model = r->engine.draft = f->shape; /* what was asked for, to be told */
    return s;
}

static status run(const profile_flags *f, arena *a, err *e)
{
    profile_request r = {0};
    profiler p = {0};
    TRY(resolve(f, a, &r, e));
    profile_context x = {.r = &r, .p = &p};
    TRY(peak_measure(&x.peak, r.engine.backend, r.engine.n_threads, e));
    profile_record *rec = mem_new(sizeof *rec);
    if (!rec) return err_set(e, ERR_NOMEM, "profile", -1, "out of memory");
    status s = open_profiler(f, &p, &r, e);
    if (s == ERR_OK) {
        x.overhead_ns = stages_overhead(p.b);
        if (!f->as_json) profile_print_head(&x);
        s = measure(&x, &p, rec, f->as_json);
        bool is_told = p.b->last.code != ERR_OK;
        if (s != ERR_OK)
            err_set(e, s, is_told ? p.b->last.where : "profile", -1, "%s",
                    is_told ? p.b->last.msg : status_text(s));
    }
    if (s == ERR_OK && f->as_json) s = print_json(&x, rec, e);
    profiler_close(&p);
    mem_free(rec);
    return s;
}

int bench_decode_profile(int argc, char **argv)
{
    profile_flags f = {.lanes = "1,2,4,8", .prompts = "512", .tokens = 32};
    const option_row own[] = {
        {"shape", OPTION_CHOICE, &f.shape, .choices = "0.8b|27b|35b-a3b",
         .help = "instead of --model: random weights of that shape, which nobody keeps"},
        {"layers", OPTION_INT, &f.layers, .min = 0, .max = 256,
         .help = "of --shape (0: as many as the real one)"},
        {"lanes", OPTION_TEXT, &f.lanes, .help = "sequences at a time, ascending: 1,2,4,8"},
        {"prompt-tokens", OPTION_TEXT, &f.prompts, .help = "lengths, ascending: 512,24576"},
        {"tokens", OPTION_INT, &f.tokens, .min = 1, .max = 4096, .help = "cycles that are timed"},
        {"temperature", OPTION_DOUBLE, &f.temperature, .min = 0, .max = 100,
         .help = "0 is greedy; 1 for a model with a dial"},
        {"json", OPTION_FLAG, &f.as_json, .help = "one JSON object instead of tables"},
    };
    option_row all[ENGINE_FLAG_ROWS], rows[ENGINE_FLAG_ROWS + sizeof own / sizeof *own + 1] = {{0}};
    size_t n = 0;
    engine_flags_init(&f.engine, 1);
    f.engine.draft_rows = "15"; /* a fixed width, the draft's most, unless auto is asked for */
    int n_all = engine_flags_rows(&f.engine, all);
    for (int i = 0; i < n_all; i++)
        if (strcmp(all[i].name, "lanes") != 0 && strcmp(all[i].name, "max-context") != 0)
            rows[n++] = all[i];
    memcpy(rows + n, own, sizeof own);
    int code = bench_parse(rows, "riptide bench decode-profile [--model M]", argc, argv);
    if (code >= 0) return code;
    arena a;
    err e = {0};
    arena_init(&a, 0);
    status s = run(&f, &a, &e);
    arena_fini(&a);
    return s == ERR_OK ? 0 : bench_fail(argv[0], &e);
}
