/* engine_check: does what was opened know anything, and is the draft one of this target?
 *
 * Weights can be finite, shapes right and everything still wrong: norms off by one, heads in
 * another order, a draft of another training. Both show on a built-in exercise: the loss of a known
 * answer, and how many tokens a cycle brings while the model writes its own. Neither is a reason to
 * refuse a model (what a fine-tune knows is its own affair, and a draft that is never right changes
 * no token), so a person is told. Thread: that of the cycle; no slot may be in use. */
#ifndef RIPTIDE_ENGINE_ENGINE_CHECK_H
#define RIPTIDE_ENGINE_ENGINE_CHECK_H

#include "decode/cycle.h"
#include "token/tokenizer.h"

typedef struct engine_check {
    double ms;                     /* that it took */
    double token_ms;               /* of one plain cycle; with is_slow too many to go on */
    bool is_slow;                  /* nothing else was tried */
    bool has_draft;                /* that fits, or opening would have failed */
    int n_scored;                  /* tokens of the known answer; 0: not tried or cut short */
    double loss;                   /* mean nats of each */
    double loss_most;              /* what is believable of a model that was trained */
    int cycles, tokens, max_draft; /* of its own answer; cycles 0: no draft, or cut short */
    double pace_least;             /* tokens a cycle that are believable of its own draft */
} engine_check;

/* Milliseconds: a plain cycle that takes longer makes the exercise too long, and what it may take
 * in all before it ends with what it has. */
typedef struct {
    double token_ms, all_ms;
} engine_check_limits;
engine_check_limits engine_check_usual_limits(void);

/* Run it on slot 0, which is reset then. It ends early when `stops` says so.
 *
 * stops    asked between cycles; NULL for never
 * Returns  DEVICE; NOMEM */
status engine_check_run(cycle *c, const tokenizer *t, engine_check_limits most,
                        bool (*stops)(void *ctx), void *ctx, engine_check *out, err *e);

/* Whether a figure is not believable. */
bool engine_check_is_bad(const engine_check *k);

/* One line for a person into out[cap], without its end. */
void engine_check_format(const engine_check *k, char *out, int cap);

#endif
