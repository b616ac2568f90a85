/* riptide bench abba. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "bench/abba_priv.h"
#include "bench/bench_priv.h"
#include "build_id.h"

typedef struct {
    const char *a, *b, *args, *a_args, *b_args;
    bool expects_change, as_json;
} abba_flags;

static const char *verdict_name(abba_verdict v)
{
    return v == ABBA_PASS ? "pass" : v == ABBA_FAIL ? "FAIL" : "inconclusive";
}

static void print_result(const abba_result *r)
{
    printf("%-44s %9s %9s %8s %8s\n", "metric", "A", "B", "change", "spread");
    for (int i = 0; i < r->n; i++) {
        const abba_metric *m = &r->metrics[i];
        printf("%-44s %9.1f %9.1f %+7.1f%% %7.1f%% %s\n", m->name, m->a, m->b, 100 * m->change,
               100 * m->spread, verdict_name(m->verdict));
    }
    printf("outputs %s; acceptance %.3f and %.3f; %d failed, %d inconclusive: %s\n",
           r->has_same_output ? "equal" : "DIFFER", r->acceptance[0], r->acceptance[1], r->n_failed,
           r->n_inconclusive, r->passed ? "passed" : "FAILED");
}

static void put_number(json_writer *w, const char *key, double value)
{
    json_key(w, key);
    json_double(w, value);
}

static void put_result(json_writer *w, const abba_result *r)
{
    json_key(w, "metrics");
    json_open_array(w);
    for (int i = 0; i < r->n; i++) {
        const abba_metric *m = &r->metrics[i];
        json_open_object(w);
        json_key(w, "name");
        json_c_string(w, m->name);
        json_key(w, "rounds");
        json_open_array(w);
        for (int k = 0; k < ABBA_ROUNDS; k++) json_double(w, m->rounds[k]);
        json_close_array(w);
        put_number(w, "baseline", m->a);
        put_number(w, "candidate", m->b);
        put_number(w, "regression", m->change);
        put_number(w, "spread", m->spread);
        json_key(w, "verdict");
        json_c_string(w, verdict_name(m->verdict));
        json_close_object(w);
    }
    json_close_array(w);
    put_number(w, "acceptance_baseline", r->acceptance[0]);
    put_number(w, "acceptance_candidate", r->acceptance[1]);
    json_key(w, "same_output");
    json_bool(w, r->has_same_output);
    json_key(w, "passed");
    json_bool(w, r->passed);
}

static status print_json(const char *const commands[2], const abba_result *r, err *e)
{
    buf out;
    json_writer w;
    buf_init(&out);
    json_writer_init(&w, &out);
    json_open_object(&w);
    json_key(&w, "build");
    json_c_string(&w, RIPTIDE_BUILD_ID);
    json_key(&w, "commands");
    json_open_array(&w);
    for (int i = 0; i < 2; i++) json_c_string(&w, commands[i]);
    json_close_array(&w);
    put_result(&w, r);
    json_close_object(&w);
    buf_put_byte(&out, '\n');
    return bench_print_record(&out, e);
}

/* The shell command of a side. */
static const char *command_of(arena *a, const char *binary, const char *args, const char *own)
{
    buf b;
    buf_init(&b);
    buf_printf(&b, "'%s' bench backend --json %s %s", binary, args ? args : "", own ? own : "");
    const char *text = b.failed ? NULL : arena_copy(a, b.ptr, b.len);
    buf_fini(&b);
    return text;
}

static status run(const abba_flags *f, arena *a, abba_result *out, err *e)
{
    static const int side[ABBA_ROUNDS] = {0, 1, 1, 0};
    static scenario_record rounds[ABBA_ROUNDS];
    const char *dir = file_exe_dir(a), *own = dir ? file_join(a, dir, "riptide") : NULL;
    const char *first = f->a ? f->a : own;
    if (!first)
        return err_set(e, ERR_IO, "--a", -1, "where this program lies is not known: name it");
    const char *commands[2] = {command_of(a, first, f->args, f->a_args),
                               command_of(a, f->b ? f->b : first, f->args, f->b_args)};
    if (!commands[0] || !commands[1]) return err_set(e, ERR_NOMEM, "abba", -1, "commands");
    for (int i = 0; i < ABBA_ROUNDS; i++) {
        if (!f->as_json) fprintf(stderr, "round %d: %s\n", i + 1, commands[side[i]]);
        TRY(abba_round(a, commands[side[i]], &rounds[i], e));
    }
    TRY(abba_compare(rounds, f->expects_change, out, e));
    if (f->as_json) return print_json(commands, out, e);
    print_result(out);
    return ERR_OK;
}

int bench_abba(int argc, char **argv)
{
    abba_flags f = {0};
    option_row rows[] = {
        {"a", OPTION_TEXT, &f.a, .help = "program of the rounds A (default: this one)"},
        {"b", OPTION_TEXT, &f.b, .help = "program of the rounds B (default: A's: A against A)"},
        {"args", OPTION_TEXT, &f.args,
         .help = "flags of `bench backend` for all rounds, as for a shell"},
        {"a-args", OPTION_TEXT, &f.a_args, .help = "more of them for A"},
        {"b-args", OPTION_TEXT, &f.b_args, .help = "more of them for B"},
        {"expect-output-change", OPTION_FLAG, &f.expects_change,
         .help = "outputs may differ, acceptance may not fall by more than 0.02"},
        {"json", OPTION_FLAG, &f.as_json, .help = "print one JSON object"},
        {0}};
    int code = bench_parse(rows, "usage: riptide bench abba [flags]", argc, argv);
    if (code >= 0) return code;
    static abba_result result;
    arena a;
    err e = {0};
    arena_init(&a, 0);
    status s = run(&f, &a, &result, &e);
    arena_fini(&a);
    return s != ERR_OK ? bench_fail(argv[0], &e) : !result.passed;
}
