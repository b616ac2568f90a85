/* schema_check: whether a whole JSON value satisfies a JSON Schema.
 *
 * The judge behind the automaton: it reads the schema as the specification does, keyword by
 * keyword over a finished value, shares only references, patterns and formats with the compiler,
 * and knows keywords that the compiler refuses. Numbers are compared exactly. Thread: any. */
#ifndef RIPTIDE_GRAMMAR_SCHEMA_CHECK_H
#define RIPTIDE_GRAMMAR_SCHEMA_CHECK_H

#include "base/err.h"
#include "base/json.h"

/* root     the whole schema document, for references; schema is a part of it or the same
 * valid    out, written on ERR_OK only
 * Returns  UNSUPPORTED or FORMAT when the schema holds what cannot be judged (err.where is the
 *          JSON pointer), LIMIT when values and references nest too deep, NOMEM */
status schema_check(const json *root, const json *schema, const json *value, bool *valid, err *e);

#endif
