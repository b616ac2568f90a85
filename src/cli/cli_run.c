/* riptide run: one prompt through the engine, on the calling thread. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/chat_priv.h"
#include "cli/command_priv.h"
#include "cli/prompt_priv.h"
#include "cli/run_priv.h"
#include "engine/engine_flags.h"

enum { CHOICES_MAX = 64, OWN_ROWS = 23 };

void run_flags_init(run_flags *f)
{
    *f = (run_flags){.n = 1, .reasoning_budget = -1};
    engine_flags_init(&f->engine, 1);
}

int run_flags_rows(run_flags *f, option_row *rows)
{
    int n = engine_flags_rows(&f->engine, rows);
    option_row own[] = {
        {"prompt", OPTION_TEXT, &f->prompt,
         .help = "a user message; a text that begins with a turn marker is taken as it is"},
        {"messages", OPTION_TEXT, &f->messages,
         .help =
             "JSON file: messages, or a Chat request (its messages, tools and reasoning options)"},
        {"ids", OPTION_TEXT, &f->ids, .help = "token ids, 1,2,3"},
        {"ids-file", OPTION_TEXT, &f->ids_file, .help = "file of token ids"},
        {"raw", OPTION_FLAG, &f->is_raw,
         .help = "--prompt is plain text for completion, no template"},
        {"no-thinking", OPTION_FLAG, &f->no_thinking,
         .help = "render with enable_thinking = false"},
        {"max-tokens", OPTION_INT, &f->max_tokens, .min = 0, .max = 1 << 24,
         .help = "most new tokens (0: what the context leaves)"},
        {"temperature", OPTION_DOUBLE, &f->temperature, .min = 0, .max = 2,
         .help = "0 = greedy (default: the model's)", .was_set = &f->has_temperature},
        {"top-p", OPTION_DOUBLE, &f->top_p, .min = 0, .max = 1, .help = "default: the model's",
         .was_set = &f->has_top_p},
        {"top-k", OPTION_INT, &f->top_k, .min = -1, .max = 1 << 24,
         .help = "0 or -1 = off (default: the model's)", .was_set = &f->has_top_k},
        {"min-p", OPTION_DOUBLE, &f->min_p, .min = 0, .max = 1, .help = "default: the model's",
         .was_set = &f->has_min_p},
        {"repetition-penalty", OPTION_DOUBLE, &f->repetition, .min = 0, .max = 100,
         .help = "1 = none (default: the model's)", .was_set = &f->has_repetition},
        {"presence-penalty", OPTION_DOUBLE, &f->presence, .min = -2, .max = 2,
         .help = "0 = none (default: the model's)", .was_set = &f->has_presence},
        {"frequency-penalty", OPTION_DOUBLE, &f->frequency, .min = -2, .max = 2,
         .help = "0 = none"},
        {"seed", OPTION_SEED, &f->seed, .help = "noise of sampling (default: random, printed)",
         .was_set = &f->has_seed},
        {"n", OPTION_INT, &f->n, .min = 1, .max = CHOICES_MAX, .help = "answers"},
        {"stop", OPTION_TEXT, &f->stop, .help = "end before this text (one)"},
        {"ignore-eos", OPTION_FLAG, &f->ignore_eos, .help = "go on to --max-tokens"},
        {"json-schema", OPTION_TEXT, &f->json_schema,
         .help = "JSON file: the answer is a value of this schema"},
        {"grammar", OPTION_TEXT, &f->grammar,
         .help = "file: the answer follows this grammar (src/grammar/README.md)"},
        {"regex", OPTION_TEXT, &f->regex, .help = "the whole answer matches this expression"},
        {"reasoning-budget", OPTION_INT, &f->reasoning_budget, .min = -1, .max = 1 << 24,
         .help = "most tokens of reasoning (-1: no limit)"},
        {"json", OPTION_FLAG, &f->wants_json, .help = "print one JSON object at the end"},
    };
    _Static_assert(sizeof own / sizeof *own == OWN_ROWS, "rows");
    memcpy(rows + n, own, sizeof own);
    return n + OWN_ROWS;
}

policy run_flags_policy(const run_flags *f, const engine_info *info)
{
    policy p = info->defaults;
    if (f->has_temperature) p.temperature = f->temperature;
    if (f->has_top_p) p.top_p = f->top_p;
    if (f->has_top_k) p.top_k = f->top_k;
    if (f->has_min_p) p.min_p = f->min_p;
    if (f->has_repetition) p.repetition = f->repetition;
    if (f->has_presence) p.presence = f->presence;
    p.frequency = f->frequency;
    p.ignore_eos = f->ignore_eos;
    p.seed = f->has_seed ? f->seed : run_random_seed();
    return p;
}

uint64_t run_random_seed(void)
{
    uint64_t seed;
    if (getentropy(&seed, sizeof seed) != 0) seed = (uint64_t)clock_ns();
    return seed;
}

/* One answer as it grows. */
typedef struct {
    token_ids ids;
    buf text;
    engine_finish reason;
    engine_usage usage;
    char error[480];
} run_answer;

