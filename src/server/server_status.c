/* GET /status and /metrics: what the server and its engine count, as JSON for people and in
 * Prometheus' text form. One table feeds both. */
#include <math.h>
#include <stddef.h>

#include "base/json.h"
#include "build_id.h"
#include "server/endpoint_priv.h"

typedef struct {
    engine_counters e;
    const server *s;
} counts;

typedef struct {
    const char *group, *name; /* riptide_GROUP_NAME in metrics */
    bool is_counter;          /* only grows; else it is what there is now */
    const char *help;
    int64_t (*get)(const counts *c);
} metric;

#define ENGINE(field)                           \
    static int64_t get_##field(const counts *c) \
    {                                           \
        return c->e.field;                      \
    }
#define CACHE(field)                                  \
    static int64_t get_cache_##field(const counts *c) \
    {                                                 \
        return c->e.cache.field;                      \
    }
#define TURNS(field)                                  \
    static int64_t get_turns_##field(const counts *c) \
    {                                                 \
        return c->e.turns.field;                      \
    }
#define ABOUT(field)                            \
    static int64_t get_##field(const counts *c) \
    {                                           \
        return c->s->about->field;              \
    }
#define HTTP(field)                             \
    static int64_t get_##field(const counts *c) \
    {                                           \
        return (int64_t)c->s->listener.field;   \
    }

ENGINE(submitted)
ENGINE(finished)
ENGINE(canceled)
ENGINE(failed)
ENGINE(n_waiting)
ENGINE(n_running)
ENGINE(prompt_tokens)
ENGINE(completion_tokens)
ENGINE(cycles)
ENGINE(drafted)
ENGINE(accepted)
ENGINE(captures)
ENGINE(suspensions)
ENGINE(recomputed)
CACHE(lookups)
CACHE(hits)
CACHE(reused_tokens)
CACHE(stopped_at_end)
CACHE(stopped_by_tokens)
CACHE(no_state)
CACHE(waits)
CACHE(evicted_blocks)
CACHE(evicted_states)
CACHE(evicted_windows)
CACHE(clears)
CACHE(n_blocks)
CACHE(n_free_blocks)
CACHE(n_cached_blocks)
CACHE(n_held_blocks)
CACHE(n_states)
CACHE(n_kept_states)
TURNS(n_turns)
TURNS(n_bytes)
TURNS(kept)
TURNS(used)
TURNS(used_tokens)
TURNS(evicted)
ABOUT(n_lanes)
ABOUT(max_context)
ABOUT(weight_bytes)
ABOUT(draft_bytes)
ABOUT(kv_bytes)
ABOUT(draft_kv_bytes)
ABOUT(state_bytes)
ABOUT(cache_bytes)
ABOUT(turn_bytes)
ABOUT(scratch_bytes)
HTTP(n_conns)
HTTP(n_requests)
HTTP(body_bytes)
HTTP(unsent_bytes)

static int64_t get_generations(const counts *c)
{
    return c->s->n_generations;
}

