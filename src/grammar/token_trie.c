#include "grammar/token_trie_priv.h"

#include <stdlib.h>

#include "base/mem.h"

typedef struct {
    str bytes;
    int32_t id;
} entry;

static int by_bytes(const void *p, const void *q)
{
    const entry *x = p, *y = q;
    int c = str_compare(x->bytes, y->bytes);
    return c ? c : (x->id > y->id) - (x->id < y->id);
}

static size_t shared(str a, str b)
{
    size_t n = 0;
    while (n < a.len && n < b.len && a.ptr[n] == b.ptr[n]) n++;
    return n;
}

static int count_nodes(const entry *list, int n)
{
    size_t total = 0;
    str last = {"", 0};
    for (int i = 0; i < n; i++) {
        total += list[i].bytes.len - shared(last, list[i].bytes);
        last = list[i].bytes;
    }
    return total > INT32_MAX / 8 ? -1 : (int)total;
}

/* path[d] is the open node at depth d. A node is made by the first token through it, which is the
 * first of its own ids if it has any: they come before those of its children. */
static void fill(token_trie *t, const entry *list, int n, uint32_t *path)
{
    uint32_t at = 0;
    size_t depth = 0;
    str last = {"", 0};
    for (int i = 0; i < n; i++) {
        str b = list[i].bytes;
        size_t keep = shared(last, b);
        for (; depth > keep; depth--) t->end[path[depth - 1]] = at;
        for (; depth < b.len; depth++) {
            path[depth] = at;
            t->byte[at] = (uint8_t)b.ptr[depth];
            t->first[at++] = (uint32_t)i;
        }
        t->ids[i] = list[i].id;
        last = b;
    }
    for (; depth > 0; depth--) t->end[path[depth - 1]] = at;
    t->first[at] = (uint32_t)n;
}

static bool is_in(const int32_t *list, int n, int32_t id)
{
    for (int i = 0; i < n; i++)
        if (list[i] == id) return true;
    return false;
}

status token_trie_open(token_trie *t, const vocab *v, int V, const int32_t *without, int n_without,
                       err *e)
{
    int n = 0, most = vocab_count(v) < V ? vocab_count(v) : V;
    *t = (token_trie){0};
    status s = err_set(e, ERR_NOMEM, "vocabulary", -1, "a tree of %d tokens", most);
    entry *list = mem_new_array((size_t)most + 1, sizeof *list);
    uint32_t *path = NULL;
    if (!list) return s;
    for (int32_t id = 0; id < most; id++) {
        str bytes = vocab_bytes(v, id);
        if (!vocab_has(v, id) || vocab_is_special(v, id) || bytes.len == 0 ||
            is_in(without, n_without, id))
            continue;
        if ((int)bytes.len > t->longest) t->longest = (int)bytes.len;
        list[n++] = (entry){bytes, id};
    }
    qsort(list, (size_t)n, sizeof *list, by_bytes);
    t->n_ids = n;
    t->n_nodes = count_nodes(list, n);
    if (t->n_nodes < 0) {
        s = err_set(e, ERR_LIMIT, "vocabulary", -1, "the tokens are too long together");
        goto done;
    }
    size_t nodes = (size_t)t->n_nodes;
    t->byte = mem_new(nodes + 1);
    t->end = mem_new_array(nodes + 1, sizeof *t->end);
    t->first = mem_new_array(nodes + 1, sizeof *t->first);
    t->ids = mem_new_array((size_t)n + 1, sizeof *t->ids);
    path = mem_new_array((size_t)t->longest + 1, sizeof *path);
    if (!t->byte || !t->end || !t->first || !t->ids || !path) goto done;
    fill(t, list, n, path);
    s = ERR_OK;
    if (e) *e = (err){0};
done:
    mem_free(list);
    mem_free(path);
    if (s != ERR_OK) token_trie_close(t);
    return s;
}

void token_trie_close(token_trie *t)
{
    mem_free(t->byte);
    mem_free(t->end);
    mem_free(t->first);
    mem_free(t->ids);
    *t = (token_trie){0};
}
