/* Log probabilities of an answer's tokens: which of them are told, and when. */
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "server/generation_priv.h"

static const vocab *vocab_of(const answer *c)
{
    return tokenizer_vocab(c->g->server->tokens);
}

/* Characters of well-formed text. */
static size_t count_chars(str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) n += ((unsigned char)s.ptr[i] & 0xc0) != 0x80;
    return n;
}

static bool reserve(answer *c)
{
    if (c->n_logprobs < c->logprobs_cap) return true;
    int cap = c->logprobs_cap ? 2 * c->logprobs_cap : 16;
    answer_logprob *more = mem_resize(c->logprobs, (size_t)cap * sizeof *more);
    if (!more) return false;
    c->logprobs = more;
    c->logprobs_cap = cap;
    return true;
}

/* Forget numbers from..to. */
static void drop(answer *c, int from, int to)
{
    int n = c->n_logprobs - to;
    if (n > 0) memmove(&c->logprobs[from], &c->logprobs[to], (size_t)n * sizeof *c->logprobs);
    c->n_logprobs = from + n;
}

bool answer_add_logprob(answer *c, int32_t id, const engine_logprob *p)
{
    if (!reserve(c)) return false;
    c->logprobs[c->n_logprobs++] = (answer_logprob){.id = id, .p = *p, .offset = c->n_chars};
    if (c->g->request.logprobs == LOGPROBS_OF_TOKENS) {
        c->n_settled = c->n_logprobs;
    } else if (c->g->request.logprobs == LOGPROBS_OF_TEXT) {
        buf_clear(&c->raw);
        detok_push(&c->text, id, &c->raw);
        c->n_chars += count_chars(buf_str(&c->raw));
        return !c->raw.failed;
    }
    return true;
}

void answer_settle_logprobs(answer *c, str text)
{
    if (!c->g->request.wants_logprobs) return;
    if (c->g->request.logprobs == LOGPROBS_OF_CONTENT) {
        c->n_settled = c->n_logprobs;
        return;
    }
    c->n_chars_told += count_chars(text);
    while (c->n_settled < c->n_logprobs && c->logprobs[c->n_settled].offset < c->n_chars_told)
        c->n_settled++;
}

/* The parser and the decoder hold back the end of the text: the tokens that reach into it wait. */
void answer_sift_logprobs(answer *c)
{
    if (c->g->request.logprobs != LOGPROBS_OF_CONTENT) return;
    size_t held = outparse_held(c->parser) + (size_t)c->text.n_held, n_bytes = 0;
    int from = c->n_logprobs;
    while (from > c->n_settled && n_bytes < held)
        n_bytes += vocab_bytes(vocab_of(c), c->logprobs[--from].id).len;
    drop(c, c->n_settled, from);
}

void answer_finish_logprobs(answer *c)
{
    bool is_cut = c->reason == ENGINE_STOP_STRING;
    if (c->g->request.logprobs == LOGPROBS_OF_TEXT && !is_cut) c->n_settled = c->n_logprobs;
    c->n_logprobs = c->n_settled;
}

void answer_told_logprobs(answer *c)
{
    c->n_told = c->n_settled;
    if (c->g->dialect->keeps_text) return;
    drop(c, 0, c->n_told);
    c->n_settled = c->n_told = 0;
}

/* --- as JSON -----------------------------------------------------------------------------------
 */

static void put_token(json_writer *w, const vocab *v, int32_t id, float logprob)
{
    str bytes = vocab_bytes(v, id);
    json_key(w, "token");
    json_string(w, bytes);
    json_key(w, "logprob");
    json_double(w, isfinite(logprob) ? (double)logprob : -9999.0); /* JSON has no -inf */
    json_key(w, "bytes");
    json_open_array(w);
    for (size_t i = 0; i < bytes.len; i++) json_int(w, (unsigned char)bytes.ptr[i]);
    json_close_array(w);
}

void answer_write_logprobs(json_writer *w, const answer *c, int from, int to)
{
    const vocab *v = vocab_of(c);
    int n_top = c->g->request.top_logprobs;
    json_open_array(w);
    for (int k = from; k < to; k++) {
        const engine_logprob *p = &c->logprobs[k].p;
        json_open_object(w);
        put_token(w, v, c->logprobs[k].id, p->logprob);
        json_key(w, "top_logprobs");
        json_open_array(w);
        for (int i = 0; i < n_top && i < ENGINE_TOP_MAX && p->top_ids[i] >= 0; i++) {
            json_open_object(w);
            put_token(w, v, p->top_ids[i], p->top_logprobs[i]);
            json_close_object(w);
        }
        json_close_array(w);
        json_close_object(w);
    }
    json_close_array(w);
}
