/* profile: decode and prefill of one model, whole cycles and stage by stage. The width is fixed
 * unless --draft-rows auto asks for the policy's.
 *
 * The whole-cycle figures come from undisturbed cycles (graphs on); the stages from a second set
 * of cycles in which every op is waited for. The two disagree by what overlaps and by the waits. */
#ifndef RIPTIDE_BENCH_PROFILE_PRIV_H
#define RIPTIDE_BENCH_PROFILE_PRIV_H

#include "base/arena.h"
#include "bench/peak_priv.h"
#include "bench/stages_priv.h"
#include "decode/cycle.h"
#include "decode/width.h"
#include "engine/engine.h"

enum { PROFILE_LIST_MAX = 16, PROFILE_STAGED = 4, PROFILE_WARM = 2, PROFILE_MARKED = 9 };

typedef struct {
    engine_options engine;
    int n_lanes, lanes[PROFILE_LIST_MAX]; /* ascending */
    int n_prompts;
    int64_t prompts[PROFILE_LIST_MAX];
    int tokens; /* cycles that are timed */
    double temperature;
    int width; /* most proposals a cycle, once the model is open */
} profile_request;

/* Milliseconds of a cycle's parts on the backend's own clock: the median of some cycles. */
typedef struct {
    double draft, target, rest, context, whole; /* whole: with what lies between them */
} profile_parts;

typedef struct {
    int lanes;
    int64_t prompt, context; /* tokens; positions of the first lane when timing began */
    int n_cycles;
    double cycle_ms, mean_ms; /* median, mean */
    double tokens_per_cycle;  /* of a lane */
    double drafted, accepted; /* proposals of all timed cycles */
    uint64_t output_hash;
    int n_staged;
    stage_table stages; /* of n_staged cycles */
    /* At a fixed width alone: of cycles with proposals, and of those with none in between. */
    bool has_parts;
    profile_parts parts, single;
} profile_decode;

typedef struct {
    int64_t prompt, n_timed; /* rows that were timed */
    double ms;
    int64_t staged_pos, staged_rows; /* one slice */
    stage_table stages;
} profile_prefill;

typedef struct {
    cycle *c;
    backend *b;
    const profile_request *r;
    width_policy *widths; /* owned; NULL = always the most */
    int64_t slot_blocks;
    int32_t *ids; /* owned: a prompt */
    int64_t pos[64];
    int32_t anchor[64];
    int n_ready; /* slots that hold the prompt */
} profiler;

status profiler_open(profiler *p, profile_request *r, err *e);
void profiler_close(profiler *p);
/* Start over with a prompt of that length in no slot. */
void profiler_set_prompt(profiler *p);
/* Fill slot 0; timed, and its last slice staged. */
status profiler_prefill(profiler *p, int64_t prompt, profile_prefill *out);
/* Decode with that many lanes; slots that lack the prompt are filled first. */
status profiler_decode(profiler *p, int64_t prompt, int lanes, profile_decode *out);

/* profile_print.c */
typedef struct {
    const profile_request *r;
    const profiler *p;
    peak peak;
    double overhead_ns; /* of an op that is waited for */
} profile_context;
void profile_print_head(const profile_context *x);
void profile_print_prefill(const profile_context *x, const profile_prefill *f);
void profile_print_decode(const profile_context *x, const profile_decode *d);
void profile_json(const profile_context *x, const profile_prefill *f, int n_f,
                  const profile_decode *d, int n_d, buf *out);

/* Figures of a table: ns below which no kernel can go by the peaks, summed over its stages; of one
 * stage; the share of a stage, its waits taken off. */
double profile_floor_ns(const peak *k, double n_bytes, double n_ops);
double profile_table_floor_ns(const peak *k, const stage_table *t);
/* Milliseconds that stand for a cycle: the median, the mean where cycles differ in width. */
double profile_cycle_ms(const profile_context *x, const profile_decode *d);
double profile_net_ns(const profile_context *x, const stage *s);
/* Floor of the stages whose names begin so, ms of one of n passes. */
double profile_phase_floor_ms(const peak *k, const stage_table *t, const char *phase, int n);

#endif
