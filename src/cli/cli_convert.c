/* riptide convert: any model that can be opened, as one GGUF file. */
#include <ctype.h>

#include "cli/command_priv.h"
#include "engine/engine_flags.h"
#include "load/convert.h"

#define TYPES \
    "f32|f16|bf16|q4_0|q4_1|q5_0|q5_1|q8_0|q2_k|q3_k|q4_k|q5_k|q6_k|iq4_nl|iq4_xs|mxfp4|nvfp4"

typedef struct {
    engine_flags f;
    const char *out, *type;
} convert_flags;

/* "q4_k" as the dtype Q4_K; a choice of TYPES always is one. */
static dtype find_type(const char *name)
{
    for (int t = DTYPE_NONE + 1; t < DTYPE_COUNT; t++) {
        const char *known = dtype_name((dtype)t);
        size_t i = 0;
        while (name[i] && toupper((unsigned char)name[i]) == known[i]) i++;
        if (!name[i] && !known[i]) return (dtype)t;
    }
    return DTYPE_NONE;
}

static status convert(void *flags, arena *a, buf *out, err *e)
{
    const convert_flags *f = flags;
    const char *path;
    load_model m;
    (void)out;
    if (!f->out) return err_set(e, ERR_INVALID, "--out", -1, "no file named");
    TRY(engine_flags_find_model(&f->f, a, &path, e));
    TRY(load_model_open(&m, path, e));
    status s = load_convert(&m, f->out, find_type(f->type), (int)f->f.threads, e);
    load_model_close(&m);
    return s;
}

int command_convert(int argc, char **argv)
{
    convert_flags f = {.type = "q8_0"};
    engine_flags_init(&f.f, 1);
    option_row rows[] = {
        {"model", OPTION_TEXT, &f.f.model,
         .help = "folder or GGUF file of a target or a draft (default: the bundled mini-dense)"},
        {"out", OPTION_TEXT, &f.out, .help = "the GGUF file to write"},
        {"type", OPTION_CHOICE, &f.type, .choices = TYPES,
         .help = "of matrices; rows that are no whole blocks of it become q8_0"},
        {"threads", OPTION_INT, &f.f.threads, .min = 0, .max = 1024,
         .help = "that encode (0: all cores)"},
        {0},
    };
    int code = command_parse(rows, "riptide convert [--model M] --out FILE [--type T]", argc, argv);
    return code >= 0 ? code : command_output(argv[0], convert, &f);
}
