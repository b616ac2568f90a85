#include "server/scores_priv.h"

#include <math.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

enum { LETTERS = 26 };

static const char SYSTEM[] =
    "You are asked to judge. The message is a JSON object: `evidence` is what is known, "
    "`criterion` is what to judge it by, and each of `options` has a `letter` and a "
    "`description`. Reply with the letter of the one option that fits best, and with nothing else.";

typedef struct {
    char text[SCORES_LABEL_MOST];
    int32_t id;
} score_label;

/* ---- labels ---- */

/* A, …, Z, AA, AB, …, ZZ; false behind the last. */
static bool label_at(int i, char out[SCORES_LABEL_MOST])
{
    memset(out, 0, SCORES_LABEL_MOST);
    if (i < LETTERS) {
        out[0] = (char)('A' + i);
        return true;
    }
    i -= LETTERS;
    if (i >= LETTERS * LETTERS) return false;
    out[0] = (char)('A' + i / LETTERS);
    out[1] = (char)('A' + i % LETTERS);
    return true;
}

/* The text behind the last token that stands for itself wherever it is, and how many ids it is. */
static status tail_of(const vocab *v, const token_ids *ids, buf *text, int *n_tail, err *e)
{
    int from = ids->n;
    while (from > 0 && !vocab_is_added(v, ids->ptr[from - 1])) from--;
    buf_clear(text);
    for (int i = from; i < ids->n; i++) buf_put_str(text, vocab_bytes(v, ids->ptr[i]));
    *n_tail = ids->n - from;
    return text->failed ? err_set(e, ERR_NOMEM, "prompt", -1, "its end") : ERR_OK;
}

/* The label's token where it stays one behind the prompt's tail; -1 elsewhere. */
static status label_id(const tokenizer *t, const token_ids *ids, buf *tail, int n_tail,
                       const char *label, int32_t *id, err *e)
{
    token_ids with = {0};
    size_t len = tail->len;
    buf_put_c(tail, label);
    status s = tail->failed ? err_set(e, ERR_NOMEM, "prompt", -1, "its end")
                            : tokenizer_encode(t, buf_str(tail), false, 0, &with, e);
    tail->len = len;
    *id = -1;
    if (s == ERR_OK && with.n == n_tail + 1 &&
        (n_tail == 0 ||
         memcmp(with.ptr, ids->ptr + ids->n - n_tail, (size_t)n_tail * sizeof *with.ptr) == 0) &&
        str_is(vocab_bytes(tokenizer_vocab(t), with.ptr[n_tail]), label))
        *id = with.ptr[n_tail];
    token_ids_fini(&with);
    return s;
}

/* The first n labels that can be used behind this prompt; *n_found may be less. */
static status find_labels(generation *g, int n, score_label *out, int *n_found, err *e)
{
    const tokenizer *t = g->server->tokens;
    buf tail;
    int n_tail = 0, found = 0;
    buf_init(&tail);
    status s = tail_of(tokenizer_vocab(t), &g->ids, &tail, &n_tail, e);
    for (int i = 0; s == ERR_OK && found < n && label_at(i, out[found].text); i++) {
        s = label_id(t, &g->ids, &tail, n_tail, out[found].text, &out[found].id, e);
        if (s == ERR_OK && out[found].id >= 0) found++;
    }
    buf_fini(&tail);
    *n_found = found;
    return s;
}

/* ---- prompts ---- */

static void put_message(json_writer *w, const char *role, str text)
{
    json_open_object(w);
    json_key(w, "role");
    json_c_string(w, role);
    json_key(w, "content");
    json_string(w, text);
    json_close_object(w);
}

/* The question as the model sees it. What questions have in common comes first. */
static void put_question(buf *out, const score_question *q, const score_label *labels)
{
    json_writer w;
    json_writer_init(&w, out);
    json_open_object(&w);
    if (q->evidence) {
        json_key(&w, "evidence");
        json_value(&w, q->evidence);
    }
    if (q->criterion) {
        json_key(&w, "criterion");
        json_value(&w, q->criterion);
    }
    json_key(&w, "options");
    json_open_array(&w);
    for (int i = 0; i < q->n_options; i++) {
        json_open_object(&w);
        json_key(&w, "letter");
        json_c_string(&w, labels[i].text);
        json_key(&w, "description");
        if (q->options[i].about)
            json_value(&w, q->options[i].about);
        else
            json_string(&w, q->options[i].id);
        json_close_object(&w);
    }
    json_close_array(&w);
    json_close_object(&w);
}

/* Render the two messages into g->ids, and the prompt's text into *text. */
static status ask(generation *g, str system, str user, buf *text, err *e)
{
    buf list;
    json_writer w;
    const json *messages = NULL;
    bool is_more = false;
    buf_init(&list);
    json_writer_init(&w, &list);
    json_open_array(&w);
    put_message(&w, "system", system);
    put_message(&w, "user", user);
    json_close_array(&w);
    char *copy = list.failed ? NULL : arena_copy(&g->scratch, list.ptr, list.len);
    str source = {copy, list.len};
    buf_fini(&list);
    if (!copy) return err_set(e, ERR_NOMEM, "prompt", -1, "message");
    TRY(json_parse(&g->scratch, source, "prompt", JSON_DEPTH_DEFAULT, 0, &messages, e));
    const template_caps *caps = template_get_caps(g->server->template);
    TRY(message_parse(&g->scratch, messages, caps, &g->request.chat, e));
    TRY(message_set_thinking(&g->scratch, &g->request.chat, false, e));
    g->ids.n = 0;
    buf_clear(text);
    return generation_make_prompt(g, text, &is_more, e);
}

