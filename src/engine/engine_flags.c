#include "engine/engine_flags.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "engine/engine_hub.h"

enum { CONTEXT_DEFAULT = 64 << 10, PREFILL_ALL = 1 << 16, DRAFT_ROWS_MAX = 15 };
enum { TURN_MEMORY_DEFAULT = 8 << 20 };

void engine_flags_init(engine_flags *f, int lanes)
{
    *f = (engine_flags){.kv_format = "int8",
                        .state_format = "f32",
                        .draft_rows = "auto",
                        .prefill_rows = "auto",
                        .prompt_cache = "on",
                        .lanes = lanes,
                        .decode_share = 0.5,
                        .turn_memory = TURN_MEMORY_DEFAULT,
                        .max_context = CONTEXT_DEFAULT};
}

int engine_flags_rows(engine_flags *f, option_row *rows)
{
    option_row all[ENGINE_FLAG_ROWS] = {
        {"model", OPTION_TEXT, &f->model,
         .help = "folder, GGUF file or OWNER/REPO[:VARIANT] (default: the bundled mini-dense)"},
        {"draft-model", OPTION_TEXT, &f->draft_model,
         .help =
             "a DFlash draft likewise, or none (default: MODEL-dflash2 beside, or the family's)"},
        {"revision", OPTION_TEXT, &f->revision,
         .help = "branch, tag or commit of OWNER/REPO (default: main)"},
        {"offline", OPTION_FLAG, &f->offline, .help = "never ask the hub, also HF_HUB_OFFLINE=1"},
        {"backend", OPTION_TEXT, &f->backend,
         .help = "ref, cpu or cuda, also cpu:avx2 and so on (default: the fastest there is)"},
        {"kv-format", OPTION_CHOICE, &f->kv_format, .choices = "int8|bf16|f32",
         .help = "how keys and values are kept"},
        {"state-format", OPTION_CHOICE, &f->state_format, .choices = "f32|bf16",
         .help = "how recurrent states are kept; bf16 takes half the memory and rounds them"},
        {"draft-rows", OPTION_TEXT, &f->draft_rows,
         .help = "proposals a cycle: auto (as many as pay, lane by lane) or 0 to 15"},
        {"prefill-rows", OPTION_TEXT, &f->prefill_rows,
         .help = "most prompt tokens of one step, all, or auto: 2048 on cuda, else 512"},
        {"lanes", OPTION_INT, &f->lanes, .min = 0, .max = 64,
         .help = "sequences at a time (0: as many as the memory is good for)"},
        {"threads", OPTION_INT, &f->threads, .min = 0, .max = 1024,
         .help = "threads of the cpu backends (0: all cores)"},
        {"pin-threads", OPTION_FLAG, &f->pin_threads,
         .help = "bind each to a core, on a machine that does nothing else"},
        {"max-context", OPTION_SIZE, &f->max_context, .min = 1, .max = 1 << 24,
         .help = "most tokens of a sequence, cut to what the model has"},
        {"max-memory", OPTION_SIZE, &f->max_memory, .min = 0, .max = 0x1p46,
         .help = "bytes that all may take (0: what the machine has less a margin)"},
        {"decode-share", OPTION_DOUBLE, &f->decode_share, .min = 0, .max = 10,
         .help = "time for running answers for each time of prompts beside them"},
        {"prompt-cache", OPTION_CHOICE, &f->prompt_cache, .choices = "on|off",
         .help = "take over what earlier prompts and answers share with a new prompt"},
        {"cache-memory", OPTION_SIZE, &f->cache_memory, .min = 0, .max = 0x1p46,
         .help = "bytes for the states that the prompt cache keeps (0: by the lanes' memory)"},
        {"turn-memory", OPTION_SIZE, &f->turn_memory, .min = 0, .max = 1 << 30,
         .help = "bytes for answers as they were generated, for when they come back (0: none)"},
    };
    memcpy(rows, all, sizeof all);
    return ENGINE_FLAG_ROWS;
}

static status find_bundled(arena *a, const char **path, err *e)
{
    static const char *const places[] = {
        "../models/mini-dense", "../share/riptide/models/mini-dense", "../../models/mini-dense"};
    const char *dir = file_exe_dir(a);
    for (size_t i = 0; dir && i < sizeof places / sizeof *places; i++) {
        *path = file_join(a, dir, places[i]);
        if (*path && file_is_dir(*path)) return ERR_OK;
    }
    return err_set(e, ERR_IO, "model", -1,
                   "the bundled mini-dense was not found beside %s; name one with --model",
                   dir ? dir : "the binary");
}

/* `text` is the name as it was given, or NULL when the program made it up. */
static status take_named(const engine_flags *f, const char *text, const hub_name *n,
                         const arch_target *of, arena *a, const char **path, err *e)
{
    hub_model m;
    engine_hub_wish w = {
        .is_offline = f->offline, .wants_draft = of != NULL, .of = of, .path = text};
    /* A revision is the model's: a draft is another repository. */
    if (!of) w.revision = f->revision;
    TRY(engine_hub_take(n, &w, a, &m, e));
    *path = m.path;
    return ERR_OK;
}

status engine_flags_find_model(const engine_flags *f, arena *a, const char **path, err *e)
{
    hub_name name;
    if (!f->model) return find_bundled(a, path, e);
    if (engine_hub_is_name(f->model, &name))
        return take_named(f, f->model, &name, NULL, a, path, e);
    size_t len = strlen(f->model);
    while (len > 1 && f->model[len - 1] == '/') len--;
    *path = arena_copy(a, f->model, len);
    if (!*path) return err_set(e, ERR_NOMEM, "model", -1, "path");
    if (!file_exists(*path))
        return err_set(e, ERR_IO, f->model, -1,
                       "no such file or folder, and not of the form OWNER/REPO[:VARIANT]");
    return ERR_OK;
}

