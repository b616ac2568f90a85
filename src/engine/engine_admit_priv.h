/* engine_admit: who gets a lane and who gives it up again.
 *
 * Waiting sequences go by priority; then those that were suspended, oldest first; then the one
 * with the least left to compute, less what was computed for later ones ahead of it: so a long
 * prompt is overtaken by no more work than its own. The same order decides whose prompt a step
 * computes. A sequence is admitted when the pool has the blocks of its prompt beside those that
 * running prompts still need, not those of the longest answers: where blocks run out later a
 * running sequence is suspended. That is the one of the lowest priority that came last, so the
 * first always goes on, and alone it has room, for the pool holds one whole context.
 * Thread: the engine thread. */
#ifndef RIPTIDE_ENGINE_ENGINE_ADMIT_PRIV_H
#define RIPTIDE_ENGINE_ENGINE_ADMIT_PRIV_H

#include "engine/engine_priv.h"

/* Cancel, suspend for what is more urgent, admit, until none is possible. True when anything
 * changed. */
bool engine_admit(engine *e);

/* Have blocks for the sequence's positions below end, suspending others for them. False when the
 * sequence was itself suspended. */
bool engine_make_room(engine *e, sequence *s, int64_t end);

/* Take slot and blocks away; the sequence waits again. keeps: what it computed is right, and may
 * be found again when it goes on. */
void engine_suspend(engine *e, sequence *s, bool keeps);

/* Tests (engine_options.suspends_always): every running sequence that came further than at its
 * last suspension. */
void engine_suspend_all(engine *e);

/* The lanes whose prompt is to be computed, whose turn it is first; returns their number.
 *
 * lanes  [ENGINE_LANES_MAX] out */
int engine_order_prompts(const engine *e, sequence **lanes);

#endif
