/* tree: building JSON trees in an arena, sharing what is not changed.
 *
 * Nodes of base/json.h link to their sibling, so a node that joins another container is copied (its
 * children are shared). Functions return NULL when there is no memory; given NULL they do nothing,
 * so that a caller may check once at the end. */
#ifndef RIPTIDE_CHAT_TREE_PRIV_H
#define RIPTIDE_CHAT_TREE_PRIV_H

#include "base/json.h"

/* A container under construction. */
typedef struct {
    arena *a;
    json *root; /* NULL once memory ran out */
    json *last;
} tree;

tree tree_new(arena *a, json_kind kind);
/* Append a copy of `v` (under `key` in an object). */
void tree_push(tree *t, str key, const json *v);
void tree_push_text(tree *t, str key, str text); /* text is borrowed */
void tree_push_bool(tree *t, str key, bool v);
void tree_push_null(tree *t, str key);

const json *tree_text(arena *a, str text);
/* a with `glue` and b behind it, as one string in the arena; ptr NULL when out of memory. */
str tree_join(arena *a, str first, const char *glue, str second);

#endif
