/* scores: questions that are answered without writing: the logits of the labels of their options
 * behind one prompt.
 *
 * The prompt shows each option with a label, A, B, …, that is one token; how likely the model is to
 * say which label is a softmax over their raw logits. The labels are those that stay a token of
 * their own behind the end of the template's prompt. Questions of a request are asked one after the
 * other, so that what their prompts share is found in the prompt cache.
 *
 * Thread: a helper prepares; the loop asks. */
#ifndef RIPTIDE_SERVER_SCORES_PRIV_H
#define RIPTIDE_SERVER_SCORES_PRIV_H

#include "server/generation_priv.h"

enum { SCORES_OPTIONS_MOST = 255, SCORES_QUESTIONS_MOST = 64, SCORES_LABEL_MOST = 4 };

/* What the model sees of an option. */
typedef struct {
    str id;
    const json *about; /* any value; NULL: its id */
} score_option;

struct score_question {
    /* The dialect's, in scratch, but for name and ids of options, which are in mem. */
    str name;
    const json *evidence, *criterion; /* any values; NULL: left out */
    str instructions;                 /* a sentence for the system message, or empty */
    score_option *options;            /* [n_options] 2 .. SCORES_OPTIONS_MOST */
    int n_options;
    int kind; /* the dialect's own */

    /* Made, in mem. */
    const int32_t *ids; /* [n_ids] the prompt */
    int n_ids;
    int32_t *label_ids; /* [n_options] */
    float *logits;      /* [n_options] out */
    char sha256[65];    /* of the prompt's text */
    int64_t n_cached;
    double forward_ms;
};

/* Make the prompts of g->request.questions; what is wrong goes to g->error. Helper thread. */
void scores_prepare(generation *g);

/* Probabilities of a question's options into p [n_options]; false when a logit is no number. */
bool scores_softmax(const score_question *q, double *p);

#endif
