/* message: a Chat Completions request, made into what the model's template expects.
 *
 * Clients differ in how they spell things and templates in what they understand; this is the one
 * place that knows both. What it changes:
 *
 * - content parts that are all text become one string; null and missing content become ""
 * - `reasoning` becomes `reasoning_content`
 * - tool call arguments given as text become an object (or stay text for a template that wants
 *   it); arguments that were cut off are read as far as they go
 * - leading system and developer messages become one, joined by a blank line; later ones stay
 *   where they are, as a user message in <system-reminder> tags when the template refuses them
 *   there (moving them to the front would change the prompt's head on every turn)
 * - reasoning effort takes the nearest name that the template knows; `cache_control` is dropped
 *
 * Tools are passed on as they are (key order and number text), less `cache_control`.
 * Thread: any; an arena belongs to one thread. */
#ifndef RIPTIDE_CHAT_MESSAGE_H
#define RIPTIDE_CHAT_MESSAGE_H

#include "chat/template.h"

/* Everything lives in the arena it was parsed into, or borrows from the request. */
typedef struct {
    const json *messages; /* array */
    const json *tools;    /* array, or NULL when there are none */
    const json *kwargs;   /* object: variables for the template */
    bool is_thinking_off; /* enable_thinking is false, however it was said */
} message_set;

/* Read a request object {messages, tools, chat_template_kwargs, reasoning_effort, reasoning.effort,
 * output_config.effort, enable_thinking, preserve_thinking} or a bare array of messages; other
 * members are ignored. chat_template_kwargs outrank the members of the same name; a boolean
 * enable_thinking outranks the effort "none".
 *
 * Returns  FORMAT, INVALID or UNSUPPORTED with a JSON pointer in err.where; NOMEM. On failure *out
 *          is untouched */
status message_parse(arena *a, const json *request, const template_caps *caps, message_set *out,
                     err *e);

/* The same from a file. */
status message_read(arena *a, const char *path, const template_caps *caps, message_set *out,
                    err *e);

/* Turn thinking off or on for the template, whatever the request said. */
status message_set_thinking(arena *a, message_set *m, bool is_on, err *e);

#endif
