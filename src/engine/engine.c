#include "engine/engine.h"

#include <string.h>

#include "base/mem.h"
#include "engine/engine_cache_priv.h"
#include "engine/engine_cycle.h"
#include "engine/engine_tokenizer.h"

enum { QUEUE_DEFAULT = 256 };

/* cycle_options.on_sizes: the ledger, before anything is allocated. */
static status plan_memory(void *ctx, const cycle_sizes *sizes, int64_t *n_blocks, err *out)
{
    engine *e = ctx;
    engine_options *o = &e->opt;
    o->n_lanes = sizes->n_slots;
    e->wish = engine_memory_wish(o, sizes);
    e->wish.n_blocks = o->kv_blocks;
    TRY(memory_plan_make(&e->wish, &e->memory, out));
    *n_blocks = e->memory.n_blocks;
    return ERR_OK;
}

/* Weights may have come out larger than their files. */
static status check_memory(const engine *e, err *out)
{
    cycle_memory m = cycle_bytes(e->cycle);
    int64_t taken = m.target.weights + m.target.scratch + m.target.states + m.target.kv +
                    m.draft_weights + m.draft_kv + m.draft_scratch;
    int64_t limit = e->opt.max_memory;
    taken += e->memory.turns;
    if (limit == 0 || taken + e->memory.cache <= limit) return ERR_OK;
    return err_set(
        out, ERR_NOMEM, "memory", -1,
        "takes %.0f MiB of %.0f: weights are %.0f MiB on this backend, in the files %.0f",
        (double)(taken + e->memory.cache) / 0x1p20, (double)limit / 0x1p20,
        (double)m.target.weights / 0x1p20, (double)e->memory.weights / 0x1p20);
}

static status open_parts(engine *e, err *out)
{
    engine_options *o = &e->opt;
    if (o->n_lanes < 0 || o->n_lanes > ENGINE_LANES_MAX)
        return err_set(out, ERR_INVALID, "lanes", -1, "%d, want 0 to %d", o->n_lanes,
                       ENGINE_LANES_MAX);
    if (o->queue_size == 0) o->queue_size = QUEUE_DEFAULT;
    if (o->decode_share < 0 || o->decode_share > 10)
        return err_set(out, ERR_INVALID, "decode-share", -1, "%g, want 0 to 10", o->decode_share);
    cycle_options c = engine_cycle_options(o);
    c.on_sizes = plan_memory;
    c.sizes_ctx = e;
    TRY(cycle_open(&e->cycle, &c, out));
    TRY(check_memory(e, out));
    const load_model *files = cycle_files(e->cycle);
    TRY(engine_tokenizer_open(&e->tok, files, out));
    TRY(engine_cache_open(e, out));
    int64_t turn_bytes = engine_turn_bytes(o);
    if (turn_bytes > 0) TRY(turn_memory_open(&e->turns, turn_bytes, out));
    e->width = cycle_max_draft(e->cycle);
    TRY(engine_open_widths(o, e->cycle, &e->widths, out));
    o->prefill_rows = cycle_prefill_rows(e->cycle);
    return ERR_OK;
}

