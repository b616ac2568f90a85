/* schema_match: equality of values and matching of patterns, for the compiler and the judge. */
#ifndef RIPTIDE_GRAMMAR_SCHEMA_MATCH_PRIV_H
#define RIPTIDE_GRAMMAR_SCHEMA_MATCH_PRIV_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "grammar/schema_ref_priv.h"

/* Equal as JSON Schema means it: numbers by value, objects without order. */
bool schema_same_value(arena *a, const json *x, const json *y);

/* Patterns that were compiled, so that each is compiled once. */
typedef struct schema_pattern schema_pattern;
typedef struct schema_cache {
    arena a;
    schema_pattern *patterns;
    int64_t work; /* left of LEAF_WORK_MOST */
} schema_cache;
void schema_cache_init(schema_cache *c);
void schema_cache_fini(schema_cache *c);

/* Whether the pattern is found anywhere in the text. */
status schema_pattern_matches(schema_cache *c, str pattern, const char *where, str text,
                              bool *matches, err *e);

/* schema_check with the document looked at already and its cache set. */
status schema_check_in(const schema_doc *doc, const json *schema, const json *value, bool *valid,
                       err *e);

#endif
