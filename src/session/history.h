/* history: a conversation to token ids, with the turns that were generated here as they were.
 *
 * The messages are rendered and tokenised. Where the rendered text begins with a prompt that was
 * answered here (engine/turn_memory.h), and what follows up to the turn's end says what that answer
 * said, the answer's own ids stand in the prompt instead of new ones for its text: so the prompt
 * cache, which knows the answer, goes on behind it. It says the same when
 *
 *   - the message has tool calls of the same ids, in the same order, or has none like the answer
 *   - read as output of the model is read, text and calls are equal; arguments by value, whatever
 *     their order, spacing and spelling of numbers
 *   - its reasoning is equal too, or it has none, and the template, were it given the reasoning,
 *     would write it there. So a template that drops the reasoning of old turns keeps doing so.
 *
 * A prompt with such turns is answered as the same ids would be, however they came about.
 * Thread: any. */
#ifndef RIPTIDE_SESSION_HISTORY_H
#define RIPTIDE_SESSION_HISTORY_H

#include "chat/template.h"
#include "engine/turn_memory.h"
#include "token/tokenizer.h"

/* All borrowed for the call. */
typedef struct {
    const template *tpl;
    const tokenizer *tokens;
    turn_memory *turns; /* NULL: no turns are looked for */
    template_input input;
    str prefill;        /* tokenised behind the rendered text as text of a message */
    int64_t max_tokens; /* 0: no limit */
} history_request;

typedef struct {
    turn_prompt prompt;     /* to keep the answer by; n_bytes 0 when it is not to be kept */
    int n_turns;            /* that stand in it as they were generated */
    int64_t n_turn_tokens;  /* of these */
    int64_t n_filled_turns; /* of these, that came back without their reasoning */
} history_made;

/* Append the rendered text to `text` and its tokens to `ids`.
 *
 * Looking for turns gives up quietly where there is no memory.
 *
 * Returns  what template_render and tokenizer_encode_segments return; `ids` is then as before */
status history_encode(const history_request *r, buf *text, token_ids *ids, history_made *out,
                      err *e);

#endif
