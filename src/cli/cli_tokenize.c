/* riptide tokenize: text to ids, as Hugging Face's tokenizer of the model gives them. */
#include "base/file.h"
#include "base/json.h"
#include "cli/command_priv.h"
#include "engine/engine_flags.h"
#include "load/load.h"

enum { TEXT_MAX = 256 << 20 };

static status tokenize(const char *model, const char *text, bool plain, arena *a, buf *out, err *e)
{
    load_model files;
    tokenizer *t = NULL;
    token_ids ids = {0};
    str input = str_from(text);
    TRY(load_model_peek(&files, model, e));
    status s = files.tokenizer_json.len > 0
                   ? tokenizer_open(&t, files.tokenizer_json, "tokenizer.json", e)
                   : err_set(e, ERR_FORMAT, model, -1, "has no tokenizer.json");
    if (s == ERR_OK && !text) s = file_read_stdin(a, TEXT_MAX, &input, e);
    if (s == ERR_OK) s = tokenizer_encode(t, input, !plain, 0, &ids, e);
    if (s == ERR_OK) {
        json_writer w;
        json_writer_init(&w, out);
        json_open_object(&w);
        json_key(&w, "tokens");
        json_open_array(&w);
        for (int i = 0; i < ids.n; i++) json_int(&w, ids.ptr[i]);
        json_close_array(&w);
        json_close_object(&w);
        buf_put_byte(out, '\n');
    }
    token_ids_fini(&ids);
    tokenizer_close(t);
    load_model_close(&files);
    return s;
}

int command_tokenize(int argc, char **argv)
{
    engine_flags f;
    engine_flags_init(&f, 1);
    const char *text = NULL;
    bool plain = false;
    option_row rows[] = {
        {"model", OPTION_TEXT, &f.model,
         .help = "folder of a checkpoint (default: the bundled mini-dense)"},
        {"text", OPTION_TEXT, &text, .help = "the text (default: standard input)"},
        {"plain", OPTION_FLAG, &plain, .help = "special tokens in the text stay ordinary text"},
        {0},
    };
    int code = command_parse(rows, "riptide tokenize [--model M] [--text T] < text", argc, argv);
    if (code >= 0) return code;
    arena a;
    buf out;
    err e = {0};
    const char *model;
    arena_init(&a, 0);
    buf_init(&out);
    status s = engine_flags_find_model(&f, &a, &model, &e);
    if (s == ERR_OK) s = tokenize(model, text, plain, &a, &out, &e);
    code = s == ERR_OK ? command_print(argv[0], &out) : command_fail(argv[0], &e);
    buf_fini(&out);
    arena_fini(&a);
    return code;
}