typedef struct {
    run_answer *answers; /* owned [n] */
    int n, n_left;
    bool streams; /* text of the only answer goes to standard output as it comes */
    int64_t start_ns, shown_ns;
    bool shows_progress;
} run_state;

static void show_progress(run_state *r, const engine_event *ev)
{
    int64_t now = clock_ns();
    if (now - r->start_ns < 1000000000 || now - r->shown_ns < 200000000) return;
    r->shown_ns = now;
    r->shows_progress = true;
    fprintf(stderr, "\rprompt: %lld of %lld tokens", (long long)ev->prefilled,
            (long long)ev->usage.prompt_tokens);
    fflush(stderr);
}

static void take_event(void *ctx, const engine_event *ev)
{
    run_state *r = ctx;
    run_answer *a = &r->answers[ev->choice];
    if (ev->kind == ENGINE_PREFILL) {
        show_progress(r, ev);
        return;
    }
    if (r->shows_progress) fputs("\r\033[K", stderr);
    r->shows_progress = false;
    for (int i = 0; i < ev->n_ids; i++) token_ids_push(&a->ids, ev->ids[i]);
    buf_put_str(&a->text, ev->text);
    if (r->streams) {
        fwrite(ev->text.ptr, 1, ev->text.len, stdout);
        fflush(stdout);
    }
    a->usage = ev->usage;
    if (ev->kind != ENGINE_FINISH) return;
    a->reason = ev->reason;
    if (ev->error) err_format(ev->error, a->error, sizeof a->error);
    r->n_left--;
}

static const char *reason_name(engine_finish reason)
{
    switch (reason) {
    case ENGINE_STOP:
    case ENGINE_STOP_STRING: return "stop";
    case ENGINE_LENGTH: return "length";
    case ENGINE_CANCELED: return "canceled";
    default: return "error";
    }
}

static void put_answer(json_writer *w, const run_answer *a)
{
    json_key(w, "ids");
    json_open_array(w);
    for (int i = 0; i < a->ids.n; i++) json_int(w, a->ids.ptr[i]);
    json_close_array(w);
    json_key(w, "text");
    json_string(w, buf_str(&a->text));
    json_key(w, "finish_reason");
    json_c_string(w, reason_name(a->reason));
    json_key(w, "drafted");
    json_int(w, a->usage.drafted);
    json_key(w, "accepted");
    json_int(w, a->usage.accepted);
    json_key(w, "cycles");
    json_int(w, a->usage.cycles);
    json_key(w, "prefill_ms");
    json_double(w, a->usage.prefill_ms);
    json_key(w, "decode_ms");
    json_double(w, a->usage.decode_ms);
}

static void put_result(buf *out, const run_state *r, const token_ids *prompt,
                       const engine_info *info, uint64_t seed)
{
    json_writer w;
    json_writer_init(&w, out);
    json_open_object(&w);
    json_key(&w, "prompt_ids");
    json_open_array(&w);
    for (int i = 0; i < prompt->n; i++) json_int(&w, prompt->ptr[i]);
    json_close_array(&w);
    put_answer(&w, &r->answers[0]);
    json_key(&w, "backend");
    json_c_string(&w, info->backend);
    json_key(&w, "isa");
    json_c_string(&w, info->isa);
    json_key(&w, "seed");
    json_uint(&w, seed);
    if (r->n > 1) {
        json_key(&w, "choices");
        json_open_array(&w);
        for (int i = 0; i < r->n; i++) {
            json_open_object(&w);
            put_answer(&w, &r->answers[i]);
            json_close_object(&w);
        }
        json_close_array(&w);
    }
    json_close_object(&w);
    buf_put_byte(out, '\n');
}

