/* render: templates with any variables, for the tests of the engine's parts. */
#ifndef RIPTIDE_TESTS_CHAT_RENDER_H
#define RIPTIDE_TESTS_CHAT_RENDER_H

#include "base/json.h"
#include "base/mem.h"
#include "chat/jinja_rt_priv.h"
#include "support/test.h"

typedef struct {
    status s;
    err e;
    bool is_open; /* failed to compile */
    char text[4096];
    jbuilder b; /* runs and length of the text; its bytes are gone */
    jrun runs[64];
} rendered;

/* Room and work for one rendering; 0 takes a default. */
typedef struct {
    int64_t budget;
    size_t text_most, memory_most;
} render_limits;

static inline status render_run(const jprogram *p, arena *a, const char *vars, render_limits l,
                                rendered *out)
{
    const json *tree = NULL;
    jvalue v = {0};
    TRY(json_parse(a, str_from(vars), "variables", 64, 0, &tree, &out->e));
    TRY(jvalue_from_json(a, tree, JVALUE_DEPTH, &v));
    jrt r = {.program = p,
             .a = a,
             .vars = v.dict,
             .budget = l.budget ? l.budget : 1 << 20,
             .text_most = l.text_most ? l.text_most : 1 << 20,
             .now_s = 1700000000,
             .e = &out->e};
    jrt_builder(&r, &out->b);
    TRY(jexec_program(&r, &out->b));
    snprintf(out->text, sizeof out->text, "%.*s", (int)out->b.len, out->b.ptr ? out->b.ptr : "");
    for (int i = 0; i < out->b.n_runs && i < 64; i++) out->runs[i] = out->b.runs[i];
    out->b.runs = out->runs;
    return ERR_OK;
}

static inline const rendered *render_limited(str source, const char *vars, render_limits l)
{
    static rendered out;
    jprogram p;
    arena a;
    out = (rendered){0};
    out.s = jprogram_open(&p, source, "test", &out.e);
    out.is_open = out.s != ERR_OK;
    if (out.is_open) return &out;
    arena_init(&a, l.memory_most);
    out.s = render_run(&p, &a, vars, l, &out);
    arena_fini(&a);
    jprogram_close(&p);
    return &out;
}

static inline const rendered *render(const char *source, const char *vars)
{
    return render_limited(str_from(source), vars, (render_limits){0});
}

/* The template with these variables must give that text. */
#define CHECK_RENDER(source, vars, want)                                                          \
    do {                                                                                          \
        const rendered *r_ = render(source, vars);                                                \
        if (r_->s) fail_msg("%s: %s: %s", source, status_name(r_->s), r_->e.msg);                 \
        if (strcmp(r_->text, want) != 0) fail_msg("%s: '%s', want '%s'", source, r_->text, want); \
    } while (0)

/* It must be refused, at that line and column. */
#define CHECK_REFUSED(source, status_, line, column)                                      \
    do {                                                                                  \
        char at_[60];                                                                     \
        const rendered *r_ = render(source, "{}");                                        \
        snprintf(at_, sizeof at_, "line %d column %d: ", line, column);                   \
        if (r_->s != status_ || strncmp(r_->e.msg, at_, strlen(at_)) != 0 ||              \
            strcmp(r_->e.where, "test") != 0)                                             \
            fail_msg("%s: %s '%s', want %s at %s", source, status_name(r_->s), r_->e.msg, \
                     status_name(status_), at_);                                          \
    } while (0)

#endif
