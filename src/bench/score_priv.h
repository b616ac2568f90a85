/* score: how far a backend, KV format and state format are from a reference, over the tokens of a
 * text.
 *
 * Both run over the same windows of the text, each from an empty context; every row but a
 * window's last predicts the token behind it. With p the reference's distribution and q the
 * other's, in nats and doubles from the logits as they come:
 *   perplexity  exp(mean of -log q(token)), and with p
 *   KL          mean over rows of sum_v p(v) (log p(v) - log q(v))
 *   top 1       share of rows whose first tokens are equal, ties to the lower id; also of the rows
 *               whose two best logits in the reference are more than SCORE_GAP apart
 *   norm        ||logits - reference's|| / ||reference's|| of a row: median and worst */
#ifndef RIPTIDE_BENCH_SCORE_PRIV_H
#define RIPTIDE_BENCH_SCORE_PRIV_H

#include "engine/engine.h"

#define SCORE_GAP 0.2
enum { SCORE_ROWS = 64 };

typedef struct {
    int64_t n, n_same;             /* rows */
    int64_t n_clear, n_clear_same; /* of those, with a gap */
    double nll, reference_nll;     /* sums */
    double kl, worst_kl;           /* sum, largest */
    float *norms;                  /* [cap] borrowed */
    int64_t cap;
    uint64_t output_hash; /* of the first tokens */
} score;

/* One row of V logits each; token = what came. n < cap.
 * Returns  INVALID when a logit is not finite; then the score is as before */
status score_add(score *s, const float *got, const float *reference, int V, int32_t token);
/* Sorts norms. 0 without rows. */
double score_median_norm(score *s);

typedef struct {
    engine_options engine; /* what is judged; the draft is not opened */
    const char *against;   /* backend of the reference */
    engine_kv against_kv;  /* its KV format; its states are f32 */
    str text;              /* with special tokens */
    int64_t max_tokens;    /* 0 = all */
    int window;            /* tokens, >= 2 */
} score_request;

typedef struct {
    score s;
    int64_t n_tokens, n_windows;
    char backend[32], isa[32], reference[32], reference_isa[32];
    int n_threads;
} score_result;

/* out->s.norms is owned by the caller: mem_free it, also on failure.
 * Returns  INVALID when the text has fewer than two tokens, what opening returns */
status score_run(const score_request *r, score_result *out, err *e);

/* Conversations of the kinds that the bundled models know; their own answers at temperature 0.8. */
str score_bundled_text(void);

#endif
