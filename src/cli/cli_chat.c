/* The conversation loop. History is kept as the JSON text of a messages array, rendered anew for
 * each turn; what the model writes is told apart by the parser that the server uses. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <editline/readline.h>

#include "base/json.h"
#include "chat/outparse.h"
#include "cli/chat_priv.h"
#include "cli/command_priv.h"
#include "cli/prompt_priv.h"

typedef struct {
    const run_flags *f;
    engine *en;
    template *t;
    buf history;            /* "{…},{…}" */
    buf reasoning, content; /* of the answer */
    outparse *parser;       /* of the answer under way */
    bool is_terminal;       /* standard output */
    bool is_dim;            /* what was written last */
    bool is_done, is_starved;
    engine_finish reason;
    engine_usage usage;
    char error[480];
} chat;

static volatile sig_atomic_t was_interrupted;

static void on_interrupt(int number)
{
    (void)number;
    was_interrupted = 1;
}

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

static void set_dim(chat *c, bool is_dim)
{
    if (!c->is_terminal || c->is_dim == is_dim) return;
    fputs(is_dim ? "\033[2m" : "\033[0m\n\n", stdout);
    c->is_dim = is_dim;
}

static void take_part(void *ctx, const outparse_event *part)
{
    chat *c = ctx;
    bool is_reasoning = part->kind == OUTPARSE_REASONING;
    if (!is_reasoning && part->kind != OUTPARSE_CONTENT) return;
    buf_put_str(is_reasoning ? &c->reasoning : &c->content, part->text);
    if (is_reasoning && !c->is_terminal) return;
    set_dim(c, is_reasoning);
    fwrite(part->text.ptr, 1, part->text.len, stdout);
    fflush(stdout);
}

