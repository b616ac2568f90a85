/* riptide template: the prompt that a conversation renders to, byte for byte. */
#include "cli/command_priv.h"
#include "cli/prompt_priv.h"
#include "engine/engine_flags.h"
#include "load/load.h"

static status render(const char *model, const char *messages, bool no_thinking, arena *a, buf *out,
                     err *e)
{
    load_model files;
    template *t = NULL;
    message_set m;
    if (!messages) return err_set(e, ERR_INVALID, "--messages", -1, "no file named");
    TRY(load_model_peek(&files, model, e));
    status s = files.chat_template.len > 0
                   ? template_open(&t, files.chat_template, "chat_template", e)
                   : err_set(e, ERR_FORMAT, model, -1, "has no chat template");
    if (s == ERR_OK) s = prompt_from_file(a, messages, t, no_thinking, &m, e);
    if (s == ERR_OK) s = prompt_render(t, &m, files.bos_token, files.eos_token, out, NULL, e);
    template_close(t);
    load_model_close(&files);
    return s;
}

int command_template(int argc, char **argv)
{
    engine_flags f;
    engine_flags_init(&f, 1);
    const char *messages = NULL;
    bool no_thinking = false;
    option_row rows[] = {
        {"model", OPTION_TEXT, &f.model,
         .help = "folder of a checkpoint (default: the bundled mini-dense)"},
        {"messages", OPTION_TEXT, &messages, .help = "JSON file: messages, or a Chat request"},
        {"no-thinking", OPTION_FLAG, &no_thinking, .help = "render with enable_thinking = false"},
        {0},
    };
    int code = command_parse(rows, "riptide template [--model M] --messages FILE", argc, argv);
    if (code >= 0) return code;
    arena a;
    buf out;
    err e = {0};
    const char *model;
    arena_init(&a, 0);
    buf_init(&out);
    status s = engine_flags_find_model(&f, &a, &model, &e);
    if (s == ERR_OK) s = render(model, messages, no_thinking, &a, &out, &e);
    code = s == ERR_OK ? command_print(argv[0], &out) : command_fail(argv[0], &e);
    buf_fini(&out);
    arena_fini(&a);
    return code;
}