/* A rendered prompt begins with a special token; what a person types does not. */
static bool begins_with_special(const tokenizer *tok, str text)
{
    token_ids ids = {0};
    size_t n = text.len < 64 ? text.len : 64;
    bool is = text.len > 0 &&
              tokenizer_encode(tok, str_slice(text, 0, n), true, 0, &ids, NULL) == ERR_OK &&
              ids.n > 0 && vocab_is_special(tokenizer_vocab(tok), ids.ptr[0]);
    token_ids_fini(&ids);
    return is;
}

static status render_and_encode(const run_flags *f, const engine_info *info, const tokenizer *tok,
                                arena *a, token_ids *out, err *e)
{
    template *t = NULL;
    message_set chat;
    if (info->chat_template.len == 0)
        return err_set(e, ERR_INVALID, info->model_name, -1,
                       "has no chat template; use --raw or --ids");
    TRY(template_open(&t, info->chat_template, "chat_template", e));
    status s = f->messages ? prompt_from_file(a, f->messages, t, f->no_thinking, &chat, e)
                           : prompt_from_text(a, f->prompt, t, f->no_thinking, &chat, e);
    if (s == ERR_OK) s = prompt_ids(t, &chat, info->bos_token, info->eos_token, tok, a, out, e);
    template_close(t);
    return s;
}

static status read_prompt(const run_flags *f, const engine *en, arena *a, token_ids *out, err *e)
{
    const engine_info *info = engine_about(en);
    const tokenizer *tok = engine_tokenizer(en);
    if (f->ids || f->ids_file) {
        int32_t *ids;
        int n;
        TRY(command_read_ids(a, f->ids, f->ids_file, &ids, &n, e));
        for (int i = 0; i < n; i++)
            if (!token_ids_push(out, ids[i])) return err_set(e, ERR_NOMEM, "ids", -1, "%d ids", n);
        return ERR_OK;
    }
    if (f->prompt && (f->is_raw || begins_with_special(tok, str_from(f->prompt))))
        return tokenizer_encode(tok, str_from(f->prompt), true, 0, out, e);
    return render_and_encode(f, info, tok, a, out, e);
}

static status check_answers(const run_state *r, const run_grammar *g, err *e)
{
    for (int i = 0; i < r->n; i++) {
        const run_answer *a = &r->answers[i];
        if (a->error[0]) return err_set(e, ERR_DEVICE, "run", -1, "%s", a->error);
        if (a->reason == ENGINE_STOP) TRY(run_grammar_check(g, buf_str(&a->text), e));
    }
    return ERR_OK;
}

static status generate(const run_flags *f, engine *en, const token_ids *prompt,
                       const run_grammar *g, run_state *r, uint64_t *seed, err *e)
{
    engine_request q = {.ids = prompt->ptr,
                        .n_ids = prompt->n,
                        .max_tokens = f->max_tokens,
                        .policy = run_flags_policy(f, engine_about(en)),
                        .n = (int)f->n,
                        .grammar = g->grammar,
                        .starts_in_reasoning = run_is_open_think(engine_tokenizer(en), prompt),
                        .has_reasoning_limit = f->reasoning_budget >= 0,
                        .reasoning_most = f->reasoning_budget,
                        .on_event = take_event,
                        .ctx = r};
    str stop = str_from(f->stop);
    if (f->stop) {
        q.stop = &stop;
        q.n_stop = 1;
    }
    *seed = q.policy.seed;
    if (!f->has_seed && q.policy.temperature > 0 && !f->wants_json)
        fprintf(stderr, "seed %llu\n", (unsigned long long)*seed);
    r->answers = mem_new_array((size_t)f->n, sizeof *r->answers);
    if (!r->answers) return err_set(e, ERR_NOMEM, "run", -1, "%lld answers", (long long)f->n);
    r->n = r->n_left = (int)f->n;
    r->streams = !f->wants_json && f->n == 1;
    r->start_ns = clock_ns();
    uint64_t id;
    TRY(engine_submit(en, &q, &id, e));
    while (r->n_left > 0 && engine_step(en)) continue;
    return check_answers(r, g, e);
}

