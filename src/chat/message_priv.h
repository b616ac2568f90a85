/* message_priv: steps of message_parse. */
#ifndef RIPTIDE_CHAT_MESSAGE_PRIV_H
#define RIPTIDE_CHAT_MESSAGE_PRIV_H

#include "chat/message.h"
#include "chat/tree_priv.h"

enum { MESSAGE_DEPTH = 128 };

/* Where in the request a step is, for err.where: "/messages/3/content". */
typedef struct {
    arena *a;
    const template_caps *caps;
    err *e;
    char path[120];
} message_reader;

/* Fill in the error with the current path and `tail` behind it. */
status message_fail(const message_reader *r, status code, const char *tail, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
status message_fail_memory(const message_reader *r);

/* One message in the template's spelling, at r->path. */
status message_convert(message_reader *r, const json *m, const json **out);
/* Variables for the template, from the whole request. */
status message_kwargs(message_reader *r, const json *request, const json **out, bool *is_off);

/* The text of content that is a string; {"", 0} for anything else. */
str message_text(const json *m);
str message_role(const json *m);
/* A copy of m with another role and content. */
const json *message_replace(arena *a, const json *m, str role, str content);

#endif
