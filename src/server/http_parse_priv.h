/* http_parse: bytes of a connection to requests, one at a time. llhttp in strict mode decides what
 * is well formed; what it still lets pass is refused here: folded fields, a head that is too long
 * or has too many fields, HTTP other than 1.0 and 1.1, not exactly one Host on 1.1, trailers and
 * chunk extensions without end.
 *
 * It stops behind a head, before any byte of the body is looked at, so that a request can be
 * refused by its head alone, and behind a message, so that the next one waits its turn.
 * Thread: the event loop. */
#ifndef RIPTIDE_SERVER_HTTP_PARSE_PRIV_H
#define RIPTIDE_SERVER_HTTP_PARSE_PRIV_H

#include "server/http_head_priv.h"

typedef enum {
    HTTP_MORE,      /* everything was used; more bytes are needed */
    HTTP_HEAD_DONE, /* head is complete */
    HTTP_DONE,      /* the message is complete */
    HTTP_BAD,       /* refused: see status and reason; nothing more can be read */
    HTTP_STOPPED,   /* on_body returned false */
} http_step;

typedef enum { HEAD_START, HEAD_IN_LINE, HEAD_LINE_START, HEAD_LINE_CR, HEAD_ENDED } http_scan;

struct llhttp__internal_s;

/* Set on_body and ctx after http_parser_init; they are kept by http_parser_reset. */
typedef struct {
    struct llhttp__internal_s *ll; /* owned; NULL between messages */
    http_head head;
    http_scan scan; /* where the raw bytes of the head stand */
    int head_bytes;
    int extra_bytes; /* trailers and chunk extensions */
    bool has_head;   /* llhttp agrees that the head is complete */
    bool told_head;  /* and the caller knows */
    bool is_done;
    int status;                            /* BAD: 400, 431, 501 or 505; 503 without memory */
    const char *reason;                    /* BAD: a sentence, static */
    bool (*on_body)(void *ctx, str bytes); /* false stops */
    void *ctx;
    bool is_stopped;
} http_parser;

void http_parser_init(http_parser *p);
void http_parser_fini(http_parser *p);
/* Forget the message and begin the next one. */
void http_parser_reset(http_parser *p);

/* Take bytes up to the next milestone. *n_used <= in.len tells how far. After HEAD_DONE call again
 * (also with no bytes: a message without a body is then DONE). */
http_step http_parse(http_parser *p, str in, size_t *n_used);

/* Whether a byte of this message has been seen. */
static inline bool http_parser_has_begun(const http_parser *p)
{
    return p->scan != HEAD_START;
}

#endif