static int print_answers(const run_flags *f, const run_state *r, const token_ids *prompt,
                         const engine_info *info, uint64_t seed)
{
    buf out;
    buf_init(&out);
    if (f->wants_json) {
        put_result(&out, r, prompt, info, seed);
    } else if (r->n == 1) {
        buf_put_byte(&out, '\n');
    } else {
        for (int i = 0; i < r->n; i++)
            buf_printf(&out, "--- %d\n%.*s\n", i, STR_ARG(buf_str(&r->answers[i].text)));
    }
    int code = command_print("run", &out);
    buf_fini(&out);
    return code;
}

static int run_once(const run_flags *f, engine *en, arena *a)
{
    run_state r = {0};
    token_ids prompt = {0};
    uint64_t seed = 0;
    err e = {0};
    run_grammar g = {0};
    status s = read_prompt(f, en, a, &prompt, &e);
    if (s == ERR_OK) s = run_grammar_open(&g, f, a, &e);
    if (s == ERR_OK) s = generate(f, en, &prompt, &g, &r, &seed, &e);
    int code = s == ERR_OK ? print_answers(f, &r, &prompt, engine_about(en), seed)
                           : command_fail("run", &e);
    for (int i = 0; r.answers && i < r.n; i++) {
        token_ids_fini(&r.answers[i].ids);
        buf_fini(&r.answers[i].text);
    }
    mem_free(r.answers);
    token_ids_fini(&prompt);
    run_grammar_close(&g);
    return code;
}

/* For one prompt a lane need not be able to hold more than it and the answer. */
static void size_context(const run_flags *f, engine_options *o, arena *a)
{
    int32_t *ids;
    int n;
    if ((!f->ids && !f->ids_file) || f->max_tokens == 0) return;
    if (command_read_ids(a, f->ids, f->ids_file, &ids, &n, NULL) != ERR_OK) return;
    if (n + f->max_tokens < o->max_context) o->max_context = n + f->max_tokens;
}

/* What took a while, in figures. */
static void print_loaded(const engine_info *about)
{
    double gb = (double)about->load_bytes * 1e-9, s = about->load_ms / 1000;
    fprintf(stderr, "loaded %.2f GB in %.2f s (%.1f GB/s)\n", gb, s, s > 0 ? gb / s : 0);
}

int command_run(int argc, char **argv)
{
    run_flags f;
    run_flags_init(&f);
    option_row rows[ENGINE_FLAG_ROWS + OWN_ROWS + 1] = {{0}};
    run_flags_rows(&f, rows);
    int code = command_parse(rows, "riptide run [--prompt TEXT | --messages FILE | --ids 1,2,3]",
                             argc, argv);
    if (code >= 0) return code;
    arena a;
    engine_options o;
    engine *en = NULL;
    err e = {0};
    arena_init(&a, 0);
    int n_given = !!f.prompt + !!f.messages + !!f.ids + !!f.ids_file;
    status s = n_given > 1 ? err_set(&e, ERR_INVALID, "--prompt", -1,
                                     "give one of --prompt, --messages, --ids, --ids-file")
                           : engine_flags_resolve(&f.engine, &a, &o, &e);
    if (s == ERR_OK) size_context(&f, &o, &a);
    engine_progress progress = {0};
    o.on_progress = engine_progress_show;
    o.progress_ctx = &progress;
    if (s == ERR_OK) s = engine_open(&en, &o, &e);
    if (s == ERR_OK && progress.shown_ns > 0) print_loaded(engine_about(en));
    if (s != ERR_OK)
        code = command_fail(argv[0], &e);
    else
        code = n_given ? run_once(&f, en, &a) : chat_loop(&f, en);
    engine_close(en);
    arena_fini(&a);
    return code;
}
