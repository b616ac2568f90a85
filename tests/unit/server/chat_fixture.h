/* chat_fixture: a generation that no engine runs, for the pure parts of a chat request and its
 * answer. Tokenizer and template are the bundled model's. */
#ifndef RIPTIDE_TESTS_CHAT_FIXTURE_H
#define RIPTIDE_TESTS_CHAT_FIXTURE_H

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "server/chat_output_priv.h"
#include "support/test.h"

typedef struct {
    server s;
    engine_info about;
    generation g;
    answer answers[4];
    arena mem;
    tokenizer *tokens;
    int n_said;
} chat_fixture;

static const int32_t chat_eos[] = {2069};

static inline void chat_put_stream_part(generation *g, answer *c, const outparse_event *part)
{
    chat_put_part(&g->out, g, c, part);
}

static inline const json *chat_parse(arena *a, const char *text)
{
    err e = {0};
    const json *root;
    char *copy = arena_copy(a, text, strlen(text));
    for (char *p = copy; *p; p++)
        if (*p == '\'') *p = '"';
    CHECK_OK(json_parse(a, str_from(copy), "test", 64, 0, &root, &e), &e);
    return root;
}

static inline void chat_load(chat_fixture *f)
{
    err e = {0};
    str tokens, source;
    memset(f, 0, sizeof *f);
    arena_init(&f->mem, 0);
    CHECK_OK(file_read(&f->mem, "models/mini-dense/tokenizer.json", 1 << 24, &tokens, &e), &e);
    CHECK_OK(file_read(&f->mem, "models/mini-dense/chat_template.jinja", 1 << 20, &source, &e), &e);
    CHECK_OK(tokenizer_open(&f->tokens, tokens, "tokenizer.json", &e), &e);
    CHECK_OK(template_open(&f->s.template, source, "template", &e), &e);
    f->about = (engine_info){
        .model_name = "tiny", .max_context = 100, .V = 4096, .eos = chat_eos, .n_eos = 1};
    f->about.defaults = policy_neutral();
    f->s.about = &f->about;
    f->s.tokens = f->tokens;
    f->s.think_open = tokenizer_find_added(f->tokens, STR("<think>"));
    f->s.think_close = tokenizer_find_added(f->tokens, STR("</think>"));
    f->g.server = &f->s;
    f->g.created_s = 1234;
    snprintf(f->g.id, sizeof f->g.id, "chatcmpl-1");
    buf_init(&f->g.out);
}

/* n answers that are still empty; parts of a stream are written into g.out as chunks. tools is JSON
 * with single quotes, or NULL. */
static inline void chat_begin(chat_fixture *f, int n, bool streams, const char *tools, bool thinks)
{
    static const dialect streaming = {.part = chat_put_stream_part};
    err e = {0};
    chat_load(f);
    f->g.dialect = &streaming;
    f->g.request.n = n;
    f->g.request.streams = streams;
    f->g.tools = tools ? chat_parse(&f->mem, tools) : NULL;
    f->g.starts_in_reasoning = thinks;
    f->g.answers = f->answers;
    for (int i = 0; i < n; i++) CHECK_OK(answer_open(&f->answers[i], &f->g, i, &e), &e);
}

static inline void chat_end(chat_fixture *f)
{
    for (int i = 0; i < f->g.request.n; i++) answer_close(&f->answers[i]);
    buf_fini(&f->g.out);
    tokenizer_close(f->tokens);
    template_close(f->s.template);
    arena_fini(&f->mem);
}

/* Text that came out of `n_ids` tokens. */
static inline void chat_say(chat_fixture *f, int i, const char *text, const int32_t *ids, int n_ids)
{
    err e = {0};
    answer *c = &f->answers[i];
    engine_event ev = {
        .kind = ENGINE_TOKENS, .choice = i, .ids = ids, .n_ids = n_ids, .text = str_from(text)};
    ev.usage = c->usage;
    ev.usage.prompt_tokens = 7;
    ev.usage.completion_tokens += n_ids;
    ev.usage.prefill_ms = 2;
    ev.usage.decode_ms += 10 * n_ids;
    CHECK_OK(answer_take(c, &ev, &e), &e);
}

/* The same token by token, `step` of them an event, with log probabilities: of the n-th that a test
 * says, -n. */
static inline void chat_say_tokens(chat_fixture *f, int i, const char *text, int step)
{
    err e = {0};
    answer *c = &f->answers[i];
    token_ids ids = {0};
    detok d;
    buf said;
    buf_init(&said);
    detok_init(&d, tokenizer_vocab(f->tokens), true);
    CHECK_OK(tokenizer_encode(f->tokens, str_from(text), true, 0, &ids, &e), &e);
    assert_true(ids.n <= 64);
    for (int64_t at = 0; at < ids.n; at += step) {
        engine_logprob p[64] = {0};
        int n = ids.n - at < step ? (int)(ids.n - at) : step;
        buf_clear(&said);
        for (int k = 0; k < n; k++) {
            p[k].logprob = -(float)(++f->n_said);
            for (int t = 0; t < ENGINE_TOP_MAX; t++) p[k].top_ids[t] = -1;
            p[k].top_ids[0] = 300;
            detok_push(&d, ids.ptr[at + k], &said);
        }
        engine_event ev = {.kind = ENGINE_TOKENS,
                           .choice = i,
                           .ids = ids.ptr + at,
                           .n_ids = n,
                           .logprobs = p,
                           .text = buf_str(&said)};
        ev.usage.completion_tokens = c->usage.completion_tokens + n;
        CHECK_OK(answer_take(c, &ev, &e), &e);
    }
    buf_fini(&said);
    token_ids_fini(&ids);
}

static inline void chat_finish(chat_fixture *f, int i, engine_finish reason)
{
    err e = {0};
    answer *c = &f->answers[i];
    engine_event ev = {.kind = ENGINE_FINISH, .choice = i, .reason = reason, .usage = c->usage};
    CHECK_OK(answer_take(c, &ev, &e), &e);
}

#endif
