/* links: server */
/* Bodies of /v1/judgments and /v1/systemone: no crash, no change on failure, and what is let
 * through is within its bounds. */
#include <stddef.h>
#include <stdint.h>

#include "base/asserts.h"
#include "server/judgment_fields_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SCRATCH = 64 << 20 };

static void check(const generation_request *r, int most)
{
    ASSERT(r->is_scored && r->n == 1 && r->timeout_ms >= 0);
    ASSERT(r->n_questions >= 0 && r->n_questions <= SCORES_QUESTIONS_MOST);
    for (int i = 0; i < r->n_questions; i++) {
        const score_question *q = &r->questions[i];
        ASSERT(q->n_options >= 2 && q->n_options <= most);
        for (int k = 0; k < q->n_options; k++) ASSERT(q->options[k].id.len > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    arena a, mem;
    const json *body;
    err e = {0};
    arena_init(&a, SCRATCH);
    arena_init(&mem, SCRATCH);
    if (json_parse(&a, (str){(const char *)data, size}, "", 128, 0, &body, &e) == ERR_OK) {
        generation_request r = {.n = -7};
        score_question *all = NULL;
        int n_all = -1;
        str id;
        status s = judgment_fields_parse(body, &a, &mem, &r, &id, &e);
        if (s == ERR_OK)
            check(&r, JUDGMENT_OPTIONS_MOST);
        else
            ASSERT(r.n == -7 && e.code == s && e.msg[0]);
        r = (generation_request){.n = -7};
        s = systemone_fields_parse(body, &a, &mem, &r, &all, &n_all, &e);
        if (s == ERR_OK)
            check(&r, SCORES_OPTIONS_MOST);
        else
            ASSERT(r.n == -7 && n_all == -1 && e.code == s && e.msg[0]);
        if (s == ERR_OK) ASSERT(n_all >= r.n_questions);
    }
    arena_fini(&mem);
    arena_fini(&a);
    return 0;
}
