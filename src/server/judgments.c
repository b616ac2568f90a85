/* POST /v1/judgments: which of some options fits, from the logits of their labels. */
#include <math.h>

#include "server/endpoint_priv.h"
#include "server/judgment_fields_priv.h"

/* Of the prompt: another text, another name. */
static const char PROMPT_VERSION[] = "riptide-judgment-1";

static void parse(generation *g, const json *body, api_error *a)
{
    err e = {0};
    str *id = arena_new(&g->mem, sizeof *id);
    if (!generation_check_model(g->server, body, a)) return;
    status s = id ? judgment_fields_parse(body, &g->scratch, &g->mem, &g->request, id, &e)
                  : err_set(&e, ERR_NOMEM, "request", -1, "id");
    if (s != ERR_OK) generation_explain(g, &e, a);
    g->extra = id;
}

static void put_usage(json_writer *w, const score_question *q)
{
    json_key(w, "usage");
    json_open_object(w);
    json_key(w, "prompt_tokens");
    json_int(w, q->n_ids);
    json_key(w, "completion_tokens");
    json_int(w, 0);
    json_key(w, "total_tokens");
    json_int(w, q->n_ids);
    json_key(w, "prompt_tokens_details");
    json_open_object(w);
    json_key(w, "cached_tokens");
    json_int(w, q->n_cached);
    json_close_object(w);
    json_close_object(w);
}

static void put_options(json_writer *w, const score_question *q, const double *p)
{
    json_key(w, "option_ids");
    json_open_array(w);
    for (int i = 0; i < q->n_options; i++) json_string(w, q->options[i].id);
    json_close_array(w);
    json_key(w, "probabilities");
    json_open_array(w);
    for (int i = 0; i < q->n_options; i++) json_double(w, p[i]);
    json_close_array(w);
    json_key(w, "option_logits");
    json_open_array(w);
    for (int i = 0; i < q->n_options; i++) json_double(w, (double)q->logits[i]);
    json_close_array(w);
    json_key(w, "answer_token_ids");
    json_open_array(w);
    for (int i = 0; i < q->n_options; i++) json_int(w, q->label_ids[i]);
    json_close_array(w);
}

static void put_judgment(generation *g, const score_question *q, const double *p)
{
    const str *id = g->extra;
    json_writer w;
    json_writer_init(&w, &g->out);
    json_open_object(&w);
    json_key(&w, "id");
    json_string(&w, id->len ? *id : str_from(g->id));
    json_key(&w, "object");
    json_c_string(&w, "judgment");
    put_options(&w, q, p);
    json_key(&w, "input_tokens");
    json_int(&w, q->n_ids);
    json_key(&w, "prompt_sha256");
    json_c_string(&w, q->sha256);
    json_key(&w, "prompt_version");
    json_c_string(&w, PROMPT_VERSION);
    json_key(&w, "model");
    json_open_object(&w);
    json_key(&w, "id");
    json_c_string(&w, g->server->about->model_name);
    json_close_object(&w);
    json_key(&w, "readout");
    json_c_string(&w, "option_token_logits");
    json_key(&w, "probability_status");
    json_c_string(&w, "softmax_over_options");
    json_key(&w, "forward_seconds");
    json_double(&w, q->forward_ms / 1000);
    json_key(&w, "total_seconds");
    json_double(&w, (double)(uv_now(&g->server->loop) - g->begin_ms) / 1000);
    put_usage(&w, q);
    json_close_object(&w);
}

static void end(generation *g)
{
    double p[SCORES_OPTIONS_MOST];
    const score_question *q = &g->request.questions[0];
    if (scores_softmax(q, p))
        put_judgment(g, q, p);
    else
        generation_fail_score(g);
}

void endpoint_judgments(server *s, conn *c)
{
    static const dialect judgments = {.id_prefix = "judg_", .parse = parse, .end = end};
    generation_begin(s, c, &judgments);
}
