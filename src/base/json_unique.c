/* Repeated keys: sort the members by hash of key, then look at neighbours. A sort and not a hash
 * table, because keys come from outside and may be chosen to collide: equal hashes only cost
 * comparisons of the keys themselves, never a quadratic chain. */
#include "base/hash.h"
#include "base/json_priv.h"
#include "base/mem.h"

typedef struct {
    uint64_t hash;
    const json *member;
} entry;

/* By hash, then by key; equal keys stay in source order since the merge is stable. */
static int compare(const entry *a, const entry *b)
{
    if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
    return str_compare(a->member->key, b->member->key);
}

static void merge(const entry *from, entry *to, size_t begin, size_t middle, size_t end)
{
    size_t i = begin, j = middle;
    for (size_t k = begin; k < end; k++) {
        bool takes_left = i < middle && (j == end || compare(&from[i], &from[j]) <= 0);
        to[k] = takes_left ? from[i++] : from[j++];
    }
}

/* Sorts n entries with as many spare ones; returns which of the two holds the result. */
static entry *sort(entry *a, entry *spare, size_t n)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t begin = 0; begin < n; begin += 2 * width) {
            size_t middle = begin + width < n ? begin + width : n;
            size_t end = middle + width < n ? middle + width : n;
            merge(a, spare, begin, middle, end);
        }
        entry *swap = a;
        a = spare;
        spare = swap;
    }
    return a;
}

static const json *find_in_few(const json *object)
{
    for (const json *v = object->first; v; v = v->next)
        for (const json *w = object->first; w != v; w = w->next)
            if (str_equal(v->key, w->key)) return v;
    return NULL;
}

bool json_find_repeated(const json *object, const json **repeated)
{
    enum { FEW = 8 };
    *repeated = NULL;
    if (object->n <= FEW) {
        *repeated = find_in_few(object);
        return true;
    }
    size_t n = (size_t)object->n, i = 0;
    entry *entries = mem_new_array(n * 2, sizeof *entries);
    if (!entries) return false;
    for (const json *v = object->first; v; v = v->next)
        entries[i++] = (entry){hash_str(v->key, 0), v};
    const entry *sorted = sort(entries, entries + n, n);
    for (i = 1; i < n; i++) {
        const json *v = sorted[i].member;
        bool is_repeated = compare(&sorted[i - 1], &sorted[i]) == 0;
        if (is_repeated && (!*repeated || v->pos < (*repeated)->pos)) *repeated = v;
    }
    mem_free(entries);
    return true;
}

int64_t json_key_pos(const char *source, int64_t value_pos)
{
    int64_t i = value_pos - 1;
    while (source[i] != '"') i--; /* only a colon and white space lie between */
    for (i--;; i--) {
        if (source[i] != '"') continue;
        int64_t n_backslashes = 0;
        while (i - n_backslashes > 0 && source[i - n_backslashes - 1] == '\\') n_backslashes++;
        if (n_backslashes % 2 == 0) return i;
    }
}