static status put_system(buf *out, const score_question *q, err *e)
{
    buf_put_c(out, SYSTEM);
    if (q->instructions.len) {
        buf_put_c(out, "\n\n");
        buf_put_str(out, q->instructions);
    }
    return out->failed ? err_set(e, ERR_NOMEM, "prompt", -1, "instructions") : ERR_OK;
}

static void put_digest(char out[65], str text)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256((const unsigned char *)text.ptr, text.len, digest);
    for (int i = 0; i < SHA256_DIGEST_LENGTH; i++)
        snprintf(out + (size_t)2 * (size_t)i, 3, "%02x", digest[i]);
}

static status keep_question(generation *g, score_question *q, const score_label *labels, err *e)
{
    size_t n = (size_t)q->n_options;
    q->ids = (const int32_t *)(void *)arena_copy(&g->mem, g->ids.ptr, (size_t)g->ids.n * 4);
    q->n_ids = g->ids.n;
    q->label_ids = arena_new_array(&g->mem, n, sizeof *q->label_ids);
    q->logits = arena_new_array(&g->mem, n, sizeof *q->logits);
    if (!q->ids || !q->label_ids || !q->logits)
        return err_set(e, ERR_NOMEM, "prompt", -1, "a question");
    for (size_t i = 0; i < n; i++) q->label_ids[i] = labels[i].id;
    return ERR_OK;
}

/* The labels behind this very prompt are those that it shows. */
static status check_labels(generation *g, const score_label *shown, int n, bool *fits, err *e)
{
    score_label *now = arena_new_array(&g->scratch, (size_t)n, sizeof *now);
    int found = 0;
    if (!now) return err_set(e, ERR_NOMEM, "prompt", -1, "labels");
    TRY(find_labels(g, n, now, &found, e));
    *fits = found == n;
    for (int i = 0; i < n && *fits; i++) *fits = now[i].id == shown[i].id;
    return ERR_OK;
}

static status prepare_one(generation *g, score_question *q, const score_label *labels, bool *fits,
                          err *e)
{
    buf system, user, text;
    buf_init(&system);
    buf_init(&user);
    buf_init(&text);
    status s = put_system(&system, q, e);
    put_question(&user, q, labels);
    if (s == ERR_OK && user.failed) s = err_set(e, ERR_NOMEM, "prompt", -1, "a question");
    if (s == ERR_OK) s = ask(g, buf_str(&system), buf_str(&user), &text, e);
    if (s == ERR_OK) s = check_labels(g, labels, q->n_options, fits, e);
    if (s == ERR_OK) s = keep_question(g, q, labels, e);
    if (s == ERR_OK) put_digest(q->sha256, buf_str(&text));
    buf_fini(&system);
    buf_fini(&user);
    buf_fini(&text);
    return s;
}

/* Labels for the question with most options, behind any prompt of the template. */
static status first_labels(generation *g, int n, score_label **out, int *n_found, err *e)
{
    buf text;
    buf_init(&text);
    score_label *list = arena_new_array(&g->scratch, (size_t)n + 1, sizeof *list);
    status s = list ? ask(g, STR("x"), STR("x"), &text, e)
                    : err_set(e, ERR_NOMEM, "prompt", -1, "labels");
    if (s == ERR_OK) s = find_labels(g, n, list, n_found, e);
    buf_fini(&text);
    *out = list;
    return s;
}

static status prepare(generation *g, bool *fits, err *e)
{
    generation_request *r = &g->request;
    score_label *labels = NULL;
    int most = 2, n_found = 0;
    int64_t context = g->server->about->max_context;
    for (int i = 0; i < r->n_questions; i++)
        if (r->questions[i].n_options > most) most = r->questions[i].n_options;
    *fits = true;
    if (r->n_questions == 0) return ERR_OK;
    TRY(first_labels(g, most, &labels, &n_found, e));
    *fits = n_found == most;
    for (int i = 0; i < r->n_questions && *fits; i++) {
        TRY(prepare_one(g, &r->questions[i], labels, fits, e));
        if (r->questions[i].n_ids >= context)
            return err_set(e, ERR_LIMIT, "context_length_exceeded", -1,
                           "the prompt has %d tokens, the context holds %lld",
                           r->questions[i].n_ids, (long long)context);
    }
    return ERR_OK;
}

void scores_prepare(generation *g)
{
    err e = {0};
    bool fits = false;
    if (!g->server->template) {
        api_error_set(&g->error, 400, "invalid_request_error", NULL,
                      "the model has no chat template");
        return;
    }
    status s = prepare(g, &fits, &e);
    if (s != ERR_OK)
        generation_explain(g, &e, &g->error);
    else if (!fits)
        api_error_set(&g->error, 500, "scoring_unsupported", NULL,
                      "this model's vocabulary has too few labels that stay a token of their own");
}

bool scores_softmax(const score_question *q, double *p)
{
    double most = -INFINITY, sum = 0;
    for (int i = 0; i < q->n_options; i++) {
        if (!isfinite(q->logits[i])) return false;
        if ((double)q->logits[i] > most) most = (double)q->logits[i];
    }
    for (int i = 0; i < q->n_options; i++) sum += p[i] = exp((double)q->logits[i] - most);
    for (int i = 0; i < q->n_options; i++) p[i] /= sum;
    return true;
}
