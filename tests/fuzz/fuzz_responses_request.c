/* links: server */
/* A body of Responses on its way to a checked request: no crash, no change on failure, and what is
 * let through is within its bounds. */
#include <stddef.h>
#include <stdint.h>

#include "base/asserts.h"
#include "server/responses_request_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { V = 4096, SCRATCH = 64 << 20 };

static const char source[] = "{%- for m in messages -%}{{ m.role ~ ':' ~ m.content }}{%- endfor -%}"
                             "{%- if tools -%}{{ tools | tojson }}{%- endif -%}"
                             "{%- if add_generation_prompt -%}<think>\n{%- endif -%}";

static void check(const generation_request *r)
{
    policy p = r->policy;
    ASSERT(policy_check(&p, V, NULL) == ERR_OK);
    ASSERT(r->n >= 1 && r->n <= 64 && r->max_tokens >= 0);
    ASSERT(r->n_stop >= 0 && r->n_stop <= 16);
    for (int i = 0; i < r->n_stop; i++) ASSERT(r->stop[i].len > 0 && r->stop[i].len <= 1024);
    ASSERT(r->top_logprobs >= 0 && r->top_logprobs <= ENGINE_TOP_MAX);
    ASSERT(json_is(r->chat.messages, JSON_ARRAY) && r->chat.messages->n > 0);
    ASSERT(!r->chat.tools || json_is(r->chat.tools, JSON_ARRAY));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static template *t;
    if (!t) ASSERT(template_open(&t, STR(source), "fuzz", NULL) == ERR_OK);
    arena a;
    err e = {0};
    const json *body;
    policy defaults = policy_neutral();
    arena_init(&a, SCRATCH);
    if (json_parse(&a, (str){(const char *)data, size}, "", 128, 0, &body, &e) == ERR_OK) {
        generation_request r = {.n = -7};
        chat_context x = {.defaults = &defaults,
                          .V = V,
                          .choices_max = 64,
                          .seed = 1,
                          .caps = template_get_caps(t)};
        responses_echo echo = {.n_tools = -7};
        const json *before = json_get(body, "before"); /* as if it had been stored */
        if (!json_is(before, JSON_ARRAY)) before = NULL;
        status s = responses_request_parse(body, before, &x, &a, &a, &r, &echo, &e);
        ASSERT(s == ERR_OK ? echo.n_tools >= 0 : echo.n_tools == -7);
        if (s == ERR_OK)
            check(&r);
        else
            ASSERT(r.n == -7 && e.code == s && e.msg[0]);
        api_error shown;
        buf out;
        buf_init(&out);
        if (s != ERR_OK) {
            api_error_from(&shown, &e);
            api_error_put_openai(&out, &shown);
            const json *back;
            ASSERT(json_parse(&a, buf_str(&out), "", 8, 0, &back, NULL) != ERR_FORMAT);
        }
        buf_fini(&out);
    }
    arena_fini(&a);
    return 0;
}
