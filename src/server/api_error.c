#include "server/api_error_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

void api_error_set(api_error *a, int http, const char *code, const char *param, const char *fmt,
                   ...)
{
    *a = (api_error){.http = http, .code = code};
    snprintf(a->param, sizeof a->param, "%s", param ? param : "");
    va_list args;
    va_start(args, fmt);
    vsnprintf(a->message, sizeof a->message, fmt, args);
    va_end(args);
}

static void set_request(api_error *a, const err *e)
{
    const char *at = e->where[0] ? e->where : NULL;
    if (e->pos >= 0)
        api_error_set(a, 400, "invalid_request_error", at, "%s%s%s (byte %ld)", at ? at : "",
                      at ? ": " : "", e->msg, e->pos);
    else
        api_error_set(a, 400, "invalid_request_error", at, "%s%s%s", at ? at : "", at ? ": " : "",
                      e->msg);
}

void api_error_from(api_error *a, const err *e)
{
    switch (e->code) {
    case ERR_OK: *a = (api_error){0}; break;
    case ERR_FORMAT:
    case ERR_INVALID:
    case ERR_UNSUPPORTED: set_request(a, e); break;
    case ERR_LIMIT:
        if (strcmp(e->where, "context_length_exceeded") == 0)
            api_error_set(a, 400, "context_length_exceeded", "messages", "%s", e->msg);
        else if (strcmp(e->where, "queue") == 0)
            api_error_set(a, 503, "frontend_overloaded", NULL, "the queue is full: %s", e->msg);
        else
            set_request(a, e);
        break;
    case ERR_NOMEM: api_error_set(a, 503, "runtime_unavailable", NULL, "out of memory"); break;
    case ERR_CANCELED:
        api_error_set(a, 503, "server_shutdown", NULL, "the server is stopping");
        break;
    case ERR_DEVICE:
        /* An answer that is no numbers fails alone; else nothing can be computed until a restart.
         */
        if (strcmp(e->where, "numbers") == 0)
            api_error_set(a, 500, "engine_failed", NULL, "%s: %s", e->where, e->msg);
        else
            api_error_set(a, 503, "runtime_unavailable", NULL, "the device failed: %s: %s",
                          e->where, e->msg);
        break;
    case ERR_IO:
        api_error_set(a, 500, "internal_server_error", NULL, "%s: %s", e->where, e->msg);
        break;
    }
}

const char *api_error_type(const api_error *a)
{
    return a->http >= 500 ? "server_error" : "invalid_request_error";
}

void api_error_put_openai(buf *out, const api_error *a)
{
    json_writer w;
    json_writer_init(&w, out);
    json_open_object(&w);
    json_key(&w, "error");
    json_open_object(&w);
    json_key(&w, "message");
    json_c_string(&w, a->message);
    json_key(&w, "type");
    json_c_string(&w, api_error_type(a));
    json_key(&w, "param");
    if (a->param[0])
        json_c_string(&w, a->param);
    else
        json_null(&w);
    json_key(&w, "code");
    json_c_string(&w, a->code);
    json_close_object(&w);
    json_close_object(&w);
}

void api_error_put_detail(buf *out, const api_error *a)
{
    json_writer w;
    json_writer_init(&w, out);
    json_open_object(&w);
    json_key(&w, "detail");
    json_open_array(&w);
    json_open_object(&w);
    json_key(&w, "loc");
    json_open_array(&w);
    json_c_string(&w, "body");
    if (a->param[0]) json_c_string(&w, a->param);
    json_close_array(&w);
    json_key(&w, "msg");
    json_c_string(&w, a->message);
    json_key(&w, "type");
    json_c_string(&w, a->code);
    json_close_object(&w);
    json_close_array(&w);
    json_close_object(&w);
}

static const char *anthropic_type(int http)
{
    switch (http) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 408:
    case 504: return "timeout_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    default: return http >= 500 ? "api_error" : "invalid_request_error";
    }
}

void api_error_put_anthropic(buf *out, const api_error *a)
{
    json_writer w;
    json_writer_init(&w, out);
    json_open_object(&w);
    json_key(&w, "type");
    json_c_string(&w, "error");
    json_key(&w, "error");
    json_open_object(&w);
    json_key(&w, "type");
    json_c_string(&w, anthropic_type(a->http));
    json_key(&w, "message");
    json_c_string(&w, a->message);
    json_close_object(&w);
    json_close_object(&w);
}
