/* api_error: what went wrong as clients of an API see it: an HTTP status, a code that programs
 * read and a sentence for people. The one place where a status becomes an HTTP status.
 *
 * Thread: any; nothing here has state. */
#ifndef RIPTIDE_SERVER_API_ERROR_PRIV_H
#define RIPTIDE_SERVER_API_ERROR_PRIV_H

#include "base/buf.h"
#include "base/err.h"

typedef struct {
    int http;          /* 0: no error */
    const char *code;  /* static */
    char param[160];   /* the field that was wrong, or empty */
    char message[512]; /* as given; writers repair ill-formed UTF-8 */
} api_error;

/* Fill *a. */
void api_error_set(api_error *a, int http, const char *code, const char *param, const char *fmt,
                   ...) __attribute__((format(printf, 5, 6)));

/* What a failed call means for the client: FORMAT, INVALID and UNSUPPORTED are its mistake (400),
 * LIMIT too when it is about the request and 503 when it is about the load (where = "queue"),
 * NOMEM 503, DEVICE 500, CANCELED 503 (the server is stopping). */
void api_error_from(api_error *a, const err *e);

/* {"error":{"message","type","param","code"}} */
void api_error_put_openai(buf *out, const api_error *a);

/* {"type":"error","error":{"type","message"}}; the type follows from the HTTP status. */
void api_error_put_anthropic(buf *out, const api_error *a);

/* {"detail":[{"loc":["body",param],"msg","type"}]}, as System One has it. */
void api_error_put_detail(buf *out, const api_error *a);

/* "invalid_request_error" or "server_error". */
const char *api_error_type(const api_error *a);

#endif
