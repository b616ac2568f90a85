/* riptide bench oracle. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "bench/bench_priv.h"
#include "bench/oracle_priv.h"
#include "engine/engine_flags.h"

enum { N_FORMATS = 6 }; /* of keys and values, and of states */

typedef struct {
    engine_flags engine;
    int64_t tokens, prompt;
    bool is_wide;
    const char *label; /* of the setting under way */
    int64_t start_ns;
} oracle_flags;

/* The lines of tests/oracle scripts, so that one can pass them on. */
static void print_case(void *ctx, const char *name, const char *detail)
{
    oracle_flags *f = ctx;
    printf("%s %s: %s%s%s%s\n", detail ? "not ok" : "ok", f->label, name, detail ? " [" : "",
           detail ? detail : "", detail ? "]" : "");
    fflush(stdout);
}

static status run_one(oracle_flags *f, const engine_options *o, int *n_failed, err *e)
{
    char label[128];
    const char *kv = o->kv == ENGINE_KV_INT8 ? "int8" : o->kv == ENGINE_KV_BF16 ? "bf16" : "f32";
    const char *name = strrchr(o->model, '/');
    oracle_request r = {.engine = *o,
                        .n_new = (int)f->tokens,
                        .n_prompt = (int)f->prompt,
                        .is_wide = f->is_wide,
                        .on_case = print_case,
                        .ctx = f};
    snprintf(label, sizeof label, "%s %s%s%s", name ? name + 1 : o->model, kv,
             o->state == ENGINE_STATE_BF16 ? " bf16-states" : "",
             o->draft_window > 0 ? " short-window" : "");
    f->label = label;
    return oracle_run(&r, n_failed, e);
}

static status run(oracle_flags *f, arena *a, int *n_failed, err *e)
{
    engine_options o;
    int n;
    TRY(engine_flags_resolve(&f->engine, a, &o, e));
    TRY(run_one(f, &o, n_failed, e));
    if (f->is_wide && o.draft) {
        o.draft_window = ORACLE_WINDOW;
        TRY(run_one(f, &o, &n, e));
        *n_failed += n;
        o.draft_window = 0;
    }
    for (int i = 0; f->is_wide && i < N_FORMATS; i++) {
        engine_options other = o;
        other.kv = (engine_kv)(i / 2);
        other.state = (engine_state)(i % 2);
        if (other.kv == o.kv && other.state == o.state) continue;
        TRY(run_one(f, &other, &n, e));
        *n_failed += n;
    }
    return ERR_OK;
}

int bench_oracle(int argc, char **argv)
{
    oracle_flags f = {.tokens = 24, .prompt = 150, .start_ns = clock_ns()};
    option_row rows[ENGINE_FLAG_ROWS + 4];
    engine_flags_init(&f.engine, 1);
    int n = engine_flags_rows(&f.engine, rows);
    rows[n++] = (option_row){"tokens",
                             OPTION_INT,
                             &f.tokens,
                             .min = 8,
                             .max = ORACLE_NEW_MAX,
                             .help = "length of an answer"};
    rows[n++] = (option_row){"prompt",   OPTION_INT,   &f.prompt,
                             .min = 130, .max = 16000, .help = "tokens of a prompt"};
    rows[n++] = (option_row){
        "wide", OPTION_FLAG, &f.is_wide,
        .help = "all formats of keys, values and states, a draft of a short window, more "
                "slices and widths"};
    rows[n] = (option_row){0};
    int code = bench_parse(rows, "usage: riptide bench oracle [flags]", argc, argv);
    if (code >= 0) return code;
    int n_failed = 0;
    arena a;
    err e = {0};
    arena_init(&a, 0);
    status s = run(&f, &a, &n_failed, &e);
    arena_fini(&a);
    if (s != ERR_OK) return bench_fail(argv[0], &e);
    fprintf(stderr, "%s in %.1f s\n", n_failed ? "FAILED" : "passed",
            clock_ms_since(f.start_ns) / 1000);
    return n_failed > 0;
}
