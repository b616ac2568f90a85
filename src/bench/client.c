#include "bench/client_priv.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"

static void on_event(void *ctx, const engine_event *ev)
{
    client_answer *a = ctx;
    if (ev->n_ids > 0 && a->first_ns == 0) {
        a->first_ns = clock_ns();
        a->first_ms = (double)(a->first_ns - a->start_ns) * 1e-6;
    }
    if (ev->n_ids > 0)
        a->output = hash_bytes(ev->ids, (size_t)ev->n_ids * sizeof *ev->ids, a->output);
    a->n_new += ev->n_ids;
    if (ev->kind != ENGINE_FINISH) return;
    a->end_ms = clock_ms_since(a->start_ns);
    a->decode_ms = ev->usage.decode_ms;
    a->n_cached = ev->usage.cached_tokens;
    a->cycles = ev->usage.cycles;
    a->drafted = ev->usage.drafted;
    a->accepted = ev->usage.accepted;
    a->is_done = true;
    if (ev->error) a->failure = *ev->error;
}

status client_submit(engine *en, const client_ask *a, client_answer *out, err *e)
{
    uint64_t id;
    engine_request q = {.ids = a->ids,
                        .n_ids = a->n_ids,
                        .max_tokens = a->n_new,
                        .policy = policy_neutral(),
                        .n = 1,
                        .on_event = on_event,
                        .ctx = out};
    q.policy.temperature = a->temperature;
    q.policy.seed = 1;
    q.policy.ignore_eos = true;
    *out = (client_answer){.start_ns = clock_ns()};
    return engine_submit(en, &q, &id, e);
}

status client_wait(engine *en, const client_answer *all, int n, err *e)
{
    while (engine_step(en)) continue;
    for (int i = 0; i < n; i++) {
        if (all[i].failure.code != ERR_OK) {
            *e = all[i].failure;
            return e->code;
        }
        if (!all[i].is_done) return err_set(e, ERR_INVALID, "request", -1, "did not end");
    }
    return ERR_OK;
}

status client_ask_one(engine *en, const client_ask *a, client_answer *out, err *e)
{
    TRY(client_submit(en, a, out, e));
    return client_wait(en, out, 1, e);
}

status client_text(const tokenizer *t, int64_t n, token_ids *ids, err *e)
{
    static const char *const verbs[] = {"read", "sort", "swap", "count", "merge", "print", "check"};
    static const char *const nouns[] = {"list", "file", "name", "word", "row", "item"};
    buf line;
    buf_init(&line);
    status s = ERR_OK;
    for (int i = 0; s == ERR_OK && ids->n < n; i++) {
        buf_clear(&line);
        buf_printf(&line, "def %s_%s_%d(a, b):\n    return %d * a + b[%d]\n\n", verbs[i % 7],
                   nouns[i / 7 % 6], i, i * 7 % 97, i % 13);
        s = tokenizer_encode(t, buf_str(&line), false, 0, ids, e);
    }
    buf_fini(&line);
    return s;
}
