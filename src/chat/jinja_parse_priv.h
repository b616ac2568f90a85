/* jinja_parse: tokens to a tree; statements in jinja_parse.c, expressions in jinja_expr.c.
 *
 * A function that fails returns NULL (or false) after the first error was recorded in `failed`. */
#ifndef RIPTIDE_CHAT_JINJA_PARSE_PRIV_H
#define RIPTIDE_CHAT_JINJA_PARSE_PRIV_H

#include "chat/jinja_lex_priv.h"

typedef struct {
    const jsource *src;
    const jtoken *t; /* the current token; stays at EOF */
    jnames *names;
    arena *a;
    int depth;      /* nested statements and expressions */
    int loop_depth; /* loops around, up to the enclosing macro or block body */
    status failed;
} jparser;

/* Parse the whole template. */
status jparse_template(jparser *p, jnode_list *body);

/* Record an error; returns NULL. The first one stays. */
void *jparse_fail(jparser *p, status code, int64_t pos, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void *jparse_fail_expected(jparser *p, const char *what);
jnode *jparse_new(jparser *p, jnode_kind kind, int32_t pos);
void jnode_push(jnode_list *l, jnode *n);
/* Enter one level of nesting; false when that is too deep. Leave by p->depth--. */
bool jparse_enter(jparser *p);

void jparse_next(jparser *p);
/* Step over a token of that type, or over that word; false (without error) when it is not there. */
bool jparse_skip(jparser *p, jtoken_type type);
bool jparse_skip_word(jparser *p, const char *word);
/* The same, but its absence is an error. */
bool jparse_expect(jparser *p, jtoken_type type);
bool jparse_expect_word(jparser *p, const char *word);
bool jparse_is_word(const jparser *p, const jtoken *t, const char *word);
str jparse_word(const jparser *p, const jtoken *t);

/* Expressions. `with_cond` allows `a if b else c`. */
jnode *jparse_expression(jparser *p, bool with_cond);
jnode *jparse_primary(jparser *p);
/* One expression, or several with commas as a tuple. `simple` takes primaries only (assignment
 * targets); `end_word` is a word that ends the tuple, or NULL; `in_parens` allows an empty one. */
typedef struct {
    bool simple, with_cond, in_parens;
    const char *end_word;
} jtuple_rules;
jnode *jparse_tuple(jparser *p, jtuple_rules rules);
/* `|name(args)|…` applied to `object` (NULL: the text of a block); `inline_first` when the first
 * name stands without its bar. */
jnode *jparse_filters(jparser *p, jnode *object, bool inline_first);

#endif
