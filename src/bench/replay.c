/* riptide bench agent-replay. */
#include <stdio.h>
#include <string.h>

#include "backend/ops.h"
#include "base/json.h"
#include "bench/bench_priv.h"
#include "bench/replay_priv.h"
#include "build_id.h"
#include "engine/engine_flags.h"

typedef struct {
    engine_flags engine;
    double scale, temperature;
    int64_t tokens;
    bool as_json;
} replay_flags;

static double rate(const replay_row *r)
{
    return r->decode_ms > 0 ? (double)(r->n_new - 1) * 1000 / r->decode_ms : 0;
}

static void print_row(const replay_row *r)
{
    printf("%-18s %8lld %8lld %9.1f %7lld %8.1f %6.2f\n", r->name, (long long)r->n_prompt,
           (long long)r->n_cached, r->first_ms, (long long)r->n_new, rate(r), r->per_cycle);
    fflush(stdout);
}

static void print_end(const replay_record *rec)
{
    const engine_cache_counters *c = &rec->cache;
    printf("first token of the repeat: %.2f %% of cold; of the appends: %.2f, at worst %.2f times "
           "what their new tokens and %d take at that depth\n",
           100 * rec->repeat_share, rec->append_median, rec->append_worst, OPS_BLOCK);
    printf("cache: %lld of %lld prompts hit, %lld tokens; evicted %lld blocks, %lld states; "
           "%d of %d states kept\n",
           (long long)c->hits, (long long)c->lookups, (long long)c->reused_tokens,
           (long long)c->evicted_blocks, (long long)c->evicted_states, c->n_kept_states,
           c->n_states);
    printf("answers that came back: %lld known as they were generated, %lld tokens; %lld "
           "remembered in %.1f KiB\n",
           (long long)rec->turns.used, (long long)rec->turns.used_tokens,
           (long long)rec->turns.n_turns, (double)rec->turns.n_bytes / 1024);
    printf("outputs: %s\n", rec->is_same ? "the same with and without the cache" : "DIFFERENT");
}

static void put_row(json_writer *w, const replay_row *r)
{
    char hash[24];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)r->output);
    json_open_object(w);
    json_key(w, "name");
    json_c_string(w, r->name);
    json_key(w, "prompt_tokens");
    json_int(w, r->n_prompt);
    json_key(w, "cached_tokens");
    json_int(w, r->n_cached);
    json_key(w, "first_token_ms");
    json_double(w, r->first_ms);
    json_key(w, "append_cost");
    json_double(w, r->cost);
    json_key(w, "new_tokens");
    json_int(w, r->n_new);
    json_key(w, "decode_tokens_per_second");
    json_double(w, rate(r));
    json_key(w, "tokens_per_cycle");
    json_double(w, r->per_cycle);
    json_key(w, "output");
    json_c_string(w, hash);
    json_close_object(w);
}

static status print_json(const replay_request *r, const replay_record *rec, err *e)
{
    buf out;
    json_writer w;
    buf_init(&out);
    json_writer_init(&w, &out);
    json_open_object(&w);
    json_key(&w, "build");
    json_c_string(&w, RIPTIDE_BUILD_ID);
    json_key(&w, "model");
    json_c_string(&w, r->engine.model);
    json_key(&w, "draft");
    json_c_string(&w, r->engine.draft ? r->engine.draft : "none");
    json_key(&w, "scale");
    json_double(&w, r->scale);
    json_key(&w, "temperature");
    json_double(&w, r->temperature);
    json_key(&w, "requests");
    json_open_array(&w);
    for (int i = 0; i < rec->n; i++) put_row(&w, &rec->rows[i]);
    json_close_array(&w);
    json_key(&w, "repeat_share");
    json_double(&w, rec->repeat_share);
    json_key(&w, "append_median");
    json_double(&w, rec->append_median);
    json_key(&w, "append_worst");
    json_double(&w, rec->append_worst);
    json_key(&w, "same_output");
    json_bool(&w, rec->is_same);
    json_close_object(&w);
    buf_put_byte(&out, '\n');
    return bench_print_record(&out, e);
}

static status run(const replay_flags *f, arena *a, replay_record *rec, err *e)
{
    replay_request r = {.scale = f->scale, .n_new = (int)f->tokens, .temperature = f->temperature};
    TRY(engine_flags_resolve(&f->engine, a, &r.engine, e));
    if (!f->as_json)
        printf("%-18s %8s %8s %9s %7s %8s %6s\n", "request", "prompt", "cached", "first ms", "new",
               "tok/s", "/cycle");
    TRY(replay_run(&r, rec, f->as_json ? NULL : print_row, e));
    if (!f->as_json)
        print_end(rec);
    else
        TRY(print_json(&r, rec, e));
    return rec->is_same ? ERR_OK
                        : err_set(e, ERR_INVALID, "outputs", -1, "differ with the prompt cache");
}

int bench_agent_replay(int argc, char **argv)
{
    replay_flags f = {.scale = 1, .tokens = 64};
    option_row rows[ENGINE_FLAG_ROWS + 5];
    engine_flags_init(&f.engine, 1);
    int n = engine_flags_rows(&f.engine, rows);
    rows[n++] = (option_row){"scale",    OPTION_DOUBLE,
                             &f.scale,   .min = 0.001,
                             .max = 100, .help = "1: prompts of 14.5K tokens growing to 31.7K"};
    rows[n++] = (option_row){"tokens", OPTION_INT,    &f.tokens,
                             .min = 1, .max = 100000, .help = "length of an answer"};
    rows[n++] = (option_row){"temperature", OPTION_DOUBLE, &f.temperature,
                             .min = 0,      .max = 2,      .help = "of sampling; 0 is greedy"};
    rows[n++] = (option_row){"json", OPTION_FLAG, &f.as_json, .help = "print one JSON object"};
    rows[n] = (option_row){0};
    int code = bench_parse(rows, "usage: riptide bench agent-replay [flags]", argc, argv);
    if (code >= 0) return code;
    static replay_record rec;
    arena a;
    err e = {0};
    arena_init(&a, 0);
    status s = run(&f, &a, &rec, &e);
    arena_fini(&a);
    return s == ERR_OK ? 0 : bench_fail(argv[0], &e);
}
