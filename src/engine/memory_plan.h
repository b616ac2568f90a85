/* memory_plan: the one ledger. What is fixed, what the rest is spent on, and whether it fits.
 *
 * Fixed: weights, draft, scratch, the lanes' states and draft context, the memory of turns. The
 * rest goes to KV blocks and to the prompt cache's states: as much as all lanes at their longest
 * can use and half of that, where there is less both in proportion, at least one whole context.
 * Numbers only; engine_open and `riptide info` ask the same question. Weights count as they lie in
 * the files: a backend that keeps some types larger takes more, which engine_open finds out at the
 * end. Pure. */
#ifndef RIPTIDE_ENGINE_MEMORY_PLAN_H
#define RIPTIDE_ENGINE_MEMORY_PLAN_H

#include "decode/cycle.h"

typedef struct {
    cycle_sizes sizes;
    int n_lanes;
    int64_t max_bytes;   /* 0 = no limit */
    bool is_device;      /* max_bytes is what the device has left */
    int64_t cache_bytes; /* engine_options.cache_bytes */
    int64_t n_blocks;    /* exactly so many; 0 = as many as are useful and fit */
    int64_t turn_bytes;  /* of the memory of generated turns, on the host */
} memory_wish;

typedef struct {
    int64_t n_blocks;
    int n_cells;   /* of the prompt cache, those of the lanes included; 0 = off */
    int n_windows; /* of the draft's context */
    int64_t weights, draft, scratch, states, kv, draft_kv, cache, turns, total;
    int64_t limit; /* 0 = none */
    bool is_short; /* less than would be of use, to fit */
} memory_plan;

/* Returns  NOMEM with the breakdown when it does not fit; INVALID for cache_bytes that hold no
 * state, or n_blocks that hold no context */
status memory_plan_make(const memory_wish *w, memory_plan *out, err *e);

/* Half of the prompt cache's states and windows, when those did not fit after all; false when there
 * is nothing left to give up: then the cache is off. */
bool memory_plan_shrink(memory_plan *p, const memory_wish *w);

/* Whether so many lanes are of use: what they take for themselves is no more than a quarter of what
 * weights and scratch leave, and of the rest as many keys and values are theirs as a quarter of
 * them needs at its longest. In the host's memory they share its cores, so there are
 * MEMORY_PLAN_LANES_HOST at most. */
enum { MEMORY_PLAN_LANES_HOST = 8 };
bool memory_plan_suits(const memory_wish *w);

/* The wish of no lanes yet: the limit, of the machine or the device where nothing less was asked
 * for. */
memory_wish memory_plan_wish(const cycle_sizes *sizes, int64_t max_memory);

/* What a process on this machine may take without being asked: its memory less a margin; 0 = not
 * known. For backends in the host's memory. */
int64_t memory_plan_machine(void);
/* The same of a device that has so many bytes free. */
int64_t memory_plan_device(int64_t free_bytes);

#endif
