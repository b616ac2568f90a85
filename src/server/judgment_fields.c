#include "server/judgment_fields_priv.h"

#include <stdio.h>

#include "server/fields_priv.h"

/* ---- shared ---- */

static status check_members(const json *object, const char *const *known, const char *prefix,
                            err *e)
{
    for (const json *v = object->first; v; v = v->next) {
        bool is_known = false;
        char where[160];
        for (int i = 0; known[i]; i++) is_known |= str_is(v->key, known[i]);
        if (is_known) continue;
        snprintf(where, sizeof where, "%s%.*s", prefix, (int)(v->key.len < 64 ? v->key.len : 64),
                 v->key.ptr);
        return err_set(e, ERR_INVALID, where, -1, "is not known here");
    }
    return ERR_OK;
}

static status keep(arena *mem, str s, str *out, err *e)
{
    const char *copy = arena_copy(mem, s.ptr, s.len);
    *out = (str){copy, s.len};
    return copy ? ERR_OK : err_set(e, ERR_NOMEM, "request", -1, "copy");
}

static status parse_head(const json *body, const char *const *known, generation_request *r, err *e)
{
    if (!json_is(body, JSON_OBJECT))
        return err_set(e, ERR_INVALID, "", -1, "the body is %s, want an object", field_kind(body));
    TRY(check_members(body, known, "", e));
    TRY(order_fields_parse(body, r, e));
    r->n = 1;
    return ERR_OK;
}

static status new_options(score_question *q, arena *mem, int n, err *e)
{
    q->options = arena_new_array(mem, (size_t)n, sizeof *q->options);
    q->n_options = n;
    return q->options ? ERR_OK : err_set(e, ERR_NOMEM, "options", -1, "%d", n);
}

/* ---- judgments ---- */

static status parse_options(const json *body, arena *mem, score_question *q, err *e)
{
    static const char *const known[] = {"id", "description", NULL};
    const json *list = NULL;
    int i = 0;
    TRY(field_array(body, "options", &list, e));
    if (!list || list->n < 2 || list->n > JUDGMENT_OPTIONS_MOST)
        return err_set(e, ERR_INVALID, "options", -1, "want 2 to %d of them",
                       JUDGMENT_OPTIONS_MOST);
    TRY(new_options(q, mem, list->n, e));
    for (const json *v = list->first; v; v = v->next, i++) {
        char where[48];
        str id = {NULL, 0};
        snprintf(where, sizeof where, "/options/%d/", i);
        if (!json_is(v, JSON_OBJECT))
            return err_set(e, ERR_INVALID, where, -1, "is %s, want an object", field_kind(v));
        TRY(check_members(v, known, where, e));
        TRY(field_str(v, "id", &id, e));
        if (id.len == 0) return err_set(e, ERR_INVALID, where, -1, "has no \"id\"");
        for (int k = 0; k < i; k++)
            if (str_equal(q->options[k].id, id))
                return err_set(e, ERR_INVALID, where, -1, "has the \"id\" of another option");
        TRY(keep(mem, id, &q->options[i].id, e));
        q->options[i].about = field_find(v, "description");
    }
    return ERR_OK;
}

status judgment_fields_parse(const json *body, arena *a, arena *mem, generation_request *out,
                             str *id, err *e)
{
    static const char *const known[] = {"id",    "state",   "question", "options",
                                        "model", "timeout", "priority", NULL};
    generation_request r = {.prompt = PROMPT_CHAT, .is_scored = true};
    str own = {NULL, 0}, question = {NULL, 0};
    (void)a;
    TRY(parse_head(body, known, &r, e));
    r.questions = arena_new_array(mem, 1, sizeof *r.questions);
    if (!r.questions) return err_set(e, ERR_NOMEM, "request", -1, "a question");
    r.n_questions = 1;
    score_question *q = &r.questions[0];
    *q = (score_question){0};
    TRY(field_str(body, "id", &own, e));
    TRY(field_str(body, "question", &question, e));
    if (question.len == 0) return err_set(e, ERR_INVALID, "question", -1, "is missing");
    q->evidence = field_find(body, "state");
    if (!q->evidence) return err_set(e, ERR_INVALID, "state", -1, "is missing");
    q->criterion = field_find(body, "question");
    TRY(parse_options(body, mem, q, e));
    TRY(keep(mem, own, id, e));
    *out = r;
    return ERR_OK;
}

/* ---- System One ---- */

/* A value's text as JSON, in mem. */
static status keep_value(arena *mem, const json *v, str *out, err *e)
{
    buf text;
    buf_init(&text);
    json_put_value(&text, v, JSON_COMPACT);
    status s = text.failed ? err_set(e, ERR_NOMEM, "request", -1, "copy")
                           : keep(mem, buf_str(&text), out, e);
    buf_fini(&text);
    return s;
}

static status wrong(const char *where, const char *what, err *e)
{
    return err_set(e, ERR_INVALID, where, -1, "%s", what);
}

/* The values of an array; their ids are their JSON. */
static status take_values(const json *list, const char *where, arena *mem, score_question *q,
                          err *e)
{
    int i = 0;
    if (!list || list->n < 1 || list->n > SCORES_OPTIONS_MOST)
        return wrong(where, "want 1 to 255 values", e);
    TRY(new_options(q, mem, list->n, e));
    for (const json *v = list->first; v; v = v->next, i++) {
        TRY(keep_value(mem, v, &q->options[i].id, e));
        q->options[i].about = v;
    }
    return ERR_OK;
}

