/* engine: many requests, N lanes, one step at a time. The public boundary below server and cli.
 *
 * Speaks token ids and bytes: templates are rendered and output is parsed above it.
 * Thread: engine_submit, engine_cancel, engine_stats and the read-only accessors from any thread;
 * open, close, start, stop from one; engine_step from one thread while not started. Events are
 * delivered on the thread that steps; a callback must not block and may submit or cancel. */
#ifndef RIPTIDE_ENGINE_ENGINE_H
#define RIPTIDE_ENGINE_ENGINE_H

#include "engine/event.h"
#include "engine/histogram.h"
#include "engine/turn_memory.h"
#include "grammar/grammar.h"
#include "sample/policy.h"
#include "token/tokenizer.h"

typedef struct engine engine;
struct engine_check; /* engine_check.h */

typedef enum { ENGINE_KV_INT8, ENGINE_KV_BF16, ENGINE_KV_F32 } engine_kv;
/* Of recurrent states. BF16 halves what a kept state takes; the live ones are rounded at every
 * block boundary then, so that it does not show which were kept. */
typedef enum { ENGINE_STATE_F32, ENGINE_STATE_BF16 } engine_state;
enum { ENGINE_ROWS_AUTO = -2, ENGINE_WIDTHS = 16 };

typedef struct {
    const char *model;   /* path of a checkpoint */
    const char *draft;   /* path, or NULL for none */
    const char *backend; /* "ref", "cpu", "cuda", "cpu:avx2" …, or NULL for the best there is */
    int n_threads;       /* 0 = all cores */
    bool pins_threads;   /* of the cpu backends, to a core each, but for the engine's own */
    int n_lanes;         /* 1..64; 0 = by the memory there is (memory_plan.h) */
    int prefill_rows;    /* most prompt rows of a step; 0 = as suits the backend */
    int64_t max_context; /* tokens of one sequence, prompt and answer; 0 = the model's */
    engine_kv kv;
    engine_state state;
    int draft_rows; /* proposals a cycle; -1 = as many as the draft makes; ENGINE_ROWS_AUTO = as
                     * many as pay, lane by lane (decode/width.h) */
    int queue_size; /* waiting choices; 0 = 256 */
    /* Bytes that all of it may take (memory_plan.h), of a device its own memory; 0 = what the
     * machine or the device has less a margin, and never more than a device has. */
    int64_t max_memory;
    int64_t kv_blocks; /* tests: exactly so many blocks of 64 tokens; 0 = by the memory there is */
    /* Bytes for kept states, so that a prompt resumes where an earlier one left it; 0 = in
     * proportion to the lanes' memory, less where that does not fit, -1 = keep nothing. Keys and
     * values need no bytes beyond those of the lanes: what a finished sequence leaves stays until
     * the room is needed. */
    int64_t cache_bytes;
    /* Bytes for the turns that are remembered as they were generated (turn_memory.h); 0 = 8 MiB, -1
     * = none, as without a prompt cache. */
    int64_t turn_bytes;
    /* Called while weights are opened, on the opening thread; NULL for none. */
    void (*on_progress)(void *ctx, int layers_done, int layers);
    void *progress_ctx;
    /* With it the exercise of engine_check.h is done before the first step, on the thread that
     * steps, unless a request waits already; NULL for none. */
    void (*on_check)(void *ctx, const struct engine_check *k);
    void *check_ctx;
    /* Prompts are computed in slices of about so many ms, by what a token took of late, while
     * others wait for tokens, and of twice that while nobody does, so that what comes meanwhile is
     * not held up; 0 = 100, -1 = slices of prefill_rows. At least 64 or 128 rows. */
    double slice_ms;
    double decode_share; /* ms of decoding owed for each ms of a slice, 0 .. 10 */
    /* Called once, on the thread that steps, when the device has failed for good: all requests fail
     * with DEVICE from then on. NULL for none. */
    void (*on_broken)(void *ctx, const err *failure);
    void *broken_ctx;
    bool guards_steps;    /* tests: an allocation inside a step aborts */
    bool evicts_always;   /* tests: whatever may be evicted is, one by one, at every chance */
    bool spoils_drafts;   /* tests: proposals are replaced by token 0, which is hardly ever right */
    int draft_window;     /* tests: positions back that the draft sees, of 64; 0 = as it was made */
    bool suspends_always; /* tests: every lane is suspended as soon as it came further than last */
} engine_options;

/* Returns  what loading returns; INVALID for an option out of range */
status engine_open(engine **e, const engine_options *o, err *err_out);
/* Cancels what is running (each choice still gets its FINISH) and frees all. NULL is fine. */
void engine_close(engine *e);

