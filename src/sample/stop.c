#include "sample/stop.h"

void stop_init(stop *s, const str *strings, int n)
{
    *s = (stop){.strings = strings, .n = n, .hit = -1};
    buf_init(&s->held);
    if (n > 0) buf_reserve(&s->held, 2 * STOP_BYTES_MAX);
}

void stop_fini(stop *s)
{
    buf_fini(&s->held);
    *s = (stop){.hit = -1};
}

/* The longest stop string that the held bytes end with, or -1. */
static int completed(const stop *s)
{
    int best = -1;
    for (int i = 0; i < s->n; i++) {
        if (!str_ends(buf_str(&s->held), s->strings[i])) continue;
        if (best < 0 || s->strings[i].len > s->strings[best].len) best = i;
    }
    return best;
}

/* How many bytes at the end of the held text are the beginning of some stop string. */
static size_t pending(const stop *s)
{
    str held = buf_str(&s->held);
    for (size_t from = 0; from < held.len; from++) {
        str tail = str_skip(held, from);
        for (int i = 0; i < s->n; i++)
            if (tail.len < s->strings[i].len && str_starts(s->strings[i], tail)) return tail.len;
    }
    return 0;
}

void stop_push(stop *s, str text, buf *out)
{
    if (s->hit >= 0) return;
    if (s->n == 0) {
        buf_put_str(out, text);
        return;
    }
    for (size_t i = 0; i < text.len; i++) {
        buf_put_byte(&s->held, text.ptr[i]);
        s->hit = completed(s);
        size_t keep = s->hit >= 0 ? s->strings[s->hit].len : pending(s);
        size_t show = s->held.len - keep;
        buf_put(out, s->held.ptr, show);
        buf_consume(&s->held, show);
        if (s->hit >= 0) {
            buf_clear(&s->held);
            return;
        }
    }
}

void stop_flush(stop *s, buf *out)
{
    buf_put_str(out, buf_str(&s->held));
    buf_clear(&s->held);
}
