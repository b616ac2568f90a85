/* jinja_scope: which variable a name means.
 *
 * jinja2 decides that before rendering: every scope loads the names it uses on entry, from an
 * enclosing scope if that knows the name, else from the variables of the rendering; a name that is
 * stored is a copy that ends with its scope; branches of an `if` share their scope. This pass does
 * the same and writes slots into the tree. It also finds what only the generated Python would
 * complain about: unknown filters, a loop variable called `loop`. */
#ifndef RIPTIDE_CHAT_JINJA_SCOPE_PRIV_H
#define RIPTIDE_CHAT_JINJA_SCOPE_PRIV_H

#include "chat/jinja_ast_priv.h"

status jscope_resolve(jprogram *p);

/* Call fn for every NAME below the nodes from `first` on, in the order in which jinja2 visits
 * them. */
typedef enum { JNAME_LOAD, JNAME_STORE, JNAME_PARAM } jname_use;
typedef void jname_fn(void *ctx, const jnode *name, jname_use use);
void jscope_walk(const jnode *first, jname_use use, jname_fn *fn, void *ctx);

#endif
