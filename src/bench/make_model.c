/* riptide bench make-model. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "bench/bench_priv.h"
#include "bench/make_priv.h"
#include "engine/engine_flags.h"

enum { COPY_MOST = 64 << 20, LAYERS_MOST = 256 };
static const int64_t FILE_MOST = 5000000000;

static status make_folder(const char *dir, err *e)
{
    if (mkdir(dir, 0755) == 0 || (errno == EEXIST && file_is_dir(dir))) return ERR_OK;
    return err_set(e, ERR_IO, dir, -1, "cannot make the folder: %s", strerror(errno));
}

static status copy_file(const char *from_dir, const char *to_dir, const char *name, err *e)
{
    char from[4096], to[4096];
    arena a;
    str text;
    snprintf(from, sizeof from, "%s/%s", from_dir, name);
    snprintf(to, sizeof to, "%s/%s", to_dir, name);
    if (!file_exists(from)) return ERR_OK;
    arena_init(&a, 0);
    status s = file_read(&a, from, COPY_MOST, &text, e);
    if (s == ERR_OK) s = file_write(to, text, e);
    arena_fini(&a);
    return s;
}

static status write_config(const make_request *r, const char *dir, const char *name,
                           void (*put)(const make_request *r, buf *out), err *e)
{
    char path[4096];
    buf out;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    buf_init(&out);
    put(r, &out);
    buf_put_byte(&out, '\n');
    status s = out.failed ? err_set(e, ERR_NOMEM, path, -1, "out of memory")
                          : file_write(path, buf_str(&out), e);
    buf_fini(&out);
    return s;
}

static status write_weights(const make_request *r, const char *dir, bool is_draft, make_result *out,
                            err *e)
{
    plan p;
    plan_init(&p, is_draft ? r->seed + 1000 : r->seed);
    if (is_draft)
        make_draft_plan(&p, r);
    else
        make_target_plan(&p, r);
    plan_shard(&p, r->file_bytes > 0 ? r->file_bytes : FILE_MOST);
    status s = plan_write(&p, dir, is_draft ? NULL : "mlx", e);
    if (is_draft) {
        out->draft_bytes = p.n_bytes;
    } else {
        out->target_bytes = p.n_bytes;
        out->target_files = p.n_shards;
    }
    plan_fini(&p);
    return s;
}

static status write_tokenizer(const make_request *r, err *e)
{
    static const char *const files[] = {"tokenizer.json", "tokenizer_config.json",
                                        "chat_template.jinja"};
    for (int i = 0; r->tokenizer && i < 3; i++) TRY(copy_file(r->tokenizer, r->out, files[i], e));
    return ERR_OK;
}

status make_checkpoint(const make_request *r, make_result *out, err *e)
{
    char draft[4096];
    int n = snprintf(draft, sizeof draft, "%s-dflash2", r->out);
    if (n < 0 || n >= (int)sizeof draft - 64)
        return err_set(e, ERR_INVALID, "--out", -1, "the path is too long");
    TRY(make_folder(r->out, e));
    TRY(make_folder(draft, e));
    TRY(write_weights(r, r->out, false, out, e));
    TRY(write_weights(r, draft, true, out, e));
    TRY(write_tokenizer(r, e));
    /* Last: without it a folder is no model, so that an interrupted run leaves none. */
    TRY(write_config(r, r->out, "generation_config.json", make_generation_config, e));
    TRY(write_config(r, draft, "config.json", make_draft_config, e));
    return write_config(r, r->out, "config.json", make_target_config, e);
}

typedef struct {
    const char *shape, *out;
    int64_t layers;
    uint64_t seed;
    double dial;
    bool has_dial;
} make_flags;

static status run(const make_flags *f, arena *a, err *e)
{
    if (!f->shape) return err_set(e, ERR_INVALID, "--shape", -1, "is missing");
    if (!f->out) return err_set(e, ERR_INVALID, "--out", -1, "is missing");
    const shape *known = shape_find(f->shape);
    if (!known) return err_set(e, ERR_INVALID, "--shape", -1, "\"%s\" is not known", f->shape);
    make_request r = {
        .s = *known, .seed = f->seed, .dial = f->has_dial ? f->dial : -1, .out = f->out};
    if (f->layers > 0) shape_set_layers(&r.s, (int)f->layers);
    engine_flags bundled;
    engine_flags_init(&bundled, 1);
    if (engine_flags_find_model(&bundled, a, &r.tokenizer, NULL) != ERR_OK) {
        r.tokenizer = NULL;
        fprintf(stderr, "note: the bundled model was not found; no tokenizer is written\n");
    }
    make_result out = {0};
    int64_t start = clock_ns();
    TRY(make_checkpoint(&r, &out, e));
    double seconds = clock_ms_since(start) * 1e-3;
    double total = (double)(out.target_bytes + out.draft_bytes);
    printf("%s: %d layers, %.3f GB in %d files; draft %.3f GB; %.1f s, %.2f GB/s\n", f->out,
           r.s.n_layers, (double)out.target_bytes * 1e-9, out.target_files,
           (double)out.draft_bytes * 1e-9, seconds, total * 1e-9 / seconds);
    return ERR_OK;
}

int bench_make_model(int argc, char **argv)
{
    make_flags f = {.seed = 1};
    const option_row rows[] = {
        {"shape", OPTION_CHOICE, &f.shape, .choices = "0.8b|27b|35b-a3b", .help = "the geometry"},
        {"layers", OPTION_INT, &f.layers, .min = 0, .max = LAYERS_MOST,
         .help = "layers (0: as many as the real one)"},
        {"seed", OPTION_SEED, &f.seed, .help = "of the random weights"},
        {"dial", OPTION_DOUBLE, &f.dial, .min = 0, .max = 1, .was_set = &f.has_dial,
         .help = "a constant-token model whose draft is right with this probability at "
                 "temperature 1"},
        {"out", OPTION_TEXT, &f.out, .help = "folder; the draft goes to OUT-dflash2"},
        {0},
    };
    int code = bench_parse(
        rows, "riptide bench make-model --shape S --out DIR [--layers N] [--dial D]", argc, argv);
    if (code >= 0) return code;
    arena a;
    err e = {0};
    arena_init(&a, 0);
    status s = run(&f, &a, &e);
    arena_fini(&a);
    return s == ERR_OK ? 0 : bench_fail(argv[0], &e);
}
