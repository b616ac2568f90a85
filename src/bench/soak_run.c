#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/ops.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "bench/client_priv.h"
#include "bench/soak_priv.h"

enum { KINDS = 24, NEW_MAX = 256, CLIENTS_MAX = 64, STUCK_S = 300 };

/* One kind of request, and what it must bring. */
typedef struct {
    const int32_t *ids;
    int n_ids, n_new;
    bool is_sampled, has_penalties;
    int32_t want[NEW_MAX];
} kind;

/* A request under way: the engine's thread writes until is_done. */
typedef struct {
    const kind *kind;
    int32_t ids[NEW_MAX];
    int n;
    engine_finish reason;
    err failure;
    atomic_bool is_done;
    bool is_busy, is_canceled;
    uint64_t id;
    int64_t start_ns;
    int64_t cancel_ns; /* when to; 0 = not */
} client;

typedef struct {
    const soak_request *r;
    soak_record *out;
    engine *en;
    token_ids text;
    uint64_t n_random;
    kind kinds[KINDS];
    client clients[CLIENTS_MAX];
} soak;

static uint64_t random_next(soak *k)
{
    return rng_mix64(k->r->seed + ++k->n_random * 0x9e3779b97f4a7c15ULL);
}

static int random_below(soak *k, int n)
{
    return (int)(random_next(k) % (uint64_t)n);
}

static void on_event(void *ctx, const engine_event *ev)
{
    client *c = ctx;
    for (int i = 0; i < ev->n_ids && c->n < NEW_MAX; i++) c->ids[c->n++] = ev->ids[i];
    if (ev->kind != ENGINE_FINISH) return;
    c->reason = ev->reason;
    if (ev->error) c->failure = *ev->error;
    atomic_store(&c->is_done, true);
}

static status submit(soak *k, client *c, const kind *a, err *e)
{
    *c = (client){.kind = a, .is_busy = true, .start_ns = clock_ns()};
    engine_request q = {.ids = a->ids,
                        .n_ids = a->n_ids,
                        .max_tokens = a->n_new,
                        .policy = policy_neutral(),
                        .n = 1,
                        .on_event = on_event,
                        .ctx = c};
    q.policy.temperature = a->is_sampled ? 0.8 : 0;
    q.policy.presence = a->has_penalties ? 0.5 : 0;
    q.policy.seed = 5;
    q.policy.ignore_eos = true;
    return engine_submit(k->en, &q, &c->id, e);
}

/* ---- what is asked for ---- */

/* Lengths of all sizes; some prompts share their beginning, some begin on their own. */
static status make_kinds(soak *k, err *e)
{
    engine_options o = k->r->engine;
    o.n_lanes = 1;
    o.draft = NULL;
    o.cache_bytes = -1;
    o.kv_blocks = 0;
    TRY(engine_open(&k->en, &o, e));
    TRY(client_text(engine_tokenizer(k->en), k->r->longest + KINDS * 64, &k->text, e));
    for (int i = 0; i < KINDS; i++) {
        kind *a = &k->kinds[i];
        int most = i % 3 == 0 ? k->r->longest : k->r->longest / 8 + 1;
        a->n_ids = 1 + random_below(k, most);
        a->ids = k->text.ptr + (i % 2 ? i * 64 : 0);
        a->n_new = i % 4 == 1 ? NEW_MAX - random_below(k, 64) : 1 + random_below(k, 48);
        a->is_sampled = random_below(k, 2);
        a->has_penalties = random_below(k, 4) == 0;
        client *c = &k->clients[0];
        TRY(submit(k, c, a, e));
        while (engine_step(k->en)) continue;
        if (c->n != a->n_new || c->failure.code != ERR_OK)
            return err_set(e, ERR_INVALID, "soak", -1, "the plain engine gave %d of %d tokens",
                           c->n, a->n_new);
        memcpy(a->want, c->ids, sizeof a->want);
        c->is_busy = false;
    }
    engine_close(k->en);
    k->en = NULL;
    return ERR_OK;
}

/* ---- what came ---- */

static void judge(soak *k, client *c)
{
    soak_record *out = k->out;
    bool is_right = memcmp(c->ids, c->kind->want, (size_t)c->n * sizeof *c->ids) == 0;
    if (c->reason == ENGINE_FAILED)
        out->n_failed++;
    else if (c->reason == ENGINE_CANCELED)
        out->n_canceled++;
    else
        is_right = is_right && c->n == c->kind->n_new;
    if (c->reason == ENGINE_CANCELED && !c->is_canceled) is_right = false;
    out->n_done++;
    out->n_wrong += !is_right;
    out->n_tokens += c->n;
    out->n_prompt_tokens += c->kind->n_ids;
    if (!is_right && !out->first_wrong[0])
        snprintf(out->first_wrong, sizeof out->first_wrong,
                 "kind %d: %d of %d tokens, reason %d, %s", (int)(c->kind - k->kinds), c->n,
                 c->kind->n_new, (int)c->reason, c->failure.msg);
    c->is_busy = false;
}