static const char *last_component(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static policy defaults_of(const arch_sampling *s)
{
    policy p = policy_neutral();
    if (s->has_temperature) p.temperature = s->temperature;
    if (s->has_top_p) p.top_p = s->top_p;
    if (s->has_top_k) p.top_k = s->top_k;
    if (s->has_min_p) p.min_p = s->min_p;
    if (s->has_presence) p.presence = s->presence_penalty;
    if (s->has_repetition) p.repetition = s->repetition_penalty;
    return p;
}

static void fill_info(engine *e)
{
    const load_model *files = cycle_files(e->cycle);
    const backend *be = cycle_backend(e->cycle);
    cycle_memory mem = cycle_bytes(e->cycle);
    e->info = (engine_info){
        .model_name = files->name,
        .draft_name = e->opt.draft ? last_component(e->opt.draft) : NULL,
        .backend = be->name,
        .isa = be->isa,
        .format = files->format,
        .V = files->target.V,
        .n_layers = files->target.n_layers,
        .n_lanes = e->opt.n_lanes,
        .max_context = cycle_max_context(e->cycle),
        .max_draft = e->width,
        .eos = files->target.eos,
        .n_eos = files->target.n_eos,
        .chat_template = files->chat_template,
        .bos_token = files->bos_token,
        .eos_token = files->eos_token,
        .defaults = defaults_of(&files->sampling),
        .weight_bytes = mem.target.weights,
        .kv_bytes = mem.target.kv,
        .state_bytes = mem.target.states,
        .scratch_bytes = mem.target.scratch + mem.draft_scratch,
        .draft_bytes = mem.draft_weights,
        .draft_kv_bytes = mem.draft_kv,
        .cache_bytes = e->snapshots ? snapshots_bytes(e->snapshots) : 0,
        .turn_bytes = engine_turn_bytes(&e->opt),
        .memory_limit = e->memory.limit,
        .kv_tokens = cycle_n_blocks(e->cycle) * OPS_BLOCK,
        .load_ms = mem.load_ms,
        .load_bytes = mem.load_bytes,
    };
}

status engine_open(engine **out, const engine_options *o, err *err_out)
{
    engine *e = mem_new(sizeof *e);
    if (!e) return err_set(err_out, ERR_NOMEM, "engine", -1, "engine");
    e->opt = *o;
    e->next_id = 1;
    e->waiting_end = &e->waiting;
    mutex_init(&e->lock);
    mutex_init(&e->constraint_lock);
    cond_init(&e->wake);
    status s = open_parts(e, err_out);
    if (s != ERR_OK) {
        engine_close(e);
        return s;
    }
    fill_info(e);
    e->counts_row = mem_new_array((size_t)e->info.V, sizeof *e->counts_row);
    if (!e->counts_row) {
        engine_close(e);
        return err_set(err_out, ERR_NOMEM, "engine", -1, "counts of %d tokens", e->info.V);
    }
    *out = e;
    return ERR_OK;
}

sequence *engine_pop_waiting(engine *e)
{
    mutex_lock(&e->lock);
    sequence *s = e->waiting;
    if (s) {
        e->waiting = s->next;
        if (!e->waiting) e->waiting_end = &e->waiting;
        e->n_waiting--;
    }
    mutex_unlock(&e->lock);
    return s;
}

static void finish_everything(engine *e)
{
    for (int i = 0; i < ENGINE_LANES_MAX; i++)
        if (e->lanes[i]) engine_finish_sequence(e, e->lanes[i], ENGINE_CANCELED, NULL);
    for (sequence *s; (s = engine_pop_waiting(e)) != NULL;)
        engine_finish_sequence(e, s, ENGINE_CANCELED, NULL);
}

void engine_close(engine *e)
{
    if (!e) return;
    engine_stop(e);
    finish_everything(e);
    engine_cache_close(e);
    turn_memory_close(e->turns);
    constraint_vocab_close(e->constraints);
    tokenizer_close(e->tok);
    cycle_close(e->cycle);
    mem_free(e->widths);
    mem_free(e->counts_row);
    cond_fini(&e->wake);
    mutex_fini(&e->lock);
    mutex_fini(&e->constraint_lock);
    mem_free(e);
}

const engine_info *engine_about(const engine *e)
{
    return &e->info;
}

const tokenizer *engine_tokenizer(const engine *e)
{
    return e->tok;
}

turn_memory *engine_turns(const engine *e)
{
    return e->turns;
}

static status check_request(const engine *e, const engine_request *r, policy *p, err *err_out)
{
    int V = e->info.V;
    if (r->n_ids < 1) return err_set(err_out, ERR_INVALID, "prompt", -1, "no tokens");
    if (r->n < 1 || r->n > 64)
        return err_set(err_out, ERR_INVALID, "n", -1, "%d, want 1 to 64", r->n);
    if (r->n > e->opt.queue_size + e->opt.n_lanes)
        return err_set(err_out, ERR_INVALID, "n", -1, "%d, this engine takes at most %d at a time",
                       r->n, e->opt.queue_size + e->opt.n_lanes);
    if (r->max_tokens < 0)
        return err_set(err_out, ERR_INVALID, "max_tokens", -1, "%lld, want >= 1",
                       (long long)r->max_tokens);
    if (r->n_ids >= e->info.max_context)
        return err_set(err_out, ERR_LIMIT, "context_length_exceeded", -1,
                       "the prompt has %d tokens, the context holds %lld", r->n_ids,
                       (long long)e->info.max_context);
    if (r->grammar && r->policy.ignore_eos)
        return err_set(err_out, ERR_INVALID, "ignore_eos", -1,
                       "an answer with a grammar ends where the grammar does");
    if (r->has_reasoning_limit && r->reasoning_most < 0)
        return err_set(err_out, ERR_INVALID, "reasoning_most", -1, "%lld, want >= 0",
                       (long long)r->reasoning_most);
    if (r->n_scores < 0 || (r->n_scores > 0 && (r->n != 1 || r->grammar)))
        return err_set(err_out, ERR_INVALID, "scores", -1, "are of one choice without a grammar");
    for (int i = 0; i < r->n_scores; i++)
        if (r->score_ids[i] < 0 || r->score_ids[i] >= V)
            return err_set(err_out, ERR_INVALID, "scores", i, "token id %d is not below %d",
                           (int)r->score_ids[i], V);
    for (int i = 0; i < r->n_ids; i++)
        if (r->ids[i] < 0 || r->ids[i] >= V)
            return err_set(err_out, ERR_INVALID, "prompt", i, "token id %d is not below %d",
                           (int)r->ids[i], V);
    return policy_check(p, V, err_out);
}

static void free_list(sequence *s)
{
    while (s) {
        sequence *next = s->next;
        sequence_free(s);
        s = next;
    }
}

/* All choices of a request as a list, or nothing. */
static status make_choices(engine *e, request *r, int n, sequence **first, sequence ***end,
                           err *err_out)
{
    sequence *head = NULL, **at = &head;
    for (int i = 0; i < n; i++) {
        status s = sequence_new(at, r, i, tokenizer_vocab(e->tok), err_out);
        if (s == ERR_OK) s = engine_constrain(e, *at, err_out);
        if (s != ERR_OK) {
            free_list(head);
            return s;
        }
        at = &(*at)->next;
    }
    *first = head;
    *end = at;
    return ERR_OK;
}

status engine_submit(engine *e, const engine_request *from, uint64_t *id, err *err_out)
{
    engine_request r = *from;
    TRY(check_request(e, from, &r.policy, err_out));
    int64_t room = e->info.max_context - r.n_ids;
    int64_t max_tokens = r.max_tokens == 0 || r.max_tokens > room ? room : r.max_tokens;
    if (r.n_scores > 0) max_tokens = 1;
    request *req = NULL;
    sequence *first = NULL, **end = NULL;
    TRY(request_new(&req, &r, max_tokens, err_out));
    status s = make_choices(e, req, r.n, &first, &end, err_out);
    if (s != ERR_OK) {
        request_free(req);
        return s;
    }
    req->n_left = r.n;

    mutex_lock(&e->lock);
    if (e->broken.code != ERR_OK) {
        s = e->broken.code;
        if (err_out) *err_out = e->broken;
    } else if (e->n_waiting + r.n > e->opt.queue_size + e->opt.n_lanes) {
        s = err_set(err_out, ERR_LIMIT, "queue", -1, "%d choices are waiting", e->n_waiting);
    } else {
        *id = req->id = e->next_id++;
        req->next = e->requests;
        e->requests = req;
        *e->waiting_end = first;
        e->waiting_end = end;
        e->n_waiting += r.n;
        e->count.submitted += r.n;
        cond_signal(&e->wake);
    }
    mutex_unlock(&e->lock);
    if (s != ERR_OK) {
        free_list(first);
        request_free(req);
    }
    return s;
}

void engine_cancel(engine *e, uint64_t id)
{
    mutex_lock(&e->lock);
    for (request *r = e->requests; r; r = r->next)
        if (r->id == id) atomic_store(&r->is_canceled, true);
    cond_signal(&e->wake);
    mutex_unlock(&e->lock);
}

bool engine_step(engine *e)
{
    return engine_run_step(e);
}

static void *run(void *arg)
{
    engine *e = arg;
    for (;;) {
        bool worked = engine_run_step(e);
        mutex_lock(&e->lock);
        bool stops = e->is_stopping;
        if (!worked && !stops && !e->waiting) cond_wait(&e->wake, &e->lock);
        mutex_unlock(&e->lock);
        if (stops) return NULL;
    }
}

status engine_start(engine *e, err *err_out)
{
    e->is_stopping = false;
    return thread_start(&e->worker, "engine", run, e, err_out);
}

void engine_stop(engine *e)
{
    mutex_lock(&e->lock);
    e->is_stopping = true;
    cond_signal(&e->wake);
    mutex_unlock(&e->lock);
    thread_join(&e->worker);
}

engine_counters engine_stats(engine *e)
{
    mutex_lock(&e->lock);
    engine_counters c = e->count;
    c.n_waiting = e->n_waiting;
    mutex_unlock(&e->lock);
    if (e->turns) c.turns = turn_memory_stats(e->turns);
    return c;
}
