/* fuzz_request: what the fuzz targets of request bodies share: the context a body is parsed in, and
 * what must hold behind it. */
#ifndef RIPTIDE_TESTS_FUZZ_REQUEST_H
#define RIPTIDE_TESTS_FUZZ_REQUEST_H

#include "base/asserts.h"
#include "server/chat_request_priv.h"

enum { FUZZ_V = 4096, FUZZ_SCRATCH = 64 << 20 };

static const char fuzz_template[] =
    "{%- for m in messages -%}{{ m.role ~ ':' ~ m.content }}{%- endfor -%}"
    "{%- if tools -%}{{ tools | tojson }}{%- endif -%}"
    "{%- if add_generation_prompt -%}<think>\n{%- endif -%}";

/* A context for bodies; the template is opened once. */
static inline chat_context fuzz_context(const policy *defaults)
{
    static template *t;
    if (!t) ASSERT(template_open(&t, STR(fuzz_template), "fuzz", NULL) == ERR_OK);
    return (chat_context){.defaults = defaults,
                          .V = FUZZ_V,
                          .choices_max = 64,
                          .seed = 1,
                          .caps = template_get_caps(t)};
}

static inline void fuzz_check_request(const generation_request *r)
{
    policy p = r->policy;
    ASSERT(policy_check(&p, FUZZ_V, NULL) == ERR_OK);
    ASSERT(r->n >= 1 && r->n <= 64 && r->max_tokens >= 0);
    ASSERT(r->n_stop >= 0 && r->n_stop <= 16);
    for (int i = 0; i < r->n_stop; i++) ASSERT(r->stop[i].len > 0 && r->stop[i].len <= 1024);
    ASSERT(r->top_logprobs >= 0 && r->top_logprobs <= ENGINE_TOP_MAX);
    ASSERT(json_is(r->chat.messages, JSON_ARRAY) && r->chat.messages->n > 0);
    ASSERT(!r->chat.tools || json_is(r->chat.tools, JSON_ARRAY));
    const answer_format *f = &r->format;
    ASSERT(f->form != ANSWER_SCHEMA || json_is(f->schema, JSON_OBJECT));
    ASSERT(f->form == ANSWER_FREE || f->field);
    ASSERT(!f->must_call || f->has_calls);
    ASSERT(!f->has_calls || r->chat.tools);
}

/* What parsing came to: a request within its bounds, or r as it was (n -7) and an error whose
 * reply is JSON. */
static inline void fuzz_check_outcome(status s, const generation_request *r, const err *e, arena *a,
                                      void (*put)(buf *out, const api_error *shown))
{
    if (s == ERR_OK) {
        fuzz_check_request(r);
        return;
    }
    ASSERT(r->n == -7 && e->code == s && e->msg[0]);
    api_error shown;
    buf out;
    const json *back;
    buf_init(&out);
    api_error_from(&shown, e);
    put(&out, &shown);
    ASSERT(json_parse(a, buf_str(&out), "", 8, 0, &back, NULL) != ERR_FORMAT);
    buf_fini(&out);
}

#endif
