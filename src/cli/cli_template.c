/* riptide template: the prompt that a conversation renders to, byte for byte. */
#include "cli/command_priv.h"
#include "cli/prompt_priv.h"
#include "engine/engine_flags.h"
#include "load/load.h"

typedef struct {
    engine_flags f;
    const char *messages;
    bool no_thinking;
} template_flags;

static status render(void *flags, arena *a, buf *out, err *e)
{
    const template_flags *f = flags;
    const char *model;
    load_model files;
    template *t = NULL;
    message_set m;
    TRY(engine_flags_find_model(&f->f, a, &model, e));
    if (!f->messages) return err_set(e, ERR_INVALID, "--messages", -1, "no file named");
    TRY(load_model_peek(&files, model, e));
    status s = files.chat_template.len > 0
                   ? template_open(&t, files.chat_template, "chat_template", e)
                   : err_set(e, ERR_FORMAT, model, -1, "has no chat template");
    if (s == ERR_OK) s = prompt_from_file(a, f->messages, t, f->no_thinking, &m, e);
    if (s == ERR_OK) s = prompt_render(t, &m, files.bos_token, files.eos_token, out, NULL, e);
    template_close(t);
    load_model_close(&files);
    return s;
}

int command_template(int argc, char **argv)
{
    template_flags f = {0};
    engine_flags_init(&f.f, 1);
    option_row rows[] = {
        {"model", OPTION_TEXT, &f.f.model,
         .help = "folder of a checkpoint (default: the bundled mini-dense)"},
        {"messages", OPTION_TEXT, &f.messages, .help = "JSON file: messages, or a Chat request"},
        {"no-thinking", OPTION_FLAG, &f.no_thinking, .help = "render with enable_thinking = false"},
        {0},
    };
    int code = command_parse(rows, "riptide template [--model M] --messages FILE", argc, argv);
    return code >= 0 ? code : command_output(argv[0], render, &f);
}
