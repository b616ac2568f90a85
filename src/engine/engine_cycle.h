/* engine_cycle: an engine's options as those of the decode cycle below it, for the engine and for
 * programs that drive a cycle themselves (parity, benchmarks, plans). */
#ifndef RIPTIDE_ENGINE_ENGINE_CYCLE_H
#define RIPTIDE_ENGINE_ENGINE_CYCLE_H

#include "decode/cycle.h"
#include "decode/width.h"
#include "engine/engine.h"
#include "engine/memory_plan.h"

/* Strings are borrowed from o, and o itself until the cycle is open; what only a cycle knows
 * (n_blocks, logit_rows, keeps_layers) is 0.
 */
cycle_options engine_cycle_options(const engine_options *o);

/* Bytes for the memory of turns (engine_options.turn_bytes); 0 = none. */
int64_t engine_turn_bytes(const engine_options *o);

/* The wish of these options for a model of these sizes, but for n_blocks. */
memory_wish engine_memory_wish(const engine_options *o, const cycle_sizes *sizes);

/* With draft_rows ENGINE_ROWS_AUTO and a draft: the policy of c's widths, which proposes nothing
 * until it is measured; else *out is NULL, and so it is on `ref`: nothing there is meant to be
 * fast, and a definition should run the same way every time. The caller frees *out. Returns  NOMEM
 */
status engine_open_widths(const engine_options *o, const cycle *c, width_policy **out, err *e);
/* Run some cycles of c, whose slots must not be in use, and let p go by their times; they are reset
 * then. Apart from opening, because an engine can be ready before. Returns  DEVICE (backend's
 * `last`) */
status engine_measure_widths(width_policy *p, cycle *c);

#endif
