/* links: server */
/* A body of Chat Completions on its way to a checked request: no crash, no change on failure, and
 * what is let through is within its bounds. */
#include <stddef.h>
#include <stdint.h>

#include "fuzz/fuzz_request.h"

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
        status s = chat_request_parse(body, &x, &a, &r, &e);
        fuzz_check_outcome(s, &r, &e, &a, api_error_put_openai);
    }
    arena_fini(&a);
    return 0;
}
