/* The tool loop of a replay: a question, a call that the model makes for it, and that call sent
 * back the ways that clients have. */
#include <string.h>

#include "base/json.h"
#include "bench/replay_priv.h"
#include "chat/outparse.h"
#include "session/history.h"

enum { ANSWER_MOST = 400 };

static const char tools_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"edit\",\"description\":\"Change a file\","
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},"
    "\"text\":{\"type\":\"string\"},\"line\":{\"type\":\"integer\"}}}}}]";

/* What the model may answer: the shape is given, the values are its own. */
static const char call_regex[] =
    "\\n\\n<tool_call>\\n<function=edit>\\n<parameter=path>\\n[a-z]{3,12}\\.c\\n</parameter>\\n"
    "<parameter=text>\\n[a-z ]{40,200}x\\n</parameter>\\n<parameter=line>\\n[1-9][0-9]{0,3}\\n"
    "</parameter>\\n</function>\\n</tool_call>";

typedef struct {
    replay *p;
    arena mem;
    template *tpl;
    const json *tools;
    grammar *call;
    str question;       /* JSON of the first message */
    buf arguments;      /* of the call that the model made */
    turn_prompt prompt; /* that it was made for */
    token_ids ids;
} tool_loop;

static status encode(tool_loop *l, str messages, history_made *made, err *e)
{
    const engine_info *about = engine_about(l->p->en);
    history_request h = {.tpl = l->tpl,
                         .tokens = engine_tokenizer(l->p->en),
                         .turns = engine_turns(l->p->en),
                         .input = {.tools = l->tools,
                                   .bos_token = about->bos_token,
                                   .eos_token = about->eos_token,
                                   .add_generation_prompt = true}};
    buf text;
    TRY(json_parse(&l->mem, messages, "messages", 64, 0, &h.input.messages, e));
    buf_init(&text);
    l->ids.n = 0;
    status s = history_encode(&h, &text, &l->ids, made, e);
    buf_fini(&text);
    return s;
}

static void take_arguments(void *ctx, const outparse_event *ev)
{
    tool_loop *l = ctx;
    if (ev->kind == OUTPARSE_ARGUMENTS) buf_put_str(&l->arguments, ev->text);
}

/* The call as the client gets it. */
static status read_call(tool_loop *l, err *e)
{
    outparse *o;
    const vocab *v = tokenizer_vocab(engine_tokenizer(l->p->en));
    outparse_options opt = {
        .tools = l->tools, .starts_in_reasoning = true, .emit = take_arguments, .ctx = l};
    TRY(outparse_open(&o, &opt, e));
    status s = ERR_OK;
    for (int i = 0; i < l->p->answer.n && s == ERR_OK; i++)
        s = outparse_feed(o, vocab_bytes(v, l->p->answer.ptr[i]), e);
    if (s == ERR_OK) s = outparse_finish(o, e);
    outparse_close(o);
    if (s == ERR_OK && (l->arguments.failed || l->arguments.len == 0))
        s = err_set(e, ERR_INVALID, "agent-replay", -1, "the model made no call");
    return s;
}

static status make_question(tool_loop *l, int64_t n_ids, err *e)
{
    const vocab *v = tokenizer_vocab(engine_tokenizer(l->p->en));
    buf text, quoted;
    buf_init(&text);
    buf_init(&quoted);
    for (int64_t i = 0; i < n_ids && i < l->p->text.n; i++)
        buf_put_str(&text, vocab_bytes(v, l->p->text.ptr[i]));
    buf_put_c(&quoted, "{\"role\":\"user\",\"content\":");
    json_put_string(&quoted, buf_str(&text));
    buf_put_c(&quoted, "}");
    l->question = (str){arena_copy(&l->mem, buf_str(&quoted).ptr, quoted.len), quoted.len};
    bool failed = text.failed || quoted.failed || !l->question.ptr;
    buf_fini(&text);
    buf_fini(&quoted);
    return failed ? err_set(e, ERR_NOMEM, "agent-replay", -1, "a question") : ERR_OK;
}

