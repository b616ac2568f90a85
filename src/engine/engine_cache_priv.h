/* engine_cache: what an engine does about its prompt cache around its steps: admit a sequence at
 * the longest prefix there is, keep states where later prompts may leave this one, publish what
 * is complete.
 *
 * States are kept (only at block boundaries)
 *   - where a later prompt is expected to differ: behind the first message (system and tools),
 *     before the last one begins (the generation prompt), at the prompt's last boundary (the same
 *     prompt again), where an earlier prompt left the path (a branch), at the end of a turn;
 *   - where messages begin, the farther apart the farther from the prompt's end, and where earlier
 *     turns ended;
 *   - in passing: at the end of each prompt slice and at each boundary of an answer. These thin
 *     out by reuse.h's eviction.
 * Slices of a prompt end at block boundaries so that this costs no pass of its own. Its first ones
 * end at 512, 1,024, 2,048 … tokens at the latest, so that at least half of what another prompt
 * shares with it can be taken over, however many rows a slice may have.
 * Thread: the engine thread. */
#ifndef RIPTIDE_ENGINE_ENGINE_CACHE_PRIV_H
#define RIPTIDE_ENGINE_ENGINE_CACHE_PRIV_H

#include "engine/engine_priv.h"

/* Open the cache that e->memory plans over the opened cycle and tokenizer; e->memory then tells
 * what came of it. */
status engine_cache_open(engine *e, err *out);
void engine_cache_close(engine *e);
engine_cache_counters engine_cache_stats(const engine *e);

/* The pool has room for the sequence's prompt and a block of its answer (to its longest when it had
 * been suspended) beside the prompts of the running ones and a block more of their answers. */
bool engine_cache_fits(const engine *e, const sequence *s);

/* A running lane is computing a prefix of the sequence's prompt that is worth waiting for. */
bool engine_cache_should_wait(engine *e, sequence *s);

/* Tokens that the sequence could take over if it started now. */
int64_t engine_cache_peek(const engine *e, const sequence *s);

/* The sequence has got its slot, which was reset: take over what there is. Sets s->pos. */
status engine_cache_start(engine *e, sequence *s);

/* Have KV blocks for positions below `end`. LIMIT when there are too few; then none is taken. */
status engine_cache_reach(engine *e, sequence *s, int64_t end);

/* Where the next slice of the prompt ends, at most n rows on. */
int64_t engine_cache_slice_end(const engine *e, const sequence *s, int n);

/* The next position behind a slice before which the draft's context is wanted: where a state is
 * planned to be kept, or the prompt's end. */
int64_t engine_cache_context_end(const sequence *s, int64_t slice_end);

/* A slice was computed and s->pos moved behind it. */
status engine_cache_after_slice(engine *e, sequence *s);

/* Around cycle_step over e->step[0..L), whose blocks are there. */
status engine_cache_before_cycle(engine *e, int L);
status engine_cache_after_cycle(engine *e, int L);

/* The cycle took the sequence, which has s->pos moved and its tokens emitted, over a boundary. */
status engine_cache_cross(engine *e, sequence *s);

/* The sequence gives up its slot; keeps_end: its content is right. */
void engine_cache_leave(engine *e, sequence *s, bool keeps_end);

#endif