/* What was opened; everything borrowed from e. */
typedef struct {
    const char *model_name, *draft_name; /* draft_name NULL without a draft */
    const char *backend, *isa, *format;
    int V, n_layers, n_lanes;
    int64_t max_context;
    int max_draft;
    const int32_t *eos;
    int n_eos;
    str chat_template, bos_token, eos_token;
    policy defaults; /* generation_config over neutral */
    int64_t weight_bytes, draft_bytes, kv_bytes, draft_kv_bytes, state_bytes, scratch_bytes;
    int64_t cache_bytes, turn_bytes;
    int64_t memory_limit; /* that the plan kept to; 0 = none was known */
    int64_t kv_tokens;    /* that all lanes and the prompt cache share */
    double load_ms;       /* in which the weights were read and put in place */
    int64_t load_bytes;   /* of them in the files, the draft's too */
} engine_info;
const engine_info *engine_about(const engine *e);
const tokenizer *engine_tokenizer(const engine *e);
/* Kept and used by who renders prompts (session/history.h); NULL when there is none. */
turn_memory *engine_turns(const engine *e);

typedef void engine_event_fn(void *ctx, const engine_event *ev);

typedef struct {
    const int32_t *ids; /* [n_ids] the prompt, >= 1; copied */
    int n_ids;
    int64_t max_tokens; /* 0 = what the context leaves; cut to that in any case */
    policy policy;      /* checked here; bias copied */
    const str *stop;    /* [n_stop] copied */
    int n_stop;
    int n; /* choices, 1..64; each draws with its own noise */
    bool wants_logprobs;
    bool keeps_special; /* special tokens are shown in text */
    /* What the answer must be; held until the request ends. NULL: anything. It begins behind the
     * reasoning; once it is complete only an end token can follow. Not with policy.ignore_eos. A
     * choice that comes past the limits of grammar.h fails with LIMIT, where "grammar". */
    grammar *grammar;
    bool starts_in_reasoning; /* the prompt left reasoning (`<think>`) open */
    bool has_reasoning_limit; /* after reasoning_most tokens of reasoning its end token comes */
    int64_t reasoning_most;
    bool ends_loops; /* likewise when the reasoning goes round (grammar/repeat_priv.h) */
    int priority;    /* higher ones go first and take lanes from lower ones */
    /* Instead of an answer the raw logits of these ids behind the prompt: the one choice finishes
     * with ENGINE_STOP and without tokens, and before that the logits are written to `scores`,
     * which must stay until then. */
    const int32_t *score_ids; /* [n_scores] copied */
    int n_scores;             /* 0: an answer */
    float *scores;            /* [n_scores] out */
    engine_event_fn *on_event;
    void *ctx;
} engine_request;

/* Take what requests with a grammar need (some 35 MB at 250,000 tokens), unless it is there. The
 * first such request does so otherwise, on the submitting thread. Thread: any. */
status engine_prepare_grammars(engine *e, err *err_out);

/* Queue a request.
 *
 * id       out: names it in events and engine_cancel
 * Returns  INVALID (where = field); LIMIT with where "context_length_exceeded" when the prompt
 *          leaves no room for one token, with where "queue" when too much is waiting; NOMEM */
status engine_submit(engine *e, const engine_request *r, uint64_t *id, err *err_out);

/* Stop a request wherever it is; its choices finish with ENGINE_CANCELED before the next step. */
void engine_cancel(engine *e, uint64_t id);

/* Do one step (a slice of prompts, and a cycle of the decoding lanes). False when idle. */
bool engine_step(engine *e);

/* Step on a thread of the engine's own until engine_stop. */
status engine_start(engine *e, err *err_out);
void engine_stop(engine *e);

/* The prompt cache (cache/reuse.h). */
typedef struct {
    int64_t lookups, hits;                               /* prompts */
    int64_t reused_tokens;                               /* taken over from earlier work */
    int64_t stopped_at_end, stopped_by_tokens, no_state; /* why a lookup gave no more: it was
   all there, the next block's tokens were new, they were known but no state was kept */
    int64_t waits;                                       /* sequences that waited for a prefix
                                                            under way instead of computing it */
    int64_t evicted_blocks, evicted_states, evicted_windows;
    int64_t clears;                                              /* after a failure */
    int n_blocks, n_free_blocks, n_cached_blocks, n_held_blocks; /* cached and held overlap */
    int n_states, n_kept_states;
} engine_cache_counters;

/* How long things took, and how wide cycles were; as of the last step. */
typedef struct {
    histogram queue;       /* from submit to a lane */
    histogram first_token; /* from submit to the first token */
    histogram token; /* a token of an answer, behind the first: of what came together, a part */
    histogram slice; /* steps of prompts */
    histogram cycle; /* decode cycles, of all lanes */
    int64_t widths[ENGINE_WIDTHS]; /* lanes of cycles by their number of proposals */
} engine_tally;

typedef struct {
    int64_t submitted, finished, canceled, failed;
    int64_t prompt_tokens, completion_tokens, cycles, drafted, accepted;
    int64_t suspensions;      /* times that a running sequence had to give way and went on later */
    int64_t recomputed;       /* sequences whose numbers were no numbers and were computed again */
    int64_t captures;         /* graphs that the backend has captured */
    int n_waiting, n_running; /* suspended ones wait */
    engine_cache_counters cache; /* as of the last step */
    turn_counters turns;
    engine_tally tally;
} engine_counters;
engine_counters engine_stats(engine *e);

#endif