static void on_event(void *ctx, const engine_event *ev)
{
    chat *c = ctx;
    err e = {0};
    status s = outparse_feed(c->parser, ev->text, &e);
    c->usage = ev->usage;
    if (ev->kind == ENGINE_FINISH) {
        if (s == ERR_OK) s = outparse_finish(c->parser, &e);
        c->is_done = true;
        c->reason = ev->reason;
        if (ev->error) err_format(ev->error, c->error, sizeof c->error);
    }
    if (s != ERR_OK) c->is_starved = true;
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

/* How it went, for a person. */
static void print_facts(const chat *c)
{
    const engine_usage *u = &c->usage;
    const char *why = c->reason == ENGINE_CANCELED ? "stopped, "
                      : c->reason == ENGINE_LENGTH ? "cut off, "
                                                   : "";
    fprintf(stderr, "%s[%s%lld tokens, %.0f/s, %lld of %lld from the cache]%s\n",
            isatty(STDERR_FILENO) ? "\033[2m" : "", why, (long long)u->completion_tokens,
            u->decode_ms > 0 ? (double)u->completion_tokens * 1000 / u->decode_ms : 0,
            (long long)u->cached_tokens, (long long)u->prompt_tokens,
            isatty(STDERR_FILENO) ? "\033[0m" : "");
}

/* Run the request to its end; Ctrl+C ends it early. */
static status generate(chat *c, const engine_request *q, err *e)
{
    uint64_t id;
    bool is_canceled = false;
    TRY(engine_submit(c->en, q, &id, e));
    was_interrupted = 0;
    while (!c->is_done && engine_step(c->en)) {
        if (!was_interrupted || is_canceled) continue;
        engine_cancel(c->en, id);
        is_canceled = true;
    }
    was_interrupted = 0;
    if (c->error[0]) return err_set(e, ERR_DEVICE, "chat", -1, "%s", c->error);
    return c->is_starved ? err_set(e, ERR_NOMEM, "chat", -1, "answer") : ERR_OK;
}

static status answer(chat *c, err *e)
{
    arena a;
    token_ids ids = {0};
    arena_init(&a, 0);
    buf_clear(&c->reasoning);
    buf_clear(&c->content);
    c->is_done = false;
    status s = encode_history(c, &a, &ids, e);
    outparse_options o = {.starts_in_reasoning = run_is_open_think(engine_tokenizer(c->en), &ids),
                          .emit = take_part,
                          .ctx = c};
    if (s == ERR_OK) s = outparse_open(&c->parser, &o, e);
    if (s == ERR_OK) {
        engine_request q = {.ids = ids.ptr,
                            .n_ids = ids.n,
                            .max_tokens = c->f->max_tokens,
                            .policy = run_flags_policy(c->f, engine_about(c->en)),
                            .n = 1,
                            .on_event = on_event,
                            .ctx = c};
        s = generate(c, &q, e);
    }
    set_dim(c, false);
    putchar('\n');
    fflush(stdout);
    if (s == ERR_OK) {
        put_message(&c->history, "assistant", buf_str(&c->reasoning), buf_str(&c->content));
        if (c->is_terminal) print_facts(c);
    }
    outparse_close(c->parser);
    c->parser = NULL;
    token_ids_fini(&ids);
    arena_fini(&a);
    return s;
}

/* Append one line without its end; false at the end of input. */
static bool read_line(const char *prompt, buf *out)
{
    if (isatty(STDIN_FILENO)) {
        was_interrupted = 0;
        char *line = readline(prompt);
        if (!line && was_interrupted) { /* only the line is given up */
            putchar('\n');
            return true;
        }
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

/* Whether `text` was a command; *leaves for the one that ends the loop. */
static bool run_word(chat *c, str text, bool *leaves)
{
    if (text.len == 0) return true;
    if (text.ptr[0] != '/') return false;
    *leaves = str_is(text, "/exit") || str_is(text, "/quit");
    if (str_is(text, "/clear")) buf_clear(&c->history);
    if (str_is(text, "/help"))
        fprintf(stderr, "/clear starts over, /exit (or Ctrl+D) leaves, a backslash at the end of a "
                        "line continues it, Ctrl+C stops an answer.\n");
    return true;
}

/* One message and its answer. Returns the exit status, or -1 to go on. */
static int take_turn(chat *c, str text)
{
    err e = {0};
    size_t before = c->history.len;
    put_message(&c->history, "user", STR(""), text);
    status s = answer(c, &e);
    if (s == ERR_OK) return -1;
    /* What does not fit is forgotten; /clear makes room. Anything else ends the loop. */
    int failed = command_fail("run", &e);
    c->history.len = before;
    return s == ERR_LIMIT ? -1 : failed;
}

static int read_turns(chat *c)
{
    int code = -1;
    bool leaves = false;
    buf message;
    buf_init(&message);
    while (code < 0 && !leaves && read_message(&message)) {
        str text = str_trim(buf_str(&message));
        if (!run_word(c, text, &leaves)) code = take_turn(c, text);
    }
    buf_fini(&message);
    return code < 0 ? 0 : code;
}

int chat_loop(const run_flags *f, engine *en)
{
    chat c = {.f = f, .en = en, .is_terminal = isatty(STDOUT_FILENO)};
    err e = {0};
    arena a;
    struct sigaction stop = {.sa_handler = on_interrupt}, old;
    const engine_info *info = engine_about(en);
    if (info->chat_template.len == 0)
        return command_fail("run", &(err){.code = ERR_INVALID,
                                          .where = "chat",
                                          .pos = -1,
                                          .msg = "the model has no chat template"});
    if (template_open(&c.t, info->chat_template, "chat_template", &e) != ERR_OK)
        return command_fail("run", &e);
    arena_init(&a, 0);
    buf_init(&c.history);
    buf_init(&c.reasoning);
    buf_init(&c.content);
    bool is_person = isatty(STDIN_FILENO);
    const char *past = is_person ? chat_history_open(&a) : NULL;
    if (is_person) {
        fprintf(stderr, "%s on %s. /help tells more.\n", info->model_name, info->backend);
        sigaction(SIGINT, &stop, &old);
    }
    int code = read_turns(&c);
    if (is_person) sigaction(SIGINT, &old, NULL);
    chat_history_save(past);
    buf_fini(&c.content);
    buf_fini(&c.reasoning);
    buf_fini(&c.history);
    template_close(c.t);
    arena_fini(&a);
    return code;
}
