/* riptide bench soak. */
#include <stdio.h>

#include "bench/bench_priv.h"
#include "bench/soak_priv.h"
#include "engine/engine_flags.h"

typedef struct {
    engine_flags engine;
    double seconds;
    int64_t clients, longest, seed;
} soak_flags;

static void print_second(const engine_counters *c, int64_t rss)
{
    printf("%lld finished, %lld canceled, %d running, %d waiting; %lld suspended, %lld blocks and "
           "%lld states evicted; %.0f MiB\n",
           (long long)c->finished, (long long)c->canceled, c->n_running, c->n_waiting,
           (long long)c->suspensions, (long long)c->cache.evicted_blocks,
           (long long)c->cache.evicted_states, (double)rss / 0x1p20);
    fflush(stdout);
}

static void print_record(const soak_record *r)
{
    const engine_tally *t = &r->count.tally;
    printf("%lld requests, %lld canceled, %lld wrong, %lld failed, %lld stuck; %lld prompt tokens, "
           "%lld tokens\n",
           (long long)r->n_done, (long long)r->n_canceled, (long long)r->n_wrong,
           (long long)r->n_failed, (long long)r->n_stuck, (long long)r->n_prompt_tokens,
           (long long)r->n_tokens);
    printf("memory %.1f MiB after a fifth, %.1f at the end; allocations %lld before, %lld after; "
           "blocks %s\n",
           (double)r->rss_early / 0x1p20, (double)r->rss_late / 0x1p20, (long long)r->n_live_before,
           (long long)r->n_live_after, r->blocks_add_up ? "add up" : "DO NOT ADD UP");
    printf("%lld suspensions, %lld hits of %lld\n", (long long)r->count.suspensions,
           (long long)r->count.cache.hits, (long long)r->count.cache.lookups);
    printf("first token within %.0f ms for half, within %.0f for 95 %%\n",
           histogram_quantile(&t->first_token, 0.5), histogram_quantile(&t->first_token, 0.95));
    if (r->first_wrong[0]) printf("first wrong: %s\n", r->first_wrong);
    printf("%s\n", soak_passed(r) ? "passed" : "FAILED");
}

int bench_soak(int argc, char **argv)
{
    soak_flags f = {.seconds = 60, .clients = 32, .longest = 1500, .seed = 1};
    option_row rows[ENGINE_FLAG_ROWS + 5];
    engine_flags_init(&f.engine, 8);
    f.engine.max_context = 2048;
    int n = engine_flags_rows(&f.engine, rows);
    rows[n++] = (option_row){"seconds", OPTION_DOUBLE, &f.seconds,
                             .min = 1,  .max = 1e7,    .help = "how long; 1800 for the real thing"};
    rows[n++] = (option_row){"clients", OPTION_INT, &f.clients,
                             .min = 1,  .max = 64,  .help = "requests under way at a time"};
    rows[n++] = (option_row){"longest", OPTION_INT,     &f.longest,
                             .min = 16, .max = 1 << 20, .help = "most tokens of a prompt"};
    rows[n++] = (option_row){"seed",   OPTION_INT,  &f.seed,
                             .min = 0, .max = 1e15, .help = "of the random choices"};
    rows[n] = (option_row){0};
    int code = bench_parse(rows, "usage: riptide bench soak [flags]", argc, argv);
    if (code >= 0) return code;
    soak_request r = {.n_clients = (int)f.clients,
                      .seconds = f.seconds,
                      .longest = (int)f.longest,
                      .seed = (uint64_t)f.seed,
                      .on_second = print_second};
    soak_record rec;
    arena a;
    err e = {0};
    arena_init(&a, 0);
    status s = engine_flags_resolve(&f.engine, &a, &r.engine, &e);
    if (s == ERR_OK) s = soak_run(&r, &rec, &e);
    arena_fini(&a);
    if (s != ERR_OK) return bench_fail(argv[0], &e);
    print_record(&rec);
    return !soak_passed(&rec);
}
