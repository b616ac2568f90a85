/* The cases of the oracle. */
#include <stdio.h>
#include <string.h>

#include "bench/oracle_priv.h"

/* Answer the prompt of one kind on the open engine, and compare. */
static bool ask_kind(oracle *o, oracle_kind kind, const char *what)
{
    oracle_ask a = oracle_prompt(o, kind);
    return oracle_answer_to(o, &a, &o->got[0]) &&
           oracle_same(o, &o->got[0], &o->want[kind], 0, what);
}

static bool ask_all(oracle *o, const char *what)
{
    bool ok = true;
    for (int k = 0; k < ORACLE_KINDS && ok; k++) ok = ask_kind(o, (oracle_kind)k, what);
    return ok;
}

/* ---- cache ---- */

static void restore_equals_cold(oracle *o)
{
    engine_options v = oracle_usual(o);
    if (oracle_engine(o, &v) && ask_all(o, "first time") && ask_all(o, "second time")) {
        int64_t whole = (o->r->n_prompt - 1) / OPS_BLOCK * OPS_BLOCK;
        oracle_check(o, o->got[0].usage.cached_tokens == whole, "the prompt was not taken over");
    }
    oracle_end(o, "restore equals cold");
}

/* The draft guesses after a restore as it does cold, seeing `window` positions back (0: all that it
 * was made for). */
static void restored_draft_guesses_alike(oracle *o, int window)
{
    engine_options v = oracle_usual(o);
    if (!v.draft) return;
    if (window > 0) v.draft_window = window;
    int64_t accepted[2] = {0};
    for (int i = 0; oracle_engine(o, &v) && i < 2; i++) {
        if (i == 1 && !ask_kind(o, ORACLE_GREEDY, "before")) break;
        if (!ask_kind(o, ORACLE_GREEDY, "after")) break;
        accepted[i] = o->got[0].usage.accepted;
    }
    oracle_check(o, accepted[1] * 100 >= accepted[0] * 98, "acceptance fell behind a restore");
    oracle_end(o, window > 0 ? "a restored draft of a short window guesses as a cold one"
                             : "a restored draft guesses as a cold one");
}

static void eviction_at_every_chance(oracle *o)
{
    engine_options v = oracle_usual(o);
    v.evicts_always = true;
    v.prefill_rows = OPS_BLOCK;
    if (oracle_engine(o, &v) && ask_all(o, "first time") && ask_all(o, "second time"))
        oracle_check(o, engine_stats(o->en).cache.evicted_states > 0, "nothing was evicted");
    oracle_end(o, "eviction at every chance");
}

/* The answer's first k tokens, sent as part of the prompt, go on as the answer did. */
static void turn_generated_equals_turn_sent(oracle *o)
{
    static int32_t ids[1 << 16];
    int n = o->r->n_prompt, n_new = o->r->n_new, cuts[] = {1, n_new / 2, n_new - 1};
    engine_options v = oracle_usual(o);
    bool ok = n + n_new < (int)(sizeof ids / sizeof *ids) && oracle_engine(o, &v);
    for (int k = 0; k < ORACLE_PENALISED && ok; k++) {
        const oracle_answer *want = &o->want[k];
        memcpy(ids, o->text, (size_t)n * sizeof *ids);
        memcpy(ids + n, want->ids, (size_t)n_new * sizeof *ids);
        ok = ask_kind(o, (oracle_kind)k, "as generated");
        for (int i = 0; i < 3 && ok; i++) {
            oracle_ask a = {ids, n + cuts[i], n_new - cuts[i], 0, (oracle_kind)k};
            ok = oracle_answer_to(o, &a, &o->got[0]) &&
                 oracle_same(o, &o->got[0], want, cuts[i], "as sent");
        }
    }
    oracle_end(o, "a turn generated equals a turn sent");
}

/* ---- cuts and company ---- */

