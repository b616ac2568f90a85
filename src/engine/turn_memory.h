/* turn_memory: the turns that were generated here, as token ids.
 *
 * A client sends an answer back as text: with other spacing, other key order in a call's arguments,
 * without its reasoning. Tokenised again that is another prompt, and what was computed for the
 * answer would be of no use. Here lies what the answer was, keyed by the rendered prompt that it
 * was made for (its SHA-256 and length); the ids of its tool calls tell answers to one prompt
 * apart. Whether a turn that comes back is that answer is decided by who knows templates
 * (session/history.h); nothing is spliced here.
 *
 * Bounded: what was not used for longest goes first. Its bytes stand in the memory plan.
 * Thread: any; there is a lock inside. */
#ifndef RIPTIDE_ENGINE_TURN_MEMORY_H
#define RIPTIDE_ENGINE_TURN_MEMORY_H

#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

typedef struct turn_memory turn_memory;

/* A rendered prompt, for short. */
enum { TURN_TAIL = 16 };
typedef struct {
    unsigned char digest[32];
    char tail[TURN_TAIL]; /* its last bytes, so that most positions need no digest */
    size_t n_bytes;       /* at least TURN_TAIL; 0: nothing can be kept for it */
} turn_prompt;

/* n_bytes is 0 in the result where the text is too short or there is no memory. */
turn_prompt turn_prompt_of(str text);

/* An answer that ended by itself. All borrowed from the caller when it is kept, from the arena when
 * it is found. */
typedef struct {
    int n_messages; /* of the request: the answer is the message behind them */
    int n_ids, n_calls;
    const int32_t *ids;  /* [n_ids], the end token included */
    const str *call_ids; /* [n_calls] as the client knows them */
} turn;

/* max_bytes: of all turns, what goes with them included. Returns NOMEM */
status turn_memory_open(turn_memory **m, int64_t max_bytes, err *e);
void turn_memory_close(turn_memory *m); /* NULL is fine */

/* Keep a turn; the same ids for the same prompt are kept once, with the newest call ids. One that
 * alone is more than max_bytes, or for which there is no memory, is not kept: nothing but speed
 * depends on it. */
void turn_memory_put(turn_memory *m, const turn_prompt *prompt, const turn *t);

/* A kept turn whose prompt is how `text` begins. */
typedef struct {
    turn_prompt prompt;
    turn turn;
} turn_found;

/* All of them, the shortest prompt first, of one prompt the newest first. They count as used only
 * by turn_memory_use.
 *
 * out      [n] in the arena
 * Returns  NOMEM
 * Cost     a pass over text, and over what is kept */
status turn_memory_find(turn_memory *m, str text, arena *a, turn_found **out, int *n, err *e);

/* It was of use, and goes last now. */
void turn_memory_use(turn_memory *m, const turn_found *f);

typedef struct {
    int64_t n_turns, n_bytes, max_bytes;
    int64_t kept, used, used_tokens, evicted;
} turn_counters;
turn_counters turn_memory_stats(turn_memory *m);

#endif
