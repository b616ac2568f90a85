#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "bench/score_priv.h"
#include "engine/engine_cycle.h"
#include "engine/engine_tokenizer.h"

/* The judged and the reference, both over slot 0. */
typedef struct {
    cycle *c[2];
    float *logits[2]; /* [SCORE_ROWS, V] owned */
    token_ids ids;
} scorer;

enum { JUDGED, REFERENCE };

static status own_blocks(cycle *c)
{
    int32_t block;
    for (block = 0; block < cycle_n_blocks(c); block++)
        TRY(cycle_set_blocks(c, 0, block, &block, 1));
    return ERR_OK;
}

static status open_side(scorer *x, int side, const score_request *r, err *e)
{
    cycle_options o = engine_cycle_options(&r->engine);
    o.draft = NULL;
    o.max_draft = 0;
    o.n_slots = 1;
    o.prefill_rows = o.logit_rows = SCORE_ROWS;
    o.max_context = r->window;
    if (side == REFERENCE) {
        engine_options as_kv = {.kv = r->against_kv};
        o.backend = r->against;
        o.kv = engine_cycle_options(&as_kv).kv;
        o.has_narrow_states = false;
        o.on_progress = NULL;
    }
    TRY(cycle_open(&x->c[side], &o, e));
    int V = cycle_files(x->c[side])->target.V;
    x->logits[side] = mem_new_array((size_t)V * SCORE_ROWS, sizeof(float));
    if (!x->logits[side])
        return err_set(e, ERR_NOMEM, "score", -1, "%d rows of %d logits", SCORE_ROWS, V);
    if (cycle_max_context(x->c[side]) < r->window)
        return err_set(e, ERR_INVALID, "--window", -1, "%d tokens, the model has %lld positions",
                       r->window, (long long)cycle_max_context(x->c[side]));
    return own_blocks(x->c[side]);
}

static status encode(scorer *x, const score_request *r, err *e)
{
    tokenizer *t = NULL;
    const load_model *files = cycle_files(x->c[JUDGED]);
    TRY(engine_tokenizer_open(&t, files, e));
    status s = tokenizer_encode(t, r->text, true, 0, &x->ids, e);
    tokenizer_close(t);
    TRY(s);
    if (r->max_tokens > 0 && x->ids.n > r->max_tokens) x->ids.n = (int)r->max_tokens;
    for (int i = 0; i < x->ids.n; i++)
        if (x->ids.ptr[i] >= files->target.V)
            return err_set(e, ERR_INVALID, "--model", -1, "its tokenizer gives id %d, it has %d",
                           (int)x->ids.ptr[i], files->target.V);
    return x->ids.n >= 2
               ? ERR_OK
               : err_set(e, ERR_INVALID, "--text", -1, "%d tokens, want 2 or more", x->ids.n);
}

static status forward(scorer *x, int side, int begin, int pos, int n, err *e)
{
    cycle *c = x->c[side];
    const backend *b = cycle_backend(c);
    cycle_slice slice = {.slot = 0,
                         .ids = x->ids.ptr + begin + pos,
                         .n = n,
                         .pos = pos,
                         .prompt_end = pos + n,
                         .n_logits = n};
    int64_t n_bytes = (int64_t)n * cycle_files(c)->target.V * (int64_t)sizeof(float);
    status s = pos == 0 ? cycle_reset(c, 0) : ERR_OK;
    if (s == ERR_OK) s = cycle_prefill(c, &slice, 1);
    if (s == ERR_OK)
        s = b->ops->download((backend *)b, x->logits[side], model_logits(cycle_model(c)), n_bytes);
    if (s == ERR_OK) return s;
    return err_set(e, s, b->name, begin + pos, "%s",
                   b->last.code != ERR_OK ? b->last.msg : status_text(s));
}

/* Tokens [begin, begin + n) of the text; the last of them is only predicted. */
static status run_window(scorer *x, int begin, int n, score *out, err *e)
{
    int V = cycle_files(x->c[JUDGED])->target.V;
    for (int pos = 0; pos < n - 1; pos += SCORE_ROWS) {
        int rows = n - 1 - pos < SCORE_ROWS ? n - 1 - pos : SCORE_ROWS;
        TRY(forward(x, JUDGED, begin, pos, rows, e));
        TRY(forward(x, REFERENCE, begin, pos, rows, e));
        for (int i = 0; i < rows; i++) {
            int at = begin + pos + i;
            const float *got = x->logits[JUDGED] + (int64_t)i * V;
            if (score_add(out, got, x->logits[REFERENCE] + (int64_t)i * V, V, x->ids.ptr[at + 1]) !=
                ERR_OK)
                return err_set(e, ERR_INVALID, "logits", at, "a logit is not finite");
        }
    }
    return ERR_OK;
}

static void name_sides(const scorer *x, score_result *out)
{
    const backend *b = cycle_backend(x->c[JUDGED]), *r = cycle_backend(x->c[REFERENCE]);
    snprintf(out->backend, sizeof out->backend, "%s", b->name);
    snprintf(out->isa, sizeof out->isa, "%s", b->isa);
    snprintf(out->reference, sizeof out->reference, "%s", r->name);
    snprintf(out->reference_isa, sizeof out->reference_isa, "%s", r->isa);
    out->n_threads = b->n_threads;
}

static status run(scorer *x, const score_request *r, score_result *out, err *e)
{
    TRY(open_side(x, JUDGED, r, e));
    TRY(encode(x, r, e));
    TRY(open_side(x, REFERENCE, r, e));
    name_sides(x, out);
    out->n_tokens = x->ids.n;
    out->s.cap = x->ids.n;
    out->s.norms = mem_new_array((size_t)out->s.cap, sizeof *out->s.norms);
    if (!out->s.norms) return err_set(e, ERR_NOMEM, "score", -1, "%d rows", x->ids.n);
    for (int begin = 0; begin + 1 < x->ids.n; begin += r->window) {
        int left = x->ids.n - begin;
        TRY(run_window(x, begin, left < r->window ? left : r->window, &out->s, e));
        out->n_windows++;
    }
    return ERR_OK;
}

status score_run(const score_request *r, score_result *out, err *e)
{
    scorer x = {0};
    *out = (score_result){0};
    status s = run(&x, r, out, e);
    for (int side = 0; side < 2; side++) {
        mem_free(x.logits[side]);
        cycle_close(x.c[side]);
    }
    token_ids_fini(&x.ids);
    return s;
}