/* The question, and the model's call, which is remembered. */
static status ask_question(tool_loop *l, err *e)
{
    history_made made;
    buf messages;
    buf_init(&messages);
    buf_put_c(&messages, "[");
    buf_put_str(&messages, l->question);
    buf_put_c(&messages, "]");
    status s = encode(l, buf_str(&messages), &made, e);
    engine_request like = {.grammar = l->call,
                           .starts_in_reasoning = true,
                           .has_reasoning_limit = true,
                           .reasoning_most = l->p->r->n_new,
                           .max_tokens = l->p->r->n_new + ANSWER_MOST};
    if (s == ERR_OK) s = replay_ask(l->p, "tool loop", &l->ids, &like, e);
    if (s == ERR_OK) s = read_call(l, e);
    buf_fini(&messages);
    if (s != ERR_OK || !engine_turns(l->p->en)) return s;
    turn t = {.n_messages = 1,
              .n_ids = l->p->answer.n,
              .n_calls = 1,
              .ids = l->p->answer.ptr,
              .call_ids = &STR("call_1")};
    turn_memory_put(engine_turns(l->p->en), &made.prompt, &t);
    return ERR_OK;
}

/* The members of the arguments the other way round, with other spacing. */
static status put_turned(tool_loop *l, buf *out, err *e)
{
    const json *v;
    TRY(json_parse(&l->mem, buf_str(&l->arguments), "arguments", 64, 0, &v, e));
    buf_put_c(out, "{");
    for (int i = v->n - 1; i >= 0; i--) {
        const json *member = v->first;
        for (int k = 0; k < i; k++) member = member->next;
        buf_put_c(out, i + 1 < v->n ? " , " : " ");
        json_put_string(out, member->key);
        buf_put_c(out, " : ");
        json_put_value(out, member, JSON_PYTHON);
    }
    buf_put_c(out, " }");
    return ERR_OK;
}

/* The call comes back with its result. */
static status ask_again(tool_loop *l, const char *name, bool turns_arguments, err *e)
{
    buf m;
    history_made made;
    buf_init(&m);
    buf_put_c(&m, "[");
    buf_put_str(&m, l->question);
    buf_put_c(&m, ",{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"call_1\","
                  "\"type\":\"function\",\"function\":{\"name\":\"edit\",\"arguments\":");
    status s = ERR_OK;
    if (turns_arguments)
        s = put_turned(l, &m, e);
    else
        buf_put_str(&m, buf_str(&l->arguments));
    buf_put_c(&m, "}}]},{\"role\":\"tool\",\"content\":\"it is done\"}]");
    if (s == ERR_OK) s = encode(l, buf_str(&m), &made, e);
    if (s == ERR_OK) s = replay_ask(l->p, name, &l->ids, &(engine_request){0}, e);
    buf_fini(&m);
    return s;
}

static status run(tool_loop *l, int64_t n_ids, err *e)
{
    const engine_info *about = engine_about(l->p->en);
    TRY(template_open(&l->tpl, about->chat_template, "chat_template", e));
    TRY(json_parse(&l->mem, STR(tools_text), "tools", 64, 0, &l->tools, e));
    TRY(grammar_open_regex(&l->call, STR(call_regex), e));
    TRY(make_question(l, n_ids, e));
    TRY(ask_question(l, e));
    TRY(ask_again(l, "reasoning left out", false, e));
    TRY(ask_again(l, "calls respelled", true, e));
    for (int i = 0; i < l->ids.n; i++)
        if (!token_ids_push(&l->p->spliced, l->ids.ptr[i]))
            return err_set(e, ERR_NOMEM, "agent-replay", -1, "prompt");
    l->p->spliced_output = l->p->row->output;
    return ERR_OK;
}

status replay_chat(replay *p, int64_t n_ids, err *e)
{
    tool_loop l = {.p = p};
    arena_init(&l.mem, 0);
    buf_init(&l.arguments);
    status s = run(&l, n_ids, e);
    template_close(l.tpl);
    grammar_close(l.call);
    token_ids_fini(&l.ids);
    buf_fini(&l.arguments);
    arena_fini(&l.mem);
    return s;
}
