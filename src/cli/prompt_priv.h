/* prompt: a conversation as text and as token ids.
 *
 * Template text is encoded with special tokens, message text without them. */
#ifndef RIPTIDE_CLI_PROMPT_PRIV_H
#define RIPTIDE_CLI_PROMPT_PRIV_H

#include "base/arena.h"
#include "base/buf.h"
#include "chat/message.h"
#include "token/tokenizer.h"

/* Messages from JSON text, which must outlive `out`; `name` is for messages of errors. */
status prompt_from_json(arena *a, str text, const char *name, const template *t, bool no_thinking,
                        message_set *out, err *e);

/* The same from a file: an array of messages or a Chat request object. */
status prompt_from_file(arena *a, const char *path, const template *t, bool no_thinking,
                        message_set *out, err *e);

/* One user message. */
status prompt_from_text(arena *a, const char *text, const template *t, bool no_thinking,
                        message_set *out, err *e);

/* Render with the generation prompt into `text`, with the origin of its parts. */
status prompt_render(const template *t, const message_set *m, str bos, str eos, buf *text,
                     segments *parts, err *e);

/* Render as above and append the ids. */
status prompt_ids(const template *t, const message_set *m, str bos, str eos, const tokenizer *tok,
                  arena *a, token_ids *ids, err *e);

#endif
