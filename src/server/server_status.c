/* GET /status and /metrics: what the server and its engine count, as JSON for people and in
 * Prometheus' text form. One table feeds both. */
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
ABOUT(n_lanes)
ABOUT(max_context)
ABOUT(weight_bytes)
ABOUT(draft_bytes)
ABOUT(kv_bytes)
ABOUT(draft_kv_bytes)
ABOUT(state_bytes)
ABOUT(cache_bytes)
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
    {"scheduler", "waiting", NOW, "answers that wait for a lane", get_n_waiting},
    {"scheduler", "running", NOW, "answers that have one", get_n_running},
    {"scheduler", "lanes", NOW, "answers that can run at a time", get_n_lanes},
    {"scheduler", "context", NOW, "most tokens of one answer and its prompt", get_max_context},
    {"tokens", "prompt", EVER, "prompt tokens of answers that ended", get_prompt_tokens},
    {"tokens", "completion", EVER, "tokens made for them", get_completion_tokens},
    {"decode", "cycles", EVER, "decode cycles of answers that ended", get_cycles},
    {"decode", "drafted", EVER, "tokens that the draft proposed", get_drafted},
    {"decode", "accepted", EVER, "of these, right ones", get_accepted},
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
    {"memory", "weight_bytes", NOW, "weights of the model", get_weight_bytes},
    {"memory", "draft_bytes", NOW, "weights of the draft", get_draft_bytes},
    {"memory", "kv_bytes", NOW, "keys and values of the model", get_kv_bytes},
    {"memory", "draft_kv_bytes", NOW, "keys and values of the draft", get_draft_kv_bytes},
    {"memory", "state_bytes", NOW, "states of the lanes", get_state_bytes},
    {"memory", "cache_bytes", NOW, "kept states", get_cache_bytes},
    {"memory", "scratch_bytes", NOW, "work buffers", get_scratch_bytes},
    {"http", "connections", NOW, "open connections", get_n_conns},
    {"http", "requests", EVER, "requests whose head was read", get_n_requests},
    {"http", "generations", NOW, "requests for text under way", get_generations},
    {"http", "body_bytes", NOW, "bytes of request bodies held", get_body_bytes},
    {"http", "unsent_bytes", NOW, "bytes of answers not yet sent", get_unsent_bytes},
};
enum { N_METRICS = sizeof metrics / sizeof *metrics };

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
    conn_reply_buf(c, 200, "text/plain; version=0.0.4; charset=utf-8", &b);
    buf_fini(&b);
}
