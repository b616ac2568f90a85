/* links: server */
/* Bodies of /v1/completions, /tokenize and /detokenize: no crash, no change on failure, and what is
 * let through is within its bounds. */
#include <stddef.h>
#include <stdint.h>

#include "base/asserts.h"
#include "server/completion_request_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { V = 4096, SCRATCH = 64 << 20 };

static void check_ids(const int32_t *ids, int n)
{
    for (int i = 0; i < n; i++) ASSERT(ids[i] >= 0 && ids[i] < V);
}

static void try_completion(const json *body, arena *a)
{
    err e = {0};
    policy defaults = policy_neutral();
    generation_request r = {.n = -7};
    chat_context x = {.defaults = &defaults, .V = V, .choices_max = 64, .seed = 1};
    status s = completion_request_parse(body, &x, a, &r, &e);
    ASSERT(s == ERR_OK || (r.n == -7 && e.code == s && e.msg[0]));
    if (s != ERR_OK) return;
    policy p = r.policy;
    ASSERT(policy_check(&p, V, NULL) == ERR_OK);
    ASSERT(r.n >= 1 && r.n <= 64 && r.max_tokens >= 1);
    ASSERT(r.prompt == PROMPT_TEXT || r.prompt == PROMPT_IDS);
    if (r.prompt == PROMPT_IDS) check_ids(r.ids, r.n_ids);
}

static void try_others(const json *body, arena *a)
{
    err e = {0};
    tokenize_request r;
    const int32_t *ids = NULL;
    int n = 0;
    status s = tokenize_request_parse(body, &r, &e);
    ASSERT(s == ERR_OK ? r.text.ptr != NULL : e.code == s);
    s = detokenize_request_parse(body, V, a, &ids, &n, &e);
    ASSERT(s == ERR_OK || (e.code == s && !ids));
    if (s == ERR_OK) check_ids(ids, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    arena a;
    const json *body;
    arena_init(&a, SCRATCH);
    if (json_parse(&a, (str){(const char *)data, size}, "", 128, 0, &body, NULL) == ERR_OK) {
        try_completion(body, &a);
        try_others(body, &a);
    }
    arena_fini(&a);
    return 0;
}
