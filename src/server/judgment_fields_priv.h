/* judgment_fields: the bodies of POST /v1/judgments and /v1/systemone, checked field by field.
 *
 * Thread: a helper. */
#ifndef RIPTIDE_SERVER_JUDGMENT_FIELDS_PRIV_H
#define RIPTIDE_SERVER_JUDGMENT_FIELDS_PRIV_H

#include "server/scores_priv.h"

enum { JUDGMENT_OPTIONS_MOST = 16 };

/* {id, state, question, options: [{id, description}], model, timeout, priority}; anything else is
 * refused. *id, which may be empty, and the ids of options live in `mem`.
 *
 * Returns  INVALID with where = the field; NOMEM */
status judgment_fields_parse(const json *body, arena *a, arena *mem, generation_request *out,
                             str *id, err *e);

typedef enum { SYSTEMONE_NOUL, SYSTEMONE_CHOICE, SYSTEMONE_SCORE } systemone_kind;

/* {model, state, questions: {NAME: …}, criteria, instructions, timeout}. A question is
 *
 *   {"type": "noul", "question": …}                       true or false
 *   {"type": "choice", "question": …, "options": [values]}
 *   {"type": "score", "question": …, "min": 0, "max": 4}, or with "levels": [values]
 *
 * or, for noul, its text alone. questions with one value only are not among those to be asked:
 * all questions are in *all [n_all], in order, those to be asked in out->questions.
 *
 * Returns  as above */
status systemone_fields_parse(const json *body, arena *a, arena *mem, generation_request *out,
                              score_question **all, int *n_all, err *e);

#endif
