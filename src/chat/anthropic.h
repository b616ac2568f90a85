/* anthropic: a request of Anthropic's Messages API, made into a Chat Completions request that
 * message_parse reads.
 *
 * - `system`, a string or text blocks, becomes the first message. A leading line
 *   "x-anthropic-billing-header: …", which one client puts there with another checksum on every
 *   turn, is left out: it would change the prompt's head, and no prefix would ever be found again
 * - tool_result blocks become messages of role `tool`, tool_use blocks tool calls, thinking blocks
 *   reasoning_content; redacted thinking is dropped
 * - text blocks next to each other are joined by a line break, an assistant's by nothing
 * - tools keep name, description and schema. Tools that Anthropic defines and whose schema is
 *   therefore not in the request (web_search_…, bash_…) are left out
 * - thinking is on for `enabled` and `adaptive`, else off; output_config.effort is its effort.
 *   chat_template_kwargs, enable_thinking and preserve_thinking are passed on and outrank it
 * - cache_control reaches no prompt
 *
 * Thread: any; an arena belongs to one thread. */
#ifndef RIPTIDE_CHAT_ANTHROPIC_H
#define RIPTIDE_CHAT_ANTHROPIC_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

/* *chat lives in `a` and borrows from the request.
 *
 * Returns  FORMAT, INVALID or UNSUPPORTED with a JSON pointer into the request in err.where;
 *          NOMEM */
status anthropic_to_chat(arena *a, const json *request, const json **chat, err *e);

/* The `signature` of a thinking block. With is_whole it carries the text itself, for a client that
 * does not want to see it but sends the block back; else it only marks the block as ours. */
void anthropic_put_signature(buf *out, str thinking, bool is_whole);

#endif