enum { NOW, EVER };
static const metric metrics[] = {
    {"requests", "submitted", EVER, "answers that were queued", get_submitted},
    {"requests", "finished", EVER, "answers that ended, however", get_finished},
    {"requests", "canceled", EVER, "of these, because the client left", get_canceled},
    {"requests", "failed", EVER, "of these, by a failure of the engine", get_failed},
    {"requests", "suspensions", EVER, "times that an answer gave way and went on later",
     get_suspensions},
    {"requests", "recomputed", EVER, "answers whose numbers were none and were computed again",
     get_recomputed},
    {"scheduler", "waiting", NOW, "answers that wait for a lane", get_n_waiting},
    {"scheduler", "running", NOW, "answers that have one", get_n_running},
    {"scheduler", "lanes", NOW, "answers that can run at a time", get_n_lanes},
    {"scheduler", "context", NOW, "most tokens of one answer and its prompt", get_max_context},
    {"tokens", "prompt", EVER, "prompt tokens of answers that ended", get_prompt_tokens},
    {"tokens", "completion", EVER, "tokens made for them", get_completion_tokens},
    {"decode", "cycles", EVER, "decode cycles of answers that ended", get_cycles},
    {"decode", "drafted", EVER, "tokens that the draft proposed", get_drafted},
    {"decode", "accepted", EVER, "of these, right ones", get_accepted},
    {"decode", "captures", EVER, "graphs that were captured of cycles", get_captures},
    {"cache", "lookups", EVER, "prompts looked up in the cache", get_cache_lookups},
    {"cache", "hits", EVER, "of these, with something found", get_cache_hits},
    {"cache", "reused_tokens", EVER, "prompt tokens taken over", get_cache_reused_tokens},
    {"cache", "stopped_at_end", EVER, "lookups that found everything", get_cache_stopped_at_end},
    {"cache", "stopped_by_tokens", EVER, "lookups that met new tokens",
     get_cache_stopped_by_tokens},
    {"cache", "stopped_without_state", EVER, "lookups that met known tokens without a state",
     get_cache_no_state},
    {"cache", "waits", EVER, "answers that waited for a prefix under way", get_cache_waits},
    {"cache", "evicted_blocks", EVER, "blocks given up for room", get_cache_evicted_blocks},
    {"cache", "evicted_states", EVER, "states given up for room", get_cache_evicted_states},
    {"cache", "evicted_windows", EVER, "draft windows given up for room",
     get_cache_evicted_windows},
    {"cache", "clears", EVER, "times all was given up after a failure", get_cache_clears},
    {"cache", "blocks", NOW, "blocks of 64 tokens that there are", get_cache_n_blocks},
    {"cache", "free_blocks", NOW, "blocks without content", get_cache_n_free_blocks},
    {"cache", "cached_blocks", NOW, "blocks that a prompt could take over",
     get_cache_n_cached_blocks},
    {"cache", "held_blocks", NOW, "blocks of running answers", get_cache_n_held_blocks},
    {"cache", "states", NOW, "places for kept states", get_cache_n_states},
    {"cache", "kept_states", NOW, "of these, in use", get_cache_n_kept_states},
    {"turns", "remembered", NOW, "answers that are known as they were generated",
     get_turns_n_turns},
    {"turns", "bytes", NOW, "bytes that those take", get_turns_n_bytes},
    {"turns", "kept", EVER, "answers that were remembered", get_turns_kept},
    {"turns", "used", EVER, "answers that came back and were known", get_turns_used},
    {"turns", "used_tokens", EVER, "tokens of those", get_turns_used_tokens},
    {"turns", "evicted", EVER, "answers that were forgotten for room", get_turns_evicted},
    {"memory", "weight_bytes", NOW, "weights of the model", get_weight_bytes},
    {"memory", "draft_bytes", NOW, "weights of the draft", get_draft_bytes},
    {"memory", "kv_bytes", NOW, "keys and values of the model", get_kv_bytes},
    {"memory", "draft_kv_bytes", NOW, "keys and values of the draft", get_draft_kv_bytes},
    {"memory", "state_bytes", NOW, "states of the lanes", get_state_bytes},
    {"memory", "cache_bytes", NOW, "kept states", get_cache_bytes},
    {"memory", "turn_bytes", NOW, "answers as they were generated, at most", get_turn_bytes},
    {"memory", "scratch_bytes", NOW, "work buffers", get_scratch_bytes},
    {"http", "connections", NOW, "open connections", get_n_conns},
    {"http", "requests", EVER, "requests whose head was read", get_n_requests},
    {"http", "generations", NOW, "requests for text under way", get_generations},
    {"http", "body_bytes", NOW, "bytes of request bodies held", get_body_bytes},
    {"http", "unsent_bytes", NOW, "bytes of answers not yet sent", get_unsent_bytes},
};
enum { N_METRICS = sizeof metrics / sizeof *metrics };

typedef struct {
    const char *name, *help; /* riptide_NAME_seconds */
    size_t offset;           /* of its histogram in engine_tally */
} latency;

#define TALLY(field) offsetof(engine_tally, field)
static const latency latencies[] = {
    {"queue", "from a request's submission to its lane", TALLY(queue)},
    {"first_token", "from a request's submission to its first token", TALLY(first_token)},
    {"token", "between tokens of an answer", TALLY(token)},
    {"prompt_step", "steps that compute prompts", TALLY(slice)},
    {"cycle", "decode cycles of all lanes", TALLY(cycle)},
};
enum { N_LATENCIES = sizeof latencies / sizeof *latencies };

static const histogram *find_histogram(const counts *k, const latency *l)
{
    return (const histogram *)((const char *)&k->e.tally + l->offset);
}

static counts count(const server *s)
{
    return (counts){.e = engine_stats(s->engine), .s = s};
}

static bool is_ready(const server *s)
{
    return !s->is_broken && s->n_stops == 0;
}

static void put_text(json_writer *w, const char *key, const char *text)
{
    json_key(w, key);
    if (text)
        json_c_string(w, text);
    else
        json_null(w);
}

/* Milliseconds, for people: the bounds of the classes in which the median and the slowest
 * hundredth lie; null where that is the open one. */
static void put_latencies(json_writer *w, const counts *k)
{
    static const struct {
        const char *name;
        double q;
    } shown[] = {{"p50", 0.5}, {"p99", 0.99}};
    json_key(w, "latency_ms");
    json_open_object(w);
    for (int i = 0; i < N_LATENCIES; i++) {
        const histogram *h = find_histogram(k, &latencies[i]);
        json_key(w, latencies[i].name);
        json_open_object(w);
        json_key(w, "n");
        json_int(w, h->n);
        json_key(w, "mean");
        json_double(w, h->n > 0 ? h->sum_ms / (double)h->n : 0);
        for (int j = 0; j < 2; j++) {
            double bound = histogram_quantile(h, shown[j].q);
            json_key(w, shown[j].name);
            if (isfinite(bound))
                json_double(w, bound);
            else
                json_null(w);
        }
        json_close_object(w);
    }
    json_close_object(w);
}

