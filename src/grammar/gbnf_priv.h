/* gbnf: the text of a grammar to rules.
 *
 *     name ::= elements | elements ...        # a comment
 *
 * Elements: "text", [a-z^] [^a-z] and . (one code point), a rule's name, ( ... ), each with ?, *,
 * +, {n}, {n,} or {n,m} behind it. Escapes in texts and classes: \n \r \t \\ \" \[ \] \- \^ \xHH
 * \uHHHH \UHHHHHHHH. A rule ends where the next `name ::=` begins; line ends mean nothing. */
#ifndef RIPTIDE_GRAMMAR_GBNF_PRIV_H
#define RIPTIDE_GRAMMAR_GBNF_PRIV_H

#include "grammar/expr_priv.h"

enum { GBNF_DEPTH = 100, GBNF_RULES_MOST = 20000, GBNF_BYTES_MOST = 1 << 20 };

typedef struct {
    str name;
    expr *body; /* NULL: used but not defined; only while reading */
    int64_t pos;
} gbnf_rule;

typedef struct {
    gbnf_rule *rules; /* in order of first mention */
    int n, cap;
    int start;
} gbnf_rules;

/* Borrows text for the names. Returns FORMAT, LIMIT, NOMEM; err.where is "grammar". */
status gbnf_parse(arena *a, str text, gbnf_rules *out, err *e);

/* Put the bodies of rules that are not recursive, and not too large, in the place of their names,
 * so that regular parts are seen whole. False without memory. */
bool gbnf_inline(arena *a, gbnf_rules *r);

#endif