static const json *number_node(arena *a, int64_t v)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%lld", (long long)v);
    json *node = arena_new(a, sizeof *node);
    const char *copy = node ? arena_copy(a, text, (size_t)n) : NULL;
    if (!copy) return NULL;
    *node = (json){.kind = JSON_NUMBER, .text = {copy, (size_t)n}};
    return node;
}

static status take_range(const json *v, const char *where, arena *a, arena *mem, score_question *q,
                         err *e)
{
    int64_t min = 0, max = -1;
    TRY(field_int(v, "min", -1000000, 1000000, &min, e));
    TRY(field_int(v, "max", -1000000, 1000000, &max, e));
    if (max < min || max - min >= SCORES_OPTIONS_MOST)
        return wrong(where, "want \"min\" and \"max\" of 1 to 255 values, or \"levels\"", e);
    TRY(new_options(q, mem, (int)(max - min + 1), e));
    for (int i = 0; i < q->n_options; i++) {
        q->options[i].about = number_node(a, min + i);
        if (!q->options[i].about) return err_set(e, ERR_NOMEM, where, -1, "values");
        TRY(keep_value(mem, q->options[i].about, &q->options[i].id, e));
    }
    return ERR_OK;
}

static status take_truth(arena *mem, score_question *q, err *e)
{
    static const json values[2] = {{.kind = JSON_TRUE}, {.kind = JSON_FALSE}};
    TRY(new_options(q, mem, 2, e));
    q->options[0] = (score_option){STR("true"), &values[0]};
    q->options[1] = (score_option){STR("false"), &values[1]};
    return ERR_OK;
}

/* What to judge by: the question, and the criteria of all of them. */
static const json *criterion_of(arena *a, const json *question, const json *criteria)
{
    if (!criteria) return question;
    json *first = arena_new(a, sizeof *first), *second = arena_new(a, sizeof *second),
         *both = arena_new(a, sizeof *both);
    if (!first || !second || !both) return NULL;
    *second = *question;
    second->key = STR("question");
    second->next = NULL;
    *first = *criteria;
    first->key = STR("criteria");
    first->next = second;
    *both = (json){.kind = JSON_OBJECT, .n = 2, .first = first};
    return both;
}

static status parse_question(const json *v, const json *body, arena *a, arena *mem,
                             score_question *q, err *e)
{
    static const char *const known[] = {"type", "question", "options", "levels",
                                        "min",  "max",      NULL};
    char where[96], prefix[104];
    str type = STR("noul");
    const json *text = v, *list = NULL;
    snprintf(where, sizeof where, "/questions/%.*s", (int)(v->key.len < 64 ? v->key.len : 64),
             v->key.ptr);
    snprintf(prefix, sizeof prefix, "%s/", where);
    if (json_is(v, JSON_OBJECT)) {
        TRY(check_members(v, known, prefix, e));
        TRY(field_str(v, "type", &type, e));
        text = field_find(v, "question");
    }
    if (!json_is(text, JSON_STRING) || text->text.len == 0)
        return wrong(where, "has no \"question\"", e);
    TRY(keep(mem, v->key, &q->name, e));
    q->evidence = field_find(body, "state");
    q->criterion = criterion_of(a, text, field_find(body, "criteria"));
    if (!q->criterion) return err_set(e, ERR_NOMEM, where, -1, "criterion");
    TRY(field_str(body, "instructions", &q->instructions, e));
    q->kind = str_is(type, "noul")     ? SYSTEMONE_NOUL
              : str_is(type, "choice") ? SYSTEMONE_CHOICE
                                       : SYSTEMONE_SCORE;
    if (q->kind == SYSTEMONE_NOUL) return take_truth(mem, q, e);
    if (q->kind == SYSTEMONE_SCORE && !str_is(type, "score"))
        return wrong(where, "want \"noul\", \"choice\" or \"score\" as its \"type\"", e);
    TRY(field_array(v, q->kind == SYSTEMONE_CHOICE ? "options" : "levels", &list, e));
    if (q->kind == SYSTEMONE_SCORE && !list) return take_range(v, where, a, mem, q, e);
    return take_values(list, where, mem, q, e);
}

status systemone_fields_parse(const json *body, arena *a, arena *mem, generation_request *out,
                              score_question **all, int *n_all, err *e)
{
    static const char *const known[] = {"model",        "state",   "questions", "criteria",
                                        "instructions", "timeout", "priority",  NULL};
    generation_request r = {.prompt = PROMPT_CHAT, .is_scored = true};
    const json *list = NULL;
    int n = 0;
    TRY(parse_head(body, known, &r, e));
    if (!field_find(body, "model")) return wrong("model", "is missing", e);
    TRY(field_object(body, "questions", &list, e));
    if (!list || list->n < 1 || list->n > SCORES_QUESTIONS_MOST)
        return wrong("questions", "want 1 to 64 of them", e);
    score_question *q = arena_new_array(mem, (size_t)list->n, sizeof *q);
    r.questions = arena_new_array(mem, (size_t)list->n, sizeof *r.questions);
    if (!q || !r.questions) return err_set(e, ERR_NOMEM, "questions", -1, "%d", list->n);
    for (const json *v = list->first; v; v = v->next) {
        if (json_get_str(list, v->key) != v) continue; /* of two alike the last counts */
        q[n] = (score_question){0};
        TRY(parse_question(v, body, a, mem, &q[n], e));
        if (q[n].n_options > 1) r.questions[r.n_questions++] = q[n];
        n++;
    }
    *all = q;
    *n_all = n;
    *out = r;
    return ERR_OK;
}
