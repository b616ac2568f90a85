/* schema: compiling a JSON Schema.
 *
 * A value is compiled from a set of schemas that must all hold (a schema and what its references
 * and allOf bring along). Alternatives (anyOf, oneOf) are multiplied out over that set; what is
 * left are plain keywords, compiled type by type. The same set gives the same rule, so that
 * recursion ends. An error sticks in the graph. */
#ifndef RIPTIDE_GRAMMAR_SCHEMA_PRIV_H
#define RIPTIDE_GRAMMAR_SCHEMA_PRIV_H

#include "grammar/graph_priv.h"
#include "grammar/leaf_number_priv.h"
#include "grammar/schema_match_priv.h"

enum {
    SCHEMA_NULL = 1,
    SCHEMA_BOOLEAN = 2,
    SCHEMA_INTEGER = 4,
    SCHEMA_FRACTION = 8, /* numbers that are no integers; only with SCHEMA_INTEGER */
    SCHEMA_STRING = 16,
    SCHEMA_ARRAY = 32,
    SCHEMA_OBJECT = 64,
    SCHEMA_ALL = 127
};

/* Most schemas that hold at once for one value, most nested values, most sets compiled. */
enum { SCHEMA_SET_MOST = 256, SCHEMA_DEPTH_MOST = 200, SCHEMA_WORK_MOST = 60000 };

/* Schemas that must all hold, in the order found; none: anything. */
typedef struct {
    const json **list;
    int n;
} schema_set;

/* A set with references and allOf followed: schema objects, and lists of alternatives. */
typedef struct {
    const json *plain[SCHEMA_SET_MOST];
    const json
        *choices[SCHEMA_SET_MOST]; /* the arrays of anyOf and oneOf still to be chosen from */
    bool is_one[SCHEMA_SET_MOST];
    int n, n_choices;
    bool is_never;
} schema_flat;

typedef struct schema_rule schema_rule;
typedef struct schema_string schema_string;

typedef struct {
    grammar *g;
    arena a;
    schema_doc doc;
    schema_cache cache;
    int space;
    bool is_lenient;
    grammar_notes *notes;
    schema_rule *rules; /* of sets, newest first */
    schema_rule **rule_slots;
    schema_string *strings;
    int any_rule; /* -1 until it is needed */
    const char
        *raw_end; /* not NULL: the value at hand ends so, and a string in it stands as it is */
    const char *prefix; /* in front of JSON pointers in errors; "" */
    int depth, work;
} schema_compiler;

/* Refuse the keyword `key` of the schema `at` (NULL: the schema itself). False: and only then the
 * compilation goes on, being lenient, as if it were not there. */
bool schema_refuse(schema_compiler *c, status s, const json *at, const char *key, const char *why);

/* A value that all of the set allow, then `next`. */
uint32_t schema_value(schema_compiler *c, const schema_set *set, uint32_t next);
uint32_t schema_any(schema_compiler *c, uint32_t next);

/* The same for a set that was followed already, under c->raw_end. */
uint32_t schema_flat_value(schema_compiler *c, const schema_flat *f, uint32_t next);

/* Follow a schema into the set. */
void schema_flatten(schema_compiler *c, const json *schema, schema_flat *f);
/* SCHEMA_* that all plain schemas allow. */
int schema_type_set(schema_compiler *c, const schema_flat *f);

/* One type each, under all plain schemas. */
uint32_t schema_object(schema_compiler *c, const schema_flat *f, uint32_t next);
uint32_t schema_array(schema_compiler *c, const schema_flat *f, uint32_t next);
uint32_t schema_text(schema_compiler *c, const schema_flat *f, uint32_t next);
uint32_t schema_number(schema_compiler *c, const schema_flat *f, bool is_integer, uint32_t next);

/* The inside of a string with its closing quote, for texts under the plain schemas of f (NULL:
 * any) that are none of the n_not texts and match (or, negated, do not match) each pattern. */
typedef struct {
    const schema_flat *f;
    const str *not_texts;
    int n_not;
    const str *patterns;
    const bool *is_negated;
    int n_patterns;
    bool is_key;    /* written in one way only, so that no name can stand for another */
    const json *at; /* for errors */
} schema_string_wish;
uint32_t schema_string_inside(schema_compiler *c, const schema_string_wish *w, uint32_t next);

/* A string as it is, up to and with the first `end`, under the plain schemas of f (NULL: any). */
uint32_t schema_raw_text(schema_compiler *c, const schema_flat *f, const char *end, uint32_t next);

/* Whether no value can satisfy both: proved, else false. */
bool schema_are_disjoint(schema_compiler *c, const schema_flat *base, const json *x, const json *y,
                         int depth);

/* A count (minItems, ...) as the tightest of all plain schemas: the largest of lower bounds, the
 * smallest of upper ones; EXPR_NO_MOST when there is no upper one. */
void schema_counts(schema_compiler *c, const schema_flat *f, const char *least_key,
                   const char *most_key, int *least, int *most);

/* What all openings share; schema_compiler_close gives the grammar or closes it, by the status. */
status schema_compiler_open(schema_compiler *c, const json *root, const grammar_json_options *opt,
                            grammar_notes *notes, err *e);
status schema_compiler_close(schema_compiler *c, uint32_t start, status s, grammar **out, err *e);

/* Whether `value` satisfies all plain schemas. */
bool schema_holds(schema_compiler *c, const schema_flat *f, const json *value);

#endif
