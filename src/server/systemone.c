/* POST /v1/systemone: several questions about one state, each answered from the logits of its
 * values. */
#include <math.h>

#include "server/endpoint_priv.h"
#include "server/judgment_fields_priv.h"

typedef struct {
    score_question *all; /* [n_all] as they were given; those with several values were asked */
    int n_all;
} systemone;

static void parse(generation *g, const json *body, api_error *a)
{
    err e = {0};
    systemone *x = arena_new(&g->mem, sizeof *x);
    if (!generation_check_model(g->server, body, a)) return;
    status s = x ? systemone_fields_parse(body, &g->scratch, &g->mem, &g->request, &x->all,
                                          &x->n_all, &e)
                 : err_set(&e, ERR_NOMEM, "request", -1, "questions");
    if (s != ERR_OK) generation_explain(g, &e, a);
    g->extra = x;
}

static void put_key_double(json_writer *w, const char *key, double v)
{
    json_key(w, key);
    json_double(w, v);
}

/* The likeliest value and how likely it is. */
static void put_choice(json_writer *w, const score_question *q, const double *p)
{
    int best = 0;
    for (int i = 1; i < q->n_options; i++)
        if (p[i] > p[best]) best = i;
    json_key(w, "value");
    json_raw(w, q->options[best].id);
    put_key_double(w, "confidence", p[best]);
}

/* The mean index, and 1 - H / ln K. */
static void put_score(json_writer *w, const score_question *q, const double *p)
{
    double mean = 0, entropy = 0;
    for (int i = 0; i < q->n_options; i++) {
        mean += i * p[i];
        if (p[i] > 0) entropy -= p[i] * log(p[i]);
    }
    put_key_double(w, "value", mean);
    put_key_double(w, "confidence", q->n_options > 1 ? 1 - entropy / log((double)q->n_options) : 1);
}

static void put_answer(json_writer *w, const score_question *q, const double *p)
{
    static const char *const kinds[] = {"noul", "choice", "score"};
    json_key_str(w, q->name);
    json_open_object(w);
    json_key(w, "type");
    json_c_string(w, kinds[q->kind]);
    if (q->kind == SYSTEMONE_NOUL) put_key_double(w, "value", p[0]);
    if (q->kind == SYSTEMONE_CHOICE) put_choice(w, q, p);
    if (q->kind == SYSTEMONE_SCORE) put_score(w, q, p);
    json_key(w, "probabilities");
    json_open_array(w);
    for (int i = 0; i < q->n_options; i++) json_double(w, p[i]);
    json_close_array(w);
    json_close_object(w);
}

static void end(generation *g)
{
    const systemone *x = g->extra;
    const score_question *asked = g->request.questions;
    double p[SCORES_OPTIONS_MOST];
    int64_t n_input = 0;
    json_writer w;
    json_writer_init(&w, &g->out);
    json_open_object(&w);
    json_key(&w, "id");
    json_c_string(&w, g->id);
    json_key(&w, "model");
    json_c_string(&w, g->server->about->model_name);
    json_key(&w, "answers");
    json_open_object(&w);
    for (int i = 0; i < x->n_all; i++) {
        p[0] = 1; /* of a single value nothing needs to be asked */
        if (x->all[i].n_options > 1) {
            if (!scores_softmax(asked, p)) {
                buf_clear(&g->out);
                generation_fail_score(g);
                return;
            }
            n_input += asked->n_ids;
            asked++;
        }
        put_answer(&w, &x->all[i], p);
    }
    json_close_object(&w);
    json_key(&w, "usage");
    json_open_object(&w);
    json_key(&w, "input_tokens");
    json_int(&w, n_input);
    json_key(&w, "output_tokens");
    json_int(&w, 0);
    json_close_object(&w);
    json_close_object(&w);
}

/* This protocol's statuses. */
static void adapt(api_error *a)
{
    if (a->http == 400) a->http = 422;
    if (a->http == 503) a->http = 529;
}

void endpoint_systemone(server *s, conn *c)
{
    static const dialect one = {.id_prefix = "sys1_", .parse = parse, .end = end, .adapt = adapt};
    generation_begin(s, c, &one);
}
