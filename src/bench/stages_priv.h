/* stages: time, bytes and operations per stage of a pass, by wrapping a backend's op table.
 *
 * While wrapped, each op waits for the device before and after, so that the clock sees it alone,
 * and graphs are off. What a launch and a wait cost by themselves is measured and told, so that a
 * stage's own time can be shown. Bytes and operations are the floor of backend/cost.h.
 * Thread: one; one wrapped backend at a time. */
#ifndef RIPTIDE_BENCH_STAGES_PRIV_H
#define RIPTIDE_BENCH_STAGES_PRIV_H

#include "backend/cost.h"

enum { STAGES_MAX = 96 };

typedef struct {
    char name[72]; /* "target linear ffn down 5120x17408" */
    int64_t n_calls;
    double ns;
    double n_bytes, n_ops;
} stage;

typedef struct {
    stage list[STAGES_MAX];
    int n;
    int64_t n_calls; /* of all stages */
    double ns;
    double n_bytes, n_ops;
} stage_table;

/* What the next pass's rows are. */
typedef struct {
    int L;
    int64_t pos[64]; /* first position of each lane's rows */
    int n_rows[64];
    bool has_proposals;
    int V;         /* vocabulary: tells the head from other linears */
    int E, n_taps; /* tell the draft's context from the target's layers */
} stage_pass;

/* From here to stages_end the ops of b count into *out (added to what it has). */
void stages_begin(backend *b, stage_table *out);
void stages_end(backend *b);
void stages_set_pass(const stage_pass *p);

/* ns that an op with next to no work takes when it is waited for. */
double stages_overhead(backend *b);

#endif
