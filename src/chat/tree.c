#include "chat/tree_priv.h"

static json *new_node(arena *a, json_kind kind)
{
    json *v = arena_new(a, sizeof *v);
    if (v) v->kind = kind;
    return v;
}

tree tree_new(arena *a, json_kind kind)
{
    return (tree){a, new_node(a, kind), NULL};
}

static void append(tree *t, str key, json *v)
{
    if (!v) t->root = NULL;
    if (!t->root) return;
    v->key = key;
    v->next = NULL;
    if (t->last)
        t->last->next = v;
    else
        t->root->first = v;
    t->last = v;
    t->root->n++;
}

void tree_push(tree *t, str key, const json *v)
{
    json *copy = t->root && v ? arena_new(t->a, sizeof *copy) : NULL;
    if (copy) *copy = *v;
    append(t, key, copy);
}

void tree_push_text(tree *t, str key, str text)
{
    json *v = new_node(t->a, JSON_STRING);
    if (v) v->text = text;
    append(t, key, v);
}

void tree_push_bool(tree *t, str key, bool v)
{
    append(t, key, new_node(t->a, v ? JSON_TRUE : JSON_FALSE));
}

void tree_push_null(tree *t, str key)
{
    append(t, key, new_node(t->a, JSON_NULL));
}

const json *tree_text(arena *a, str text)
{
    json *v = new_node(a, JSON_STRING);
    if (v) v->text = text;
    return v;
}

str tree_join(arena *a, str first, const char *glue, str second)
{
    size_t n = strlen(glue);
    char *p = arena_new(a, first.len + n + second.len + 1);
    if (!p) return (str){0};
    if (first.len) memcpy(p, first.ptr, first.len);
    memcpy(p + first.len, glue, n);
    if (second.len) memcpy(p + first.len + n, second.ptr, second.len);
    return (str){p, first.len + n + second.len};
}
