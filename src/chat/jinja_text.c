#include "chat/jinja_text_priv.h"

#include "base/utf8.h"

const jtext *jtext_new(arena *a, str s, bool is_input)
{
    jtext *t = arena_new(a, sizeof *t);
    if (!t) return NULL;
    t->s = s;
    t->is_input = is_input;
    return t;
}

const jtext *jtext_mark(arena *a, const jtext *t, bool is_safe)
{
    if (t->is_safe == is_safe) return t;
    jtext *copy = arena_new(a, sizeof *copy);
    if (!copy) return NULL;
    *copy = *t;
    copy->is_safe = is_safe;
    return copy;
}

/* Index of the run that holds byte `pos`. */
static int find_run(const jtext *t, size_t pos)
{
    int lo = 0, hi = t->n_runs - 1;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (t->runs[mid].end <= pos)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool jtext_is_input_at(const jtext *t, size_t pos)
{
    return t->n_runs ? t->runs[find_run(t, pos)].is_input : t->is_input;
}

const jtext *jtext_slice(arena *a, const jtext *t, size_t from, size_t to)
{
    jtext *out = arena_new(a, sizeof *out);
    if (!out) return NULL;
    *out = *t;
    out->s = str_slice(t->s, from, to);
    if (t->n_runs == 0) return out;
    out->n_runs = 0;
    out->runs = NULL;
    if (from == to) {
        out->is_input = false;
        return out;
    }
    int first = find_run(t, from), last = find_run(t, to - 1);
    out->is_input = t->runs[first].is_input;
    if (first == last) return out;
    jrun *runs = arena_new_array(a, (size_t)(last - first + 1), sizeof *runs);
    if (!runs) return NULL;
    for (int i = first; i <= last; i++) {
        runs[i - first] = t->runs[i];
        runs[i - first].end = i == last ? to - from : t->runs[i].end - from;
    }
    out->runs = runs;
    out->n_runs = last - first + 1;
    return out;
}

bool jtext_next(const jtext *t, jtext_walk *w, str *piece, bool *is_input)
{
    if (w->at >= t->s.len) return false;
    size_t end = t->n_runs ? t->runs[w->run].end : t->s.len;
    *is_input = t->n_runs ? t->runs[w->run].is_input : t->is_input;
    *piece = str_slice(t->s, w->at, end);
    w->at = end;
    w->run++;
    return true;
}

void jbuilder_init(jbuilder *b, arena *a, size_t limit)
{
    *b = (jbuilder){.a = a, .limit = limit};
}

static bool grow_bytes(jbuilder *b, size_t n)
{
    if (b->failed) return false;
    if (n > b->limit - b->len) {
        b->failed = b->is_over = true;
        return false;
    }
    if (b->cap - b->len >= n) return true;
    size_t cap = b->cap ? b->cap * 2 : 64;
    while (cap < b->len + n) cap *= 2;
    char *ptr = arena_new(b->a, cap);
    if (!ptr) {
        b->failed = true;
        return false;
    }
    if (b->len) memcpy(ptr, b->ptr, b->len);
    b->ptr = ptr;
    b->cap = cap;
    return true;
}

static bool extend_run(jbuilder *b, size_t n, bool is_input)
{
    if (b->n_runs > 0 && b->runs[b->n_runs - 1].is_input == is_input) {
        b->runs[b->n_runs - 1].end += n;
        return true;
    }
    if (b->n_runs == b->cap_runs) {
        int cap = b->cap_runs ? b->cap_runs * 2 : 4;
        jrun *runs = arena_new_array(b->a, (size_t)cap, sizeof *runs);
        if (!runs) {
            b->failed = true;
            return false;
        }
        if (b->n_runs) memcpy(runs, b->runs, (size_t)b->n_runs * sizeof *runs);
        b->runs = runs;
        b->cap_runs = cap;
    }
    b->runs[b->n_runs++] = (jrun){b->len + n, is_input};
    return true;
}

void jbuilder_put(jbuilder *b, str s, bool is_input)
{
    if (s.len == 0 || !grow_bytes(b, s.len) || !extend_run(b, s.len, is_input)) return;
    memcpy(b->ptr + b->len, s.ptr, s.len);
    b->len += s.len;
}

void jbuilder_put_byte(jbuilder *b, char c, bool is_input)
{
    jbuilder_put(b, (str){&c, 1}, is_input);
}

void jbuilder_put_cp(jbuilder *b, uint32_t cp, bool is_input)
{
    char bytes[4];
    int n = utf8_encode(cp, bytes);
    jbuilder_put(b, (str){bytes, (size_t)n}, is_input);
}

void jbuilder_put_slice(jbuilder *b, const jtext *t, size_t from, size_t to)
{
    if (t->n_runs == 0) {
        jbuilder_put(b, str_slice(t->s, from, to), t->is_input);
        return;
    }
    for (int i = from < to ? find_run(t, from) : t->n_runs; i < t->n_runs && from < to; i++) {
        size_t end = t->runs[i].end < to ? t->runs[i].end : to;
        jbuilder_put(b, str_slice(t->s, from, end), t->runs[i].is_input);
        from = end;
    }
}

void jbuilder_put_text(jbuilder *b, const jtext *t)
{
    jbuilder_put_slice(b, t, 0, t->s.len);
}

const jtext *jbuilder_text(jbuilder *b)
{
    if (b->failed) return NULL;
    jtext *t = arena_new(b->a, sizeof *t);
    if (!t) return NULL;
    t->s = (str){b->len ? b->ptr : "", b->len};
    t->is_input = b->n_runs > 0 && b->runs[0].is_input;
    if (b->n_runs > 1) {
        t->runs = b->runs;
        t->n_runs = b->n_runs;
    }
    return t;
}
