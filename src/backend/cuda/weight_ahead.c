#include "backend/cuda/weight_ahead_priv.h"

#include <string.h>

void ahead_add(ahead_spans *s, const void *from, int64_t row_bytes, int64_t n_rows, int n_slices,
               int64_t slice_bytes)
{
    if (s->n == AHEAD_SPANS_MAX || n_rows < 1 || n_slices < 1) return;
    if (n_rows > INT32_MAX / n_slices || slice_bytes > INT32_MAX) return;
    s->span[s->n++] = (ahead_span){from, row_bytes, (int32_t)n_rows, n_slices, (int32_t)slice_bytes,
                                   0};
}

/* The last slice of a row may be shorter: no run passes the end of its row. */
static int64_t run_bytes(const ahead_span *s)
{
    int64_t last = s->row_bytes - (int64_t)(s->n_slices - 1) * s->slice_bytes;
    return last < s->slice_bytes ? last : s->slice_bytes;
}

int64_t ahead_total(const ahead_spans *s)
{
    int64_t n = 0;
    for (int i = 0; i < s->n; i++) n += s->span[i].row_bytes * s->span[i].n_rows;
    return n;
}

void ahead_fit(ahead_spans *s, int64_t budget)
{
    int64_t total = ahead_total(s);
    for (int i = 0; i < s->n; i++) {
        ahead_span *p = &s->span[i];
        double share = total > budget ? (double)budget / (double)total : 1;
        int64_t n = (int64_t)((double)p->slice_bytes * share), most = run_bytes(p);
        n = (n < most ? n : most) & ~(int64_t)15;
        p->bytes = n < AHEAD_BYTES_MIN ? 0 : (int32_t)n;
    }
}

void ahead_clear(ahead_table *t)
{
    memset(t, 0, sizeof *t);
    t->last = -1;
}

/* The place of `key`, or the free one where it belongs; -1: the table is full. */
static int place_of(const ahead_table *t, const void *key)
{
    uint64_t h = (uint64_t)(uintptr_t)key;
    h = (h >> 8) * 0x9e3779b97f4a7c15u >> 32;
    for (int i = 0; i < AHEAD_LAUNCHES_MAX; i++) {
        int at = (int)((h + (uint64_t)i) % AHEAD_LAUNCHES_MAX);
        if (t->at[at].key == key || !t->at[at].key) return at;
    }
    return -1;
}

ahead_spans ahead_note(ahead_table *t, const void *key, const ahead_spans *own)
{
    int at = place_of(t, key);
    if (at >= 0 && !t->at[at].key) {
        if (t->n >= AHEAD_LAUNCHES_MAX / 2)
            at = -1;
        else {
            t->at[at] = (ahead_launch){.key = key, .next = -1};
            t->n++;
        }
    }
    if (t->last >= 0) t->at[t->last].next = at;
    t->last = at;
    if (at < 0) return (ahead_spans){0};
    t->at[at].own = *own;
    int next = t->at[at].next;
    return next < 0 ? (ahead_spans){0} : t->at[next].own;
}
