#include "token/nfc_priv.h"

#include <utf8proc.h>

#include "base/asserts.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "token/unicode_priv.h"

enum { NFC_MARKS = UNICODE_NFC_CLASS | UNICODE_NFC_CHANGES };
enum { INSERTION_MAX = 24 }; /* marks that are sorted by insertion, more by counting */

void nfc_work_fini(nfc_work *w)
{
    mem_free(w->points);
    mem_free(w->sorted);
    mem_free(w->spans);
    *w = (nfc_work){0};
}

/* Canonical combining class in Unicode 9: 0 for what came later. */
static int class_of(uint32_t cp)
{
    if (!(unicode_flags(cp) & UNICODE_NFC_CLASS)) return 0;
    return utf8proc_get_property((utf8proc_int32_t)cp)->combining_class;
}

/* Code points below U+0300 (first byte below 0xcc) are normal whatever stands before them. */
static size_t skip_normal(str s, size_t at)
{
    uint64_t eight;
    for (;;) {
        while (s.len - at >= sizeof eight) {
            memcpy(&eight, s.ptr + at, sizeof eight);
            if (eight & 0x8080808080808080u) break;
            at += sizeof eight;
        }
        size_t stop = s.len - at < sizeof eight ? s.len : at + sizeof eight;
        while (at < stop && (unsigned char)s.ptr[at] < 0xcc) at++;
        if (at < stop || at == s.len) return at;
    }
}

/* From the first mark at `at` to where the next character that is none begins. */
static size_t scan_marks(str s, size_t at, bool *may_change)
{
    int last_class = 0;
    while (at < s.len) {
        uint32_t cp;
        int n = unicode_read(s.ptr + at, &cp);
        uint8_t flags = unicode_flags(cp);
        if (!(flags & NFC_MARKS)) break;
        int class = class_of(cp);
        if ((flags & UNICODE_NFC_CHANGES) || (class != 0 && class < last_class)) *may_change = true;
        last_class = class;
        at += (size_t)n;
    }
    return at;
}

bool nfc_find(str s, size_t from, size_t *begin, size_t *end)
{
    for (size_t at = from; (at = skip_normal(s, at)) < s.len;) {
        int n;
        if (!(unicode_flags_at(s.ptr + at, &n) & NFC_MARKS)) {
            at += (size_t)n;
            continue;
        }
        bool may_change = false;
        size_t stop = scan_marks(s, at, &may_change);
        if (may_change) {
            *begin = at;
            *end = stop;
            if (at > from) {
                size_t base = at - (size_t)unicode_back(s.ptr, (int64_t)at);
                if (unicode_flags_at(s.ptr + base, &n) & UNICODE_NFC_BASE) *begin = base;
            }
            return true;
        }
        at = stop;
    }
    return false;
}

static bool reserve_points(nfc_work *w, int64_t n)
{
    if (n <= w->cap) return true;
    int32_t *points = mem_resize(w->points, (size_t)n * sizeof *points);
    if (!points) return false;
    w->points = points;
    int32_t *sorted = mem_resize(w->sorted, (size_t)n * sizeof *sorted);
    if (!sorted) return false;
    w->sorted = sorted;
    w->cap = n;
    return true;
}

/* Put marks in order of class, those of one class as they were. */
static void sort_marks(nfc_work *w, int64_t begin, int64_t end)
{
    int32_t *p = w->points;
    if (end - begin <= INSERTION_MAX) {
        for (int64_t i = begin + 1; i < end; i++) {
            int32_t moving = p[i];
            int class = class_of((uint32_t)moving);
            int64_t at = i;
            for (; at > begin && class_of((uint32_t)p[at - 1]) > class; at--) p[at] = p[at - 1];
            p[at] = moving;
        }
        return;
    }
    int64_t place[257] = {0};
    for (int64_t i = begin; i < end; i++) place[class_of((uint32_t)p[i]) + 1]++;
    for (int i = 1; i < 257; i++) place[i] += place[i - 1];
    for (int64_t i = begin; i < end; i++) w->sorted[place[class_of((uint32_t)p[i])]++] = p[i];
    memcpy(p + begin, w->sorted, (size_t)(end - begin) * sizeof *p);
}

/* Decompose, order and compose one span into w->points. */
static status normalise_span(nfc_work *w, str s)
{
    /* Room enough: the longest decompositions are 3 code points for 2 bytes, 4 for 3. */
    if (!reserve_points(w, (int64_t)s.len * 2)) return ERR_NOMEM;
    w->n = 0;
    for (size_t at = 0; at < s.len;) {
        uint32_t cp;
        at += (size_t)unicode_read(s.ptr + at, &cp);
        w->n += utf8proc_decompose_char((utf8proc_int32_t)cp, w->points + w->n,
                                        (utf8proc_ssize_t)(w->cap - w->n), UTF8PROC_DECOMPOSE,
                                        NULL);
        ASSERT(w->n <= w->cap);
    }
    for (int64_t i = 0; i < w->n;) {
        int64_t end = i;
        while (end < w->n && class_of((uint32_t)w->points[end]) != 0) end++;
        if (end - i > 1) sort_marks(w, i, end);
        i = end + 1;
    }
    w->n = utf8proc_normalize_utf32(w->points, (utf8proc_ssize_t)w->n,
                                    UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    return ERR_OK;
}

static bool note_span(nfc_work *w, nfc_span span)
{
    if (w->n_spans == w->spans_cap) {
        int64_t cap = w->spans_cap ? 2 * w->spans_cap : 16;
        nfc_span *spans = mem_resize(w->spans, (size_t)cap * sizeof *spans);
        if (!spans) return false;
        w->spans = spans;
        w->spans_cap = cap;
    }
    w->spans[w->n_spans++] = span;
    return true;
}

status nfc_write(nfc_work *w, str s, buf *out)
{
    size_t at = 0, begin, end;
    w->n_spans = 0;
    while (nfc_find(s, at, &begin, &end)) {
        buf_put(out, s.ptr + at, begin - at);
        nfc_span span = {.in = begin, .in_end = end, .out = out->len};
        TRY(normalise_span(w, str_slice(s, begin, end)));
        for (int64_t i = 0; i < w->n; i++) {
            char bytes[4];
            buf_put(out, bytes, (size_t)utf8_encode((uint32_t)w->points[i], bytes));
        }
        span.out_end = out->len;
        if (!note_span(w, span)) return ERR_NOMEM;
        at = end;
    }
    buf_put(out, s.ptr + at, s.len - at);
    return out->failed ? ERR_NOMEM : ERR_OK;
}