static void slicing_equals_one_shot(oracle *o)
{
    static const int rows[] = {17, 64, 100, 1};
    int n = o->r->is_wide ? 4 : 3;
    bool ok = true;
    for (int i = 0; i < n && ok; i++) {
        char what[32];
        engine_options v = oracle_usual(o);
        v.prefill_rows = rows[i];
        snprintf(what, sizeof what, "slices of %d", rows[i]);
        ok = oracle_engine(o, &v) && ask_kind(o, i & 1 ? ORACLE_GREEDY : ORACLE_SAMPLED, what);
    }
    oracle_end(o, "slicing equals one shot");
}

static void draft_widths(oracle *o)
{
    static const int widths[] = {1, 3, 7, ENGINE_ROWS_AUTO, 2, 4, 5, 6};
    int n = o->r->is_wide ? 8 : 4;
    engine_options v = oracle_usual(o);
    bool ok = v.draft != NULL;
    if (!ok) return;
    for (int i = 0; i < n && ok; i++) {
        char what[32];
        v.draft_rows = widths[i];
        snprintf(what, sizeof what, "draft rows %d", widths[i]);
        ok = oracle_engine(o, &v) && ask_kind(o, (oracle_kind)(i % ORACLE_KINDS), what);
    }
    oracle_end(o, "draft widths");
}

static void rejection_of_every_draft(oracle *o)
{
    engine_options v = oracle_usual(o);
    if (!v.draft) return;
    v.spoils_drafts = true;
    if (oracle_engine(o, &v) && ask_all(o, "all proposals wrong"))
        oracle_check(o, o->got[0].usage.drafted > 0 && o->got[0].usage.accepted == 0,
                     "proposals were accepted");
    oracle_end(o, "rejection of every draft");
}

static void lane_identity(oracle *o, int n_lanes)
{
    char name[48];
    engine_options v = oracle_usual(o);
    v.n_lanes = n_lanes;
    v.prefill_rows = 100;
    bool ok = oracle_engine(o, &v);
    for (int i = 0; i < ORACLE_LANES_MAX && ok; i++) {
        oracle_ask a = oracle_prompt(o, (oracle_kind)(i % ORACLE_KINDS));
        a.n_new -= i; /* so that lanes come and go */
        ok = oracle_submit(o, &a, &o->got[i]);
    }
    if (ok) oracle_steps(o);
    for (int i = 0; i < ORACLE_LANES_MAX && ok; i++)
        ok = oracle_same(o, &o->got[i], &o->want[i % ORACLE_KINDS], 0, "a lane");
    snprintf(name, sizeof name, "%d of 8 requests at a time", n_lanes);
    oracle_end(o, name);
}

/* ---- suspension ---- */

static void suspension_at_every_chance(oracle *o, bool has_cache)
{
    engine_options v = oracle_usual(o);
    v.n_lanes = 2;
    v.prefill_rows = OPS_BLOCK;
    v.suspends_always = true;
    if (!has_cache) v.cache_bytes = -1;
    bool ok = oracle_engine(o, &v);
    int n = has_cache ? ORACLE_KINDS : ORACLE_KINDS - 1;
    for (int k = 0; k < n && ok; k++) {
        oracle_ask a = oracle_prompt(o, (oracle_kind)(has_cache ? k : k + 1));
        if (!has_cache) a.n_new = a.n_new < 8 ? a.n_new : 8;
        ok = oracle_submit(o, &a, &o->got[k]);
    }
    if (ok) oracle_steps(o);
    for (int k = 0; k < n && ok; k++)
        ok = oracle_same(o, &o->got[k], &o->want[has_cache ? k : k + 1], 0, "a suspended lane") &&
             oracle_check(o, o->got[k].usage.suspensions > 2, "it was hardly suspended");
    oracle_end(o,
               has_cache ? "suspension at every chance" : "suspension at every chance, no cache");
}

