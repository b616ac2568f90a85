/* riptide tokenize: text to ids, as Hugging Face's tokenizer of the model gives them. */
#include "base/file.h"
#include "base/json.h"
#include "cli/command_priv.h"
#include "engine/engine_flags.h"
#include "engine/engine_tokenizer.h"
#include "load/load.h"

enum { TEXT_MAX = 256 << 20 };

typedef struct {
    engine_flags f;
    const char *text;
    bool is_plain;
} tokenize_flags;

static status tokenize(void *flags, arena *a, buf *out, err *e)
{
    const tokenize_flags *f = flags;
    const char *path;
    load_model files;
    tokenizer *t = NULL;
    token_ids ids = {0};
    str input = str_from(f->text);
    TRY(engine_flags_find_model(&f->f, a, &path, e));
    TRY(load_model_peek(&files, path, e));
    status s = engine_tokenizer_open(&t, &files, e);
    if (s == ERR_OK && !f->text) s = file_read_stdin(a, TEXT_MAX, &input, e);
    if (s == ERR_OK) s = tokenizer_encode(t, input, !f->is_plain, 0, &ids, e);
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
    tokenize_flags f = {0};
    engine_flags_init(&f.f, 1);
    option_row rows[] = {
        {"model", OPTION_TEXT, &f.f.model,
         .help = "folder of a checkpoint (default: the bundled mini-dense)"},
        {"text", OPTION_TEXT, &f.text, .help = "the text (default: standard input)"},
        {"plain", OPTION_FLAG, &f.is_plain,
         .help = "special tokens in the text stay ordinary text"},
        {0},
    };
    int code = command_parse(rows, "riptide tokenize [--model M] [--text T] < text", argc, argv);
    return code >= 0 ? code : command_output(argv[0], tokenize, &f);
}