/* Bytes of this process in memory. */
static int64_t resident(void)
{
    long long size = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "rb");
    if (!f) return 0;
    if (fscanf(f, "%lld %lld", &size, &pages) != 2) pages = 0;
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

/* One look at every client. Returns how many are busy. */
static int attend(soak *k, bool submits, err *e)
{
    int n_busy = 0;
    for (int i = 0; i < k->r->n_clients && e->code == ERR_OK; i++) {
        client *c = &k->clients[i];
        if (c->is_busy && atomic_load(&c->is_done)) judge(k, c);
        if (!c->is_busy && submits) {
            if (submit(k, c, &k->kinds[random_below(k, KINDS)], e) != ERR_OK) c->is_busy = false;
            if (random_below(k, 4) == 0)
                c->cancel_ns = c->start_ns + random_below(k, 400) * (int64_t)1000000;
        }
        n_busy += c->is_busy;
        if (c->cancel_ns && clock_ns() > c->cancel_ns) {
            c->cancel_ns = 0;
            c->is_canceled = true;
            engine_cancel(k->en, c->id);
        }
    }
    return n_busy;
}

static void nap(void)
{
    struct timespec t = {0, 1000000};
    nanosleep(&t, NULL);
}

/* Time since the last call. A process that was held (SIGSTOP, a machine asleep) was not at work: of
 * a long pause only a second counts. */
static double awake_s(int64_t *last_ns)
{
    int64_t now = clock_ns();
    double s = (double)(now - *last_ns) * 1e-9;
    *last_ns = now;
    return s < 1 ? s : 1;
}

/* The clients' work; returns when it is over and nothing is under way, or something is stuck. */
static status run_clients(soak *k, err *e)
{
    const soak_request *r = k->r;
    *e = (err){0}; /* what opening has left there */
    int64_t last_ns = clock_ns(), last_done = 0;
    double s = 0, told_s = 0, done_s = 0; /* of this work; when it last told, and saw one done */
    for (bool is_over = false;; nap()) {
        s += awake_s(&last_ns);
        double part = r->seconds > 0 ? s / r->seconds
                                     : (double)k->out->n_done / (double)r->n_requests;
        is_over = is_over || part >= 1;
        int n_busy = attend(k, !is_over, e);
        if (e->code != ERR_OK) return e->code;
        if (part < 0.2) k->out->rss_early = resident();
        if (is_over && n_busy == 0) break;
        if (k->out->n_done != last_done) done_s = s;
        last_done = k->out->n_done;
        if (s - done_s > STUCK_S) {
            k->out->n_stuck = n_busy;
            break;
        }
        if (!r->on_second || s - told_s < 10) continue;
        engine_counters c = engine_stats(k->en);
        r->on_second(&c, resident());
        told_s = s;
    }
    k->out->rss_late = resident();
    return ERR_OK;
}

static status run(soak *k, err *e)
{
    engine_options o = k->r->engine;
    int64_t context = (o.max_context + OPS_BLOCK - 1) / OPS_BLOCK;
    TRY(make_kinds(k, e));
    if (o.kv_blocks == 0) o.kv_blocks = context + 2;
    o.queue_size = k->r->n_clients;
    TRY(engine_open(&k->en, &o, e));
    const engine_info *a = engine_about(k->en);
    k->out->ledger_bytes = a->kv_bytes + a->cache_bytes + a->state_bytes + a->scratch_bytes;
    TRY(engine_start(k->en, e));
    TRY(run_clients(k, e));
    engine_stop(k->en);
    engine_step(k->en); /* the counters of the last */
    engine_counters c = k->out->count = engine_stats(k->en);
    k->out->blocks_add_up = c.cache.n_held_blocks == 0 && c.n_running + c.n_waiting == 0 &&
                            c.cache.n_free_blocks + c.cache.n_cached_blocks == c.cache.n_blocks;
    return ERR_OK;
}

status soak_run(const soak_request *r, soak_record *out, err *e)
{
    *out = (soak_record){0};
    out->n_live_before = mem_count().n_live;
    soak *k = mem_new(sizeof *k);
    if (!k) return err_set(e, ERR_NOMEM, "soak", -1, "clients");
    k->r = r;
    k->out = out;
    status s = run(k, e);
    engine_close(k->en);
    token_ids_fini(&k->text);
    mem_free(k);
    out->n_live_after = mem_count().n_live;
    return s;
}

bool soak_passed(const soak_record *r)
{
    enum {
        WARM = 2000
    }; /* requests; before, memory of the plan may be touched for the first time */
    int64_t allowed = r->rss_early / 50 + (16 << 20) + (r->n_done < WARM ? r->ledger_bytes : 0);
    return r->n_done > 0 && r->n_wrong == 0 && r->n_failed == 0 && r->n_stuck == 0 &&
           r->blocks_add_up && r->n_live_before == r->n_live_after &&
           r->rss_late <= r->rss_early + allowed;
}