/* The draft of the target's family. That it is not there is no failure: the same tokens come
 * without it, only later. */
static void find_family_draft(const engine_flags *f, arena *a, const char *model, const char **path)
{
    load_model m;
    hub_name name, draft;
    err why = {0};
    /* What cannot be opened is told when it is opened. */
    if (load_model_peek(&m, model, NULL) != ERR_OK) return;
    const char *repository = m.is_draft ? NULL : engine_hub_draft_of(&m.target);
    if (repository && hub_name_parse(str_from(repository), &draft)) {
        engine_flags g = *f;
        bool is_fetched = f->model && engine_hub_is_name(f->model, &name);
        if (!is_fetched) g.offline = true;
        if (take_named(&g, NULL, &draft, &m.target, a, path, &why) != ERR_OK && is_fetched)
            fprintf(stderr, "note: no draft: %s: %s\n", why.where, why.msg);
    }
    load_model_close(&m);
}

static status find_beside(arena *a, const char *model, const char **path, err *e)
{
    char beside[4096];
    str name = str_from(model), end = STR(".gguf");
    bool is_file = str_ends(name, end);
    if (is_file) name.len -= end.len;
    int n = name.len > sizeof beside ? -1
                                     : snprintf(beside, sizeof beside, "%.*s-dflash2%s",
                                                STR_ARG(name), is_file ? end.ptr : "");
    if (n > 0 && n < (int)sizeof beside && (is_file ? file_exists(beside) : file_is_dir(beside))) {
        *path = arena_copy(a, beside, (size_t)n);
        if (!*path) return err_set(e, ERR_NOMEM, "draft-model", -1, "path");
    }
    return ERR_OK;
}

static status find_named_draft(const engine_flags *f, arena *a, const char *model,
                               const char **path, err *e)
{
    hub_name name;
    load_model m;
    if (!engine_hub_is_name(f->draft_model, &name)) {
        if (!file_exists(f->draft_model))
            return err_set(e, ERR_IO, f->draft_model, -1,
                           "no such file or folder, and not of the form OWNER/REPO[:VARIANT]");
        *path = f->draft_model;
        return ERR_OK;
    }
    TRY(load_model_peek(&m, model, e));
    status s = take_named(f, f->draft_model, &name, &m.target, a, path, e);
    load_model_close(&m);
    return s;
}

static status find_draft(const engine_flags *f, arena *a, const char *model, const char **path,
                         err *e)
{
    *path = NULL;
    if (f->draft_model && strcmp(f->draft_model, "none") == 0) return ERR_OK;
    if (f->draft_model) return find_named_draft(f, a, model, path, e);
    TRY(find_beside(a, model, path, e));
    if (!*path) find_family_draft(f, a, model, path);
    return ERR_OK;
}

static status parse_count(const char *text, const char *word, int word_value, int min, int max,
                          const char *flag, const char *words, int *out, err *e)
{
    int64_t n;
    if (strcmp(text, word) == 0) {
        *out = word_value;
        return ERR_OK;
    }
    if (!str_to_int64(str_from(text), &n) || n < min || n > max)
        return err_set(e, ERR_INVALID, flag, -1, "\"%s\": want %s or %d to %d", text, words, min,
                       max);
    *out = (int)n;
    return ERR_OK;
}

status engine_flags_resolve(const engine_flags *f, arena *a, engine_options *o, err *e)
{
    engine_options out = {.backend = f->backend,
                          .n_threads = (int)f->threads,
                          .pins_threads = f->pin_threads,
                          .n_lanes = (int)f->lanes,
                          .max_context = f->max_context,
                          .max_memory = f->max_memory,
                          .decode_share = f->decode_share,
                          .cache_bytes = f->cache_memory,
                          .turn_bytes = f->turn_memory > 0 ? f->turn_memory : -1};
    if (strcmp(f->prompt_cache, "off") == 0) out.cache_bytes = -1;
    TRY(engine_flags_find_model(f, a, &out.model, e));
    TRY(find_draft(f, a, out.model, &out.draft, e));
    TRY(parse_count(f->draft_rows, "auto", ENGINE_ROWS_AUTO, 0, DRAFT_ROWS_MAX, "--draft-rows",
                    "auto", &out.draft_rows, e));
    if (strcmp(f->prefill_rows, "auto") != 0)
        TRY(parse_count(f->prefill_rows, "all", PREFILL_ALL, 1, PREFILL_ALL, "--prefill-rows",
                        "auto, all", &out.prefill_rows, e));
    out.kv = strcmp(f->kv_format, "int8") == 0   ? ENGINE_KV_INT8
             : strcmp(f->kv_format, "bf16") == 0 ? ENGINE_KV_BF16
                                                 : ENGINE_KV_F32;
    if (strcmp(f->state_format, "bf16") == 0) out.state = ENGINE_STATE_BF16;
    *o = out;
    return ERR_OK;
}

void engine_progress_show(void *ctx, int layers_done, int layers)
{
    engine_progress *p = ctx;
    int64_t now = clock_ns();
    if (p->start_ns == 0) p->start_ns = now;
    bool is_last = layers_done == layers && p->shown_ns > 0;
    if (now - p->start_ns < 1000000000 || (now - p->shown_ns < 250000000 && !is_last)) return;
    p->shown_ns = now;
    fprintf(stderr, "\rloading: layer %d of %d%s", layers_done, layers, is_last ? "\n" : "");
    fflush(stderr);
}
