/* sampling_fields: the fields of a request that say how tokens are chosen and when to end; the
 * same in every protocol that has them under these names.
 *
 * Thread: any. */
#ifndef RIPTIDE_SERVER_SAMPLING_FIELDS_PRIV_H
#define RIPTIDE_SERVER_SAMPLING_FIELDS_PRIV_H

#include "base/arena.h"
#include "base/json.h"
#include "engine/engine.h"

/* temperature, top_p, top_k, min_p, seed, presence_penalty, frequency_penalty,
 * repetition_penalty, logit_bias, ignore_eos over the defaults in *p. Ranges are checked against a
 * vocabulary of V ids. logit_bias lives in `a`.
 *
 * Returns  INVALID with where = the field's name; NOMEM */
status sampling_fields_parse(const json *object, int V, arena *a, policy *p, err *e);

/* `stop`, or what the protocol calls it: a string or an array of strings, each not empty. In `a`;
 * the strings borrow the tree. Empty strings are left out, as clients send them for "none". */
status sampling_fields_stop(const json *object, const char *name, arena *a, const str **stop,
                            int *n, err *e);

#endif
