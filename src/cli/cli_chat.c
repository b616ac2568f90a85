/* The conversation loop. History is kept as the JSON text of a messages array, rendered anew for
 * each turn; reasoning is split off at the closing think tag. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <editline/readline.h>

#include "base/json.h"
#include "cli/chat_priv.h"
#include "cli/command_priv.h"
#include "cli/prompt_priv.h"

typedef struct {
    const run_flags *f;
    engine *en;
    template *t;
    buf history; /* "{…},{…}" */
    buf answer;
    bool is_done;
    engine_finish reason;
    char error[480];
} chat;

static void put_message(buf *history, const char *role, str reasoning, str content)
{
    if (history->len > 0) buf_put_byte(history, ',');
    json_writer w;
    json_writer_init(&w, history);
    json_open_object(&w);
    json_key(&w, "role");
    json_c_string(&w, role);
    if (reasoning.len > 0) {
        json_key(&w, "reasoning_content");
        json_string(&w, reasoning);
    }
    json_key(&w, "content");
    json_string(&w, content);
    json_close_object(&w);
}

static void on_event(void *ctx, const engine_event *ev)
{
    chat *c = ctx;
    buf_put_str(&c->answer, ev->text);
    fwrite(ev->text.ptr, 1, ev->text.len, stdout);
    fflush(stdout);
    if (ev->kind != ENGINE_FINISH) return;
    c->is_done = true;
    c->reason = ev->reason;
    if (ev->error) err_format(ev->error, c->error, sizeof c->error);
}

static status encode_history(chat *c, arena *a, token_ids *ids, err *e)
{
    const engine_info *info = engine_about(c->en);
    buf list;
    message_set in = {0};
    buf_init(&list);
    buf_printf(&list, "[%.*s]", STR_ARG(buf_str(&c->history)));
    status s = list.failed ? err_set(e, ERR_NOMEM, "chat", -1, "history")
                           : prompt_from_json(a, buf_str(&list), "history", c->t, c->f->no_thinking,
                                              &in, e);
    if (s == ERR_OK)
        s = prompt_ids(c->t, &in, info->bos_token, info->eos_token, engine_tokenizer(c->en), a, ids,
                       e);
    buf_fini(&list);
    return s;
}

static void remember_answer(chat *c)
{
    str text = buf_str(&c->answer), reasoning = STR(""), close = STR("</think>");
    int64_t end = str_find(text, close, 0);
    if (end >= 0) {
        reasoning = str_trim(str_slice(text, 0, (size_t)end));
        text = str_trim(str_skip(text, (size_t)end + close.len));
    }
    put_message(&c->history, "assistant", reasoning, text);
}

static status answer(chat *c, err *e)
{
    arena a;
    token_ids ids = {0};
    arena_init(&a, 0);
    buf_clear(&c->answer);
    c->is_done = false;
    status s = encode_history(c, &a, &ids, e);
    if (s == ERR_OK) {
        engine_request q = {.ids = ids.ptr,
                            .n_ids = ids.n,
                            .max_tokens = c->f->max_tokens,
                            .policy = run_flags_policy(c->f, engine_about(c->en)),
                            .n = 1,
                            .on_event = on_event,
                            .ctx = c};
        uint64_t id;
        s = engine_submit(c->en, &q, &id, e);
        while (s == ERR_OK && !c->is_done && engine_step(c->en)) continue;
    }
    if (s == ERR_OK && c->error[0]) s = err_set(e, ERR_DEVICE, "chat", -1, "%s", c->error);
    if (s == ERR_OK) remember_answer(c);
    putchar('\n');
    token_ids_fini(&ids);
    arena_fini(&a);
    return s;
}

/* Append one line without its end; false at the end of input. */
static bool read_line(const char *prompt, buf *out)
{
    if (isatty(STDIN_FILENO)) {
        char *line = readline(prompt);
        if (!line) return false;
        if (*line) add_history(line);
        buf_put_c(out, line);
        (free)(line); /* libedit's own memory */
        return true;
    }
    int c = getchar();
    if (c == EOF) return false;
    for (; c != EOF && c != '\n'; c = getchar()) buf_put_byte(out, (char)c);
    return true;
}

/* A message of one or more lines into `message`; false at the end of input. */
static bool read_message(buf *message)
{
    buf_clear(message);
    const char *prompt = "> ";
    while (read_line(prompt, message)) {
        bool goes_on = message->len > 0 && message->ptr[message->len - 1] == '\\';
        if (!goes_on) return !message->failed;
        message->ptr[message->len - 1] = '\n';
        prompt = ". ";
    }
    return message->len > 0;
}

int chat_loop(const run_flags *f, engine *en)
{
    chat c = {.f = f, .en = en};
    err e = {0};
    buf message;
    const engine_info *info = engine_about(en);
    if (info->chat_template.len == 0)
        return command_fail("run", &(err){.code = ERR_INVALID,
                                          .where = "chat",
                                          .pos = -1,
                                          .msg = "the model has no chat template"});
    if (template_open(&c.t, info->chat_template, "chat_template", &e) != ERR_OK)
        return command_fail("run", &e);
    buf_init(&c.history);
    buf_init(&c.answer);
    buf_init(&message);
    if (isatty(STDIN_FILENO))
        fprintf(stderr, "%s on %s. /clear starts over, /exit leaves.\n", info->model_name,
                info->backend);
    int code = 0;
    while (code == 0 && read_message(&message)) {
        str text = str_trim(buf_str(&message));
        if (str_is(text, "/exit")) break;
        if (str_is(text, "/clear")) buf_clear(&c.history);
        if (text.len == 0 || text.ptr[0] == '/') continue;
        size_t before = c.history.len;
        put_message(&c.history, "user", STR(""), text);
        status s = answer(&c, &e);
        if (s == ERR_OK) continue;
        /* What does not fit is forgotten; /clear makes room. Anything else ends the loop. */
        int failed = command_fail("run", &e);
        if (s != ERR_LIMIT) code = failed;
        c.history.len = before;
    }
    buf_fini(&message);
    buf_fini(&c.answer);
    buf_fini(&c.history);
    template_close(c.t);
    return code;
}
