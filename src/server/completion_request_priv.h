/* completion_request: bodies whose prompt is no conversation: POST /v1/completions, /tokenize and
 * /detokenize, checked field by field.
 *
 * Thread: a helper. */
#ifndef RIPTIDE_SERVER_COMPLETION_REQUEST_PRIV_H
#define RIPTIDE_SERVER_COMPLETION_REQUEST_PRIV_H

#include "server/generation_priv.h"

/* `prompt` is a string or an array of token ids; one of either in an array will do. Members that
 * are null count as absent, unknown ones are ignored.
 *
 * Returns  INVALID or UNSUPPORTED with where = the field; NOMEM */
status completion_request_parse(const json *body, const chat_context *x, arena *a,
                                generation_request *out, err *e);

/* What /tokenize wants to see. */
typedef struct {
    str text;                /* `content`, or `prompt` */
    bool has_plain_specials; /* parse_special is false */
    bool with_pieces;
} tokenize_request;

/* Returns  INVALID with where = the field */
status tokenize_request_parse(const json *body, tokenize_request *out, err *e);

/* `tokens` of /detokenize, in `a`. Returns as above, and NOMEM. */
status detokenize_request_parse(const json *body, int V, arena *a, const int32_t **ids, int *n,
                                err *e);

#endif