/* A more urgent request takes the only lane in the middle of a prompt or of an answer. */
static void preemption(oracle *o, oracle_kind kind, bool in_prompt)
{
    char name[64];
    engine_options v = oracle_usual(o);
    v.prefill_rows = OPS_BLOCK;
    v.cache_bytes = kind == ORACLE_SAMPLED ? -1 : 0;
    oracle_ask a = oracle_prompt(o, kind), urgent = oracle_prompt(o, ORACLE_GREEDY);
    urgent.priority = 1;
    bool ok = oracle_engine(o, &v) && oracle_submit(o, &a, &o->got[0]);
    for (int i = 0; i < 2 && ok && in_prompt; i++) engine_step(o->en);
    while (ok && !in_prompt && o->got[0].n < 3 && engine_step(o->en)) continue;
    if (ok) {
        ok = oracle_check(o, !o->got[0].is_done && (o->got[0].n == 0) == in_prompt,
                          "it was not where it should be taken over");
        ok = ok && oracle_submit(o, &urgent, &o->got[1]);
    }
    if (ok) oracle_steps(o);
    ok = ok && oracle_same(o, &o->got[0], &o->want[kind], 0, "who had to give way") &&
         oracle_same(o, &o->got[1], &o->want[ORACLE_GREEDY], 0, "who was urgent") &&
         oracle_check(o, o->got[0].usage.suspensions == 1, "nobody gave way");
    snprintf(name, sizeof name, "preemption of a %s lane in its %s", oracle_kind_name(kind),
             in_prompt ? "prompt" : "answer");
    oracle_end(o, name);
}

enum { PRESSED = 4, PRESSED_PROMPT = OPS_BLOCK - 8, PRESSED_NEW = 2 * OPS_BLOCK + 12 };

/* Four lanes in the blocks of hardly more than one: prompts fit side by side, answers do not. */
static void memory_pressure(oracle *o)
{
    static int32_t ids[PRESSED][PRESSED_PROMPT];
    static oracle_answer want[PRESSED];
    engine_options v = oracle_plain(o);
    bool ok = true;
    for (int pass = 0; pass < 2; pass++) {
        v.max_context = PRESSED_PROMPT + PRESSED_NEW;
        ok = ok && oracle_engine(o, &v);
        for (int i = 0; i < PRESSED && ok; i++) {
            oracle_ask a = {ids[i], PRESSED_PROMPT, PRESSED_NEW, 0,
                            (oracle_kind)(i % ORACLE_KINDS)};
            memcpy(ids[i], o->text, sizeof ids[i]);
            ids[i][0] = 300 + i; /* they share nothing */
            ok = oracle_submit(o, &a, pass ? &o->got[i] : &want[i]);
        }
        if (ok) oracle_steps(o);
        v = oracle_usual(o);
        v.n_lanes = PRESSED;
        v.prefill_rows = OPS_BLOCK;
        v.kv_blocks = (PRESSED_PROMPT + PRESSED_NEW) / OPS_BLOCK + 3;
    }
    for (int i = 0; i < PRESSED && ok; i++) ok = oracle_same(o, &o->got[i], &want[i], 0, "a lane");
    oracle_check(o, !ok || engine_stats(o->en).suspensions > 0, "nobody was suspended");
    oracle_end(o, "suspension for want of blocks");
}

/* The later four of its eight requests take over what the first left. */
static void run_short(oracle *o)
{
    lane_identity(o, 4);
}

static void run_all(oracle *o)
{
    restore_equals_cold(o);
    restored_draft_guesses_alike(o, 0);
    restored_draft_guesses_alike(o, ORACLE_WINDOW);
    eviction_at_every_chance(o);
    turn_generated_equals_turn_sent(o);
    slicing_equals_one_shot(o);
    draft_widths(o);
    rejection_of_every_draft(o);
    for (int n = 1; n <= ORACLE_LANES_MAX; n *= 2) lane_identity(o, n);
    for (int k = 0; k < ORACLE_KINDS; k++) {
        preemption(o, (oracle_kind)k, true);
        preemption(o, (oracle_kind)k, false);
    }
    suspension_at_every_chance(o, true);
    suspension_at_every_chance(o, false);
    memory_pressure(o);
}

status oracle_run(const oracle_request *r, int *n_failed, err *e)
{
    static oracle o;
    status s = oracle_open(&o, r, e);
    if (s == ERR_OK) (r->is_short ? run_short : run_all)(&o);
    *n_failed = o.n_failed;
    oracle_close(&o);
    return s;
}
