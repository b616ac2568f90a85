#include "engine/engine_hub.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

/* Known by their geometry: names of repositories are free. */
static const struct {
    arch_family family;
    int E, n_layers, X;
    const char *draft;
} families[] = {
    {ARCH_QWEN35, 5120, 64, 0, "incoai/Qwen3.8-27B-DFlash2"},
    {ARCH_QWEN35_MOE, 2048, 40, 256, "incoai/Qwen3.6-35B-A3B-DFlash2"},
};

const char *engine_hub_draft_of(const arch_target *t)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (families[i].family == t->family && families[i].E == t->E &&
            families[i].n_layers == t->n_layers && families[i].X == t->X)
            return families[i].draft;
    return NULL;
}

bool engine_hub_is_name(const char *text, hub_name *out)
{
    return !file_exists(text) && hub_name_parse(str_from(text), out);
}

/* --- telling -------------------------------------------------------------------------------------
 */

typedef struct {
    const engine_hub_wish *wish;
    int64_t shown_ns;
    bool is_terminal, is_open; /* a line that is written over */
    bool has_seen;             /* the repository is there: its head was looked at */
} listener;

/* "2 min 5 s" */
static void format_time(double s, char out[32])
{
    long n = s < 1e6 ? (long)(s + 0.5) : 1000000;
    if (n < 60)
        snprintf(out, 32, "%ld s", n);
    else if (n < 3600)
        snprintf(out, 32, "%ld min %ld s", n / 60, n % 60);
    else
        snprintf(out, 32, "%ld h %ld min", n / 3600, n / 60 % 60);
}

static void end_line(listener *l)
{
    if (l->is_open) fputc('\n', stderr);
    l->is_open = false;
}

/* A line that is written over on a terminal, else one every ten seconds. */
static void show_progress(void *ctx, const hub_progress *p)
{
    listener *l = ctx;
    char left[32] = "", text[256];
    int64_t now = clock_ns();
    bool is_done = p->n_done >= p->n_total;
    if (!l->is_terminal && l->shown_ns && !is_done && now - l->shown_ns < 10000000000) return;
    l->shown_ns = now;
    if (p->s_left >= 0) format_time(p->s_left, left);
    snprintf(text, sizeof text, "fetching %.60s: %.2f of %.2f GB (%.1f %%), %.1f MB/s%s%s", p->file,
             (double)p->n_done * 1e-9, (double)p->n_total * 1e-9,
             p->n_total > 0 ? 100.0 * (double)p->n_done / (double)p->n_total : 100,
             p->bytes_per_s * 1e-6, left[0] ? ", left: " : "", left);
    fprintf(stderr, l->is_terminal ? "\r%s\033[K" : "%s\n", text);
    l->is_open = l->is_terminal;
    fflush(stderr);
}

static void show_note(void *ctx, const char *text)
{
    end_line(ctx);
    fprintf(stderr, "note: %s\n", text);
}

/* --- looking -------------------------------------------------------------------------------------
 */

static status check_model(const engine_hub_wish *w, const load_model *m, err *e)
{
    if (m->is_draft && !w->wants_draft)
        return err_set(e, ERR_INVALID, m->name, -1, "is a draft: it goes to --draft-model");
    if (!m->is_draft && w->wants_draft) return err_set(e, ERR_INVALID, m->name, -1, "is no draft");
    return w->wants_draft && w->of ? load_check_pair(w->of, &m->draft, e) : ERR_OK;
}

static status check(void *ctx, const hub_sight *s, bool *wants_more, err *e)
{
    listener *l = ctx;
    load_model m;
    l->has_seen = true;
    status st = s->dir ? load_model_peek(&m, s->dir, e)
                       : load_model_peek_head(&m, s->file, s->head, s->n_head, s->n_file,
                                              wants_more, e);
    if (st != ERR_OK) return st;
    st = check_model(l->wish, &m, e);
    if (st == ERR_OK && l->wish->seen)
        *l->wish->seen = m;
    else
        load_model_close(&m);
    return st;
}

/* A mistyped path looks like a name: say first that it is no path. */
static void blame_path(const char *path, err *e)
{
    err why = *e;
    err_set(e, why.code, path, -1, "no such file or folder; looked for on the hub: %.70s: %.120s",
            why.where, why.msg);
}

status engine_hub_take(const hub_name *n, const engine_hub_wish *w, arena *a, hub_model *out,
                       err *e)
{
    hub_options o;
    listener l = {.wish = w, .is_terminal = isatty(2) == 1};
    TRY(hub_options_init(&o, a, e));
    o.revision = w->revision;
    o.is_offline = o.is_offline || w->is_offline;
    o.check = check;
    o.on_progress = show_progress;
    o.on_note = show_note;
    o.only_looks = w->seen != NULL;
    o.ctx = &l;
    if (!w->asks_first && hub_find(n, &o, a, out, e) == ERR_OK) return ERR_OK;
    status s = hub_pull(n, &o, a, out, e);
    end_line(&l);
    if (s != ERR_OK && e && w->path && !l.has_seen) blame_path(w->path, e);
    return s;
}
