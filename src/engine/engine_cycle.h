/* engine_cycle: an engine's options as those of the decode cycle below it, for the engine and for
 * programs that drive a cycle themselves (parity, benchmarks, plans). */
#ifndef RIPTIDE_ENGINE_ENGINE_CYCLE_H
#define RIPTIDE_ENGINE_ENGINE_CYCLE_H

#include "decode/cycle.h"
#include "engine/engine.h"

/* Strings are borrowed from o; what only a cycle knows (n_blocks, logit_rows, keeps_layers) is 0.
 */
cycle_options engine_cycle_options(const engine_options *o);

#endif