void endpoint_status(server *s, conn *c)
{
    counts k = count(s);
    buf b;
    json_writer w;
    const char *group = NULL;
    buf_init(&b);
    json_writer_init(&w, &b);
    json_open_object(&w);
    json_key(&w, "ready");
    json_bool(&w, is_ready(s));
    put_text(&w, "model", s->about->model_name);
    put_text(&w, "draft_model", s->about->draft_name);
    put_text(&w, "backend", s->about->backend);
    put_text(&w, "isa", s->about->isa);
    put_text(&w, "format", s->about->format);
    put_text(&w, "build", RIPTIDE_BUILD_ID);
    json_key(&w, "started_at");
    json_int(&w, s->created_s);
    for (int i = 0; i < N_METRICS; i++) { /* rows of a group stand together */
        if (!group || strcmp(group, metrics[i].group) != 0) {
            if (group) json_close_object(&w);
            group = metrics[i].group;
            json_key(&w, group);
            json_open_object(&w);
        }
        json_key(&w, metrics[i].name);
        json_int(&w, metrics[i].get(&k));
    }
    json_close_object(&w);
    put_latencies(&w, &k);
    json_close_object(&w);
    conn_reply_buf(c, 200, NULL, &b);
    buf_fini(&b);
}

/* A label's value: backslash, quote and line break are escaped. */
static void put_label(buf *b, const char *text)
{
    for (const char *p = text ? text : ""; *p; p++) {
        if (*p == '\\' || *p == '"') buf_put_byte(b, '\\');
        if (*p == '\n')
            buf_put_c(b, "\\n");
        else
            buf_put_byte(b, *p);
    }
}

/* Classes of Prometheus count all below them too, in seconds. */
static void put_histogram(buf *b, const latency *l, const histogram *h)
{
    int64_t below = 0;
    buf_printf(b, "# HELP riptide_%s_seconds %s\n# TYPE riptide_%s_seconds histogram\n", l->name,
               l->help, l->name);
    for (int i = 0; i < HISTOGRAM_CLASSES; i++) {
        below += h->count[i];
        if (i < HISTOGRAM_CLASSES - 1)
            buf_printf(b, "riptide_%s_seconds_bucket{le=\"%g\"} %lld\n", l->name,
                       histogram_bounds[i] / 1000, (long long)below);
    }
    buf_printf(b,
               "riptide_%s_seconds_bucket{le=\"+Inf\"} %lld\nriptide_%s_seconds_sum %.6f\n"
               "riptide_%s_seconds_count %lld\n",
               l->name, (long long)below, l->name, h->sum_ms / 1000, l->name, (long long)h->n);
}

static void put_widths(buf *b, const engine_tally *t)
{
    buf_put_c(b, "# HELP riptide_cycle_proposals_total lanes of decode cycles by the number of "
                 "tokens proposed\n# TYPE riptide_cycle_proposals_total counter\n");
    for (int i = 0; i < ENGINE_WIDTHS; i++)
        buf_printf(b, "riptide_cycle_proposals_total{proposals=\"%d\"} %lld\n", i,
                   (long long)t->widths[i]);
}

void endpoint_metrics(server *s, conn *c)
{
    counts k = count(s);
    buf b;
    buf_init(&b);
    buf_put_c(&b, "# HELP riptide_info what is served\n# TYPE riptide_info gauge\n"
                  "riptide_info{model=\"");
    put_label(&b, s->about->model_name);
    buf_put_c(&b, "\",draft=\"");
    put_label(&b, s->about->draft_name);
    buf_put_c(&b, "\",backend=\"");
    put_label(&b, s->about->backend);
    buf_put_c(&b, "\",build=\"" RIPTIDE_BUILD_ID "\"} 1\n");
    buf_printf(&b,
               "# HELP riptide_ready whether requests are taken\n# TYPE riptide_ready gauge\n"
               "riptide_ready %d\n",
               is_ready(s));
    for (int i = 0; i < N_METRICS; i++) {
        const metric *m = &metrics[i];
        const char *end = m->is_counter ? "_total" : "";
        buf_printf(
            &b, "# HELP riptide_%s_%s%s %s\n# TYPE riptide_%s_%s%s %s\nriptide_%s_%s%s %lld\n",
            m->group, m->name, end, m->help, m->group, m->name, end,
            m->is_counter ? "counter" : "gauge", m->group, m->name, end, (long long)m->get(&k));
    }
    for (int i = 0; i < N_LATENCIES; i++)
        put_histogram(&b, &latencies[i], find_histogram(&k, &latencies[i]));
    put_widths(&b, &k.e.tally);
    conn_reply_buf(c, 200, "text/plain; version=0.0.4; charset=utf-8", &b);
    buf_fini(&b);
}
