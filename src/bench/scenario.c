/* riptide bench backend. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "bench/bench_priv.h"
#include "bench/scenario_priv.h"
#include "build_id.h"
#include "engine/engine_flags.h"

typedef struct {
    engine_flags engine;
    double scale;
    int64_t samples;
    const char *scenario;
    bool as_json;
} backend_flags;

static void print_metric(const scenario_metric *m)
{
    double least = m->samples[0], most = least;
    for (int i = 1; i < m->n; i++) {
        if (m->samples[i] < least) least = m->samples[i];
        if (m->samples[i] > most) most = m->samples[i];
    }
    printf("%-44s %10.1f %10.1f %10.1f\n", m->name, scenario_median(m->samples, m->n), least, most);
    fflush(stdout);
}

static void put_text(json_writer *w, const char *key, const char *value)
{
    json_key(w, key);
    json_c_string(w, value);
}

static void put_hash(json_writer *w, uint64_t hash)
{
    char text[24];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    put_text(w, "output", text);
}

static void put_metrics(json_writer *w, const scenario_record *rec)
{
    json_key(w, "metrics");
    json_open_array(w);
    for (int i = 0; i < rec->n; i++) {
        const scenario_metric *m = &rec->metrics[i];
        json_open_object(w);
        put_text(w, "name", m->name);
        json_key(w, "samples");
        json_open_array(w);
        for (int s = 0; s < m->n; s++) json_double(w, m->samples[s]);
        json_close_array(w);
        put_hash(w, m->output);
        json_close_object(w);
    }
    json_close_array(w);
    json_key(w, "failures");
    json_open_array(w);
    for (int i = 0; i < rec->n_failures; i++) json_c_string(w, rec->failures[i]);
    json_close_array(w);
    json_key(w, "drafted");
    json_int(w, rec->drafted);
    json_key(w, "accepted");
    json_int(w, rec->accepted);
}

static status print_json(const scenario_request *r, const scenario_record *rec, err *e)
{
    buf out;
    json_writer w;
    buf_init(&out);
    json_writer_init(&w, &out);
    json_open_object(&w);
    put_text(&w, "build", RIPTIDE_BUILD_ID);
    put_text(&w, "model", r->engine.model);
    put_text(&w, "draft", r->engine.draft ? r->engine.draft : "none");
    put_text(&w, "backend", r->engine.backend ? r->engine.backend : "default");
    put_text(&w, "scenario", r->names);
    json_key(&w, "draft_rows");
    json_int(&w, r->engine.draft_rows);
    json_key(&w, "threads");
    json_int(&w, r->engine.n_threads);
    json_key(&w, "scale");
    json_double(&w, r->scale);
    put_metrics(&w, rec);
    json_close_object(&w);
    buf_put_byte(&out, '\n');
    return bench_print_record(&out, e);
}

static status run(const backend_flags *f, arena *a, scenario_record *rec, err *e)
{
    scenario_request r = {.scale = f->scale, .samples = (int)f->samples, .names = f->scenario};
    TRY(engine_flags_resolve(&f->engine, a, &r.engine, e));
    if (!f->as_json) printf("%-44s %10s %10s %10s\n", "metric", "median", "least", "most");
    TRY(scenario_run(&r, rec, f->as_json ? NULL : print_metric, e));
    for (int i = 0; i < rec->n_failures && !f->as_json; i++)
        printf("FAILED: %s\n", rec->failures[i]);
    return f->as_json ? print_json(&r, rec, e) : ERR_OK;
}

int bench_backend(int argc, char **argv)
{
    backend_flags f = {.scale = 0.25, .samples = 3, .scenario = "all"};
    option_row rows[ENGINE_FLAG_ROWS + 5];
    engine_flags_init(&f.engine, 1);
    f.engine.draft_rows = "7"; /* what counts is measured at a fixed width */
    int n = engine_flags_rows(&f.engine, rows);
    rows[n++] = (option_row){"scenario", OPTION_TEXT, &f.scenario,
                             .help = "decode,short,partial,context,exact,beside, or all"};
    rows[n++] = (option_row){"scale",   OPTION_DOUBLE,
                             &f.scale,  .min = 0.01,
                             .max = 10, .help = "of prompts' lengths; 1: up to 50K"};
    rows[n++] = (option_row){"samples",
                             OPTION_INT,
                             &f.samples,
                             .min = 1,
                             .max = SCENARIO_SAMPLES_MAX,
                             .help = "of each metric"};
    rows[n++] = (option_row){"json", OPTION_FLAG, &f.as_json, .help = "print one JSON object"};
    rows[n] = (option_row){0};
    int code = bench_parse(rows, "usage: riptide bench backend [flags]", argc, argv);
    if (code >= 0) return code;
    static scenario_record rec;
    arena a;
    err e = {0};
    arena_init(&a, 0);
    status s = run(&f, &a, &rec, &e);
    arena_fini(&a);
    if (s != ERR_OK) return bench_fail(argv[0], &e);
    return rec.n_failures > 0;
}
