#include "server/route_priv.h"

#include "server/endpoint_priv.h"

/* method, path, function, is public, has a body */
static const route routes[] = {
    {METHOD_GET, "/", endpoint_root, true, false},
    {METHOD_GET, "/health", endpoint_health, true, false},
    {METHOD_GET, "/ready", endpoint_ready, true, false},
    {METHOD_GET, "/status", endpoint_status, false, false},
    {METHOD_GET, "/metrics", endpoint_metrics, false, false},
    {METHOD_GET, "/v1/models", endpoint_models, false, false},
    {METHOD_GET, "/v1/models/", endpoint_model, false, false},
    {METHOD_POST, "/v1/chat/completions", endpoint_chat_completions, false, true},
    {METHOD_POST, "/v1/completions", endpoint_completions, false, true},
    {METHOD_POST, "/v1/responses", endpoint_responses, false, true},
    {METHOD_GET, "/v1/responses/", endpoint_get_response, false, false},
    {METHOD_DELETE, "/v1/responses/", endpoint_delete_response, false, false},
    {METHOD_POST, "/v1/messages", endpoint_messages, false, true},
    {METHOD_POST, "/v1/messages/count_tokens", endpoint_count_tokens, false, true},
    {METHOD_POST, "/v1/judgments", endpoint_judgments, false, true},
    {METHOD_POST, "/v1/systemone", endpoint_systemone, false, true},
    {METHOD_POST, "/tokenize", endpoint_tokenize, false, true},
    {METHOD_POST, "/detokenize", endpoint_detokenize, false, true},
    {METHOD_POST, "/apply-template", endpoint_apply_template, false, true},
};
enum { N_ROUTES = sizeof routes / sizeof *routes };

/* "/v1/models/" takes what is below it; "/" only itself. */
static bool is_at(const route *r, str path)
{
    str own = str_from(r->path);
    bool takes_below = own.len > 1 && own.ptr[own.len - 1] == '/';
    return takes_below ? path.len > own.len && str_starts(path, own) : str_equal(path, own);
}

route_match route_find(http_method method, str path, const route **found)
{
    http_method wanted = method == METHOD_HEAD ? METHOD_GET : method;
    route_match match = ROUTE_NO_PATH;
    for (int i = 0; i < N_ROUTES; i++) {
        if (!is_at(&routes[i], path)) continue;
        match = ROUTE_NO_METHOD;
        if (routes[i].method != wanted) continue;
        *found = &routes[i];
        return ROUTE_FOUND;
    }
    return match;
}

void route_put_methods(str path, buf *out)
{
    for (int i = 0; i < N_ROUTES; i++) {
        if (!is_at(&routes[i], path)) continue;
        buf_printf(out, "%s, ", http_method_text(routes[i].method));
        if (routes[i].method == METHOD_GET) buf_put_c(out, "HEAD, ");
    }
    buf_put_c(out, "OPTIONS");
}

str route_rest(const route *r, str path)
{
    return str_skip(path, strlen(r->path));
}
