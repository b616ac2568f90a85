/* riptide pull: a model and its draft into the cache of the Hugging Face tools. */
#include <stdio.h>
#include <string.h>

#include "cli/command_priv.h"
#include "engine/engine_hub.h"

typedef struct {
    const char *name, *revision, *draft;
} pull_flags;

static void put_model(buf *out, const char *kind, const hub_model *m)
{
    buf_printf(out, "%s %s\n", kind, m->path);
}

/* The family's draft may be missing; one that was named may not. */
static status pull_draft(const pull_flags *f, const char *model, arena *a, buf *out, err *e)
{
    load_model m;
    hub_name name;
    hub_model draft;
    if (f->draft && strcmp(f->draft, "none") == 0) return ERR_OK;
    TRY(load_model_peek(&m, model, e));
    const char *text = f->draft ? f->draft : engine_hub_draft_of(&m.target);
    engine_hub_wish w = {.asks_first = true, .wants_draft = true, .of = &m.target};
    status s = ERR_OK;
    if (text && !hub_name_parse(str_from(text), &name))
        s = err_set(e, ERR_INVALID, "--draft-model", -1, "\"%s\": want OWNER/REPO or none", text);
    else if (text)
        s = engine_hub_take(&name, &w, a, &draft, e);
    load_model_close(&m);
    if (s == ERR_OK && text) put_model(out, "draft", &draft);
    if (s == ERR_OK || f->draft) return s;
    char why[400];
    err_format(e, why, sizeof why);
    fprintf(stderr, "note: the model is there, its draft is not: %s\n", why);
    return ERR_OK;
}

static status pull(void *flags, arena *a, buf *out, err *e)
{
    const pull_flags *f = flags;
    hub_name name;
    hub_model m;
    engine_hub_wish w = {.revision = f->revision, .asks_first = true};
    if (!f->name) return err_set(e, ERR_INVALID, "OWNER/REPO[:VARIANT]", -1, "which model?");
    if (!hub_name_parse(str_from(f->name), &name))
        return err_set(e, ERR_INVALID, f->name, -1, "is not of the form OWNER/REPO[:VARIANT]");
    TRY(engine_hub_take(&name, &w, a, &m, e));
    put_model(out, "model", &m);
    return pull_draft(f, m.path, a, out, e);
}

int command_pull(int argc, char **argv)
{
    pull_flags f = {0};
    int n_rest = 0;
    bool wants_help = false;
    err e = {0};
    const char *usage =
        "riptide pull OWNER/REPO[:VARIANT]\n\nThe environment of the Hugging Face tools counts: "
        "HF_HOME, HF_HUB_CACHE, HF_TOKEN,\nHF_ENDPOINT, HF_HUB_OFFLINE and so on.";
    option_row rows[] = {
        {"revision", OPTION_TEXT, &f.revision, .help = "branch, tag or commit (default: main)"},
        {"draft-model", OPTION_TEXT, &f.draft,
         .help = "OWNER/REPO of a draft, or none (default: that of the model's family)"},
        {0},
    };
    status s = option_parse(rows, argc, argv, &f.name, 1, &n_rest, &wants_help, &e);
    if (wants_help) {
        option_print_help(rows, usage);
        return 0;
    }
    if (s != ERR_OK) {
        command_fail(argv[0], &e);
        return 2;
    }
    return command_output(argv[0], pull, &f);
}
