/* engine: what is behind engine.h. */
#ifndef RIPTIDE_ENGINE_ENGINE_PRIV_H
#define RIPTIDE_ENGINE_ENGINE_PRIV_H

#include "base/thread.h"
#include "cache/reuse.h"
#include "decode/snapshot.h"
#include "decode/width.h"
#include "engine/engine.h"
#include "engine/memory_plan.h"
#include "engine/sequence_priv.h"

enum { ENGINE_LANES_MAX = 64 };

struct engine {
    engine_options opt;
    cycle *cycle;
    tokenizer *tok;
    reuse *reuse;
    turn_memory *turns;   /* NULL for none */
    snapshots *snapshots; /* NULL with the prompt cache off */
    int window_blocks;    /* of a snapshot */
    memory_wish wish;
    memory_plan memory;
    int32_t turn_id;               /* the token that begins a message, or -1 */
    mutex constraint_lock;         /* protects the next one being made */
    constraint_vocab *constraints; /* owned; NULL until a request has any */
    engine_info info;
    const char *draft_name;
    int width;            /* most proposals a cycle */
    width_policy *widths; /* owned; NULL = always the most */
    bool is_measured;     /* widths go by times */

    uint32_t *counts_row; /* owned [V]: token counts of a sequence that goes on */
    double ms_per_row;    /* of a prompt, of late; 0 = not known */
    double owed_ms;       /* of decoding, before prompts go on */
    int64_t n_leaves;     /* times a lane became free */
    engine_tally tally;

    sequence *lanes[ENGINE_LANES_MAX]; /* by slot, NULL = free; engine thread */
    cycle_slice slices[ENGINE_LANES_MAX];
    cycle_lane step[ENGINE_LANES_MAX];
    cycle_result results[ENGINE_LANES_MAX];
    int32_t step_cells[ENGINE_LANES_MAX];
    bool crossed[ENGINE_LANES_MAX];
    int64_t n_waits;
    sample_bias bias[OPS_BIAS_MAX];

    mutex lock; /* protects everything below */
    cond wake;
    sequence *waiting, **waiting_end; /* in order of arrival */
    int n_waiting;
    request *requests; /* every request not yet finished */
    uint64_t next_id;
    engine_counters count;
    bool is_stopping;
    err broken; /* a device that failed stays failed */

    thread worker;
};

/* engine_step.c: one step; true when something was done. */
bool engine_run_step(engine *e);

/* Take the first that waits, or NULL. Engine thread. */
sequence *engine_pop_waiting(engine *e);

/* engine_constraint.c: what the tokens of a sequence may be. Any thread. */
status engine_constrain(engine *e, sequence *s, err *err_out);
/* A call for these lanes failed. A broken device fails all lanes; else the one that came last fails
 * and the others are computed again. Engine thread. */
void engine_lanes_failed(engine *e, status st, const char *what, sequence *const *lanes, int n);

/* The time of the stage that the sequence is in. */
void engine_stop_clocks(sequence *s);

/* Give the sequence's slot and blocks back, send its FINISH, free it. Engine thread. */
void engine_finish_sequence(engine *e, sequence *s, engine_finish reason, const err *error);

#endif
