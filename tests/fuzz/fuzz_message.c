/* links: chat */
/* A byte of template abilities, then a request as JSON. What is taken has text or parts as content,
 * objects (or text, where the template wants it) as arguments, and no `cache_control`. */
#include "base/asserts.h"
#include "chat/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_message(const json *m, const template_caps *caps)
{
    const json *content = json_get(m, "content"), *calls = json_get(m, "tool_calls");
    ASSERT(json_is(json_get(m, "role"), JSON_STRING));
    ASSERT(json_is(content, JSON_STRING) || json_is(content, JSON_ARRAY) ||
           (json_is(content, JSON_NULL) && calls && caps->wants_null_content));
    ASSERT(!json_get(m, "cache_control") && !json_get(m, "reasoning"));
    for (const json *call = calls ? calls->first : NULL; call; call = call->next) {
        const json *function = json_get(call, "function");
        ASSERT(json_is(json_get(function, "name"), JSON_STRING));
        ASSERT(json_is(json_get(function, "arguments"),
                       caps->wants_text_arguments ? JSON_STRING : JSON_OBJECT));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) return 0;
    arena a;
    err e = {0};
    const json *request = NULL;
    message_set m = {0};
    template_caps caps = {
        .has_system = data[0] & 1,
        .has_later_system = data[0] & 2,
        .has_developer = data[0] & 4,
        .wants_text_arguments = data[0] & 8,
        .wants_null_content = data[0] & 16,
        .merges_users = data[0] & 32,
        .efforts = data[0] >> 2,
    };
    arena_init(&a, 0);
    if (json_parse(&a, (str){(const char *)data + 1, n - 1}, "request", 64, 0, &request, NULL) ==
        ERR_OK) {
        status s = message_parse(&a, request, &caps, &m, &e);
        ASSERT(s == ERR_OK || (e.code == s && !m.messages));
        if (s == ERR_OK) {
            ASSERT(json_is(m.messages, JSON_ARRAY) && json_is(m.kwargs, JSON_OBJECT));
            for (const json *v = m.messages->first; v; v = v->next) check_message(v, &caps);
        }
    }
    arena_fini(&a);
    return 0;
}
