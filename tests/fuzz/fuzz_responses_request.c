/* links: server */
/* A body of Responses on its way to a checked request: no crash, no change on failure, and what is
 * let through is within its bounds. */
#include <stddef.h>
#include <stdint.h>

#include "fuzz/fuzz_request.h"
#include "server/responses_request_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    arena a;
    err e = {0};
    const json *body;
    policy defaults = policy_neutral();
    arena_init(&a, FUZZ_SCRATCH);
    if (json_parse(&a, (str){(const char *)data, size}, "", 128, 0, &body, &e) == ERR_OK) {
        generation_request r = {.n = -7};
        chat_context x = fuzz_context(&defaults);
        responses_echo echo = {.n_tools = -7};
        const json *before = json_get(body, "before"); /* as if it had been stored */
        if (!json_is(before, JSON_ARRAY)) before = NULL;
        status s = responses_request_parse(body, before, &x, &a, &a, &r, &echo, &e);
        ASSERT(s == ERR_OK ? echo.n_tools >= 0 : echo.n_tools == -7);
        fuzz_check_outcome(s, &r, &e, &a, api_error_put_openai);
    }
    arena_fini(&a);
    return 0;
}
