#include "token/detok.h"

#include "base/utf8.h"
#include "token/utf8_repair_priv.h"

void detok_init(detok *d, const vocab *v, bool skips_special)
{
    *d = (detok){.v = v, .skips_special = skips_special};
}

/* Join the held bytes with the first of s. Returns how many of s that took; nothing is held any
 * more, unless all of s was taken and the character is still unfinished. */
static size_t finish_held(detok *d, str s, buf *out)
{
    char joined[8];
    size_t n_held = (size_t)d->n_held, n_new = s.len < 4 ? s.len : 4;
    memcpy(joined, d->held, n_held);
    memcpy(joined + n_held, s.ptr, n_new);
    str j = {joined, n_held + n_new};
    uint32_t cp;
    size_t n = (size_t)utf8_decode(j, 0, &cp);
    if (n > 0) {
        buf_put(out, joined, n);
    } else if (j.len < 4 && (size_t)utf8_tail(j) == j.len) {
        memcpy(d->held, joined, j.len);
        d->n_held = (int)j.len;
        return n_new;
    } else {
        buf_put(out, UTF8_REPAIR_SIGN, 3);
        n = utf8_repair_length(j, 0); /* the held bytes are such a part: at least those */
    }
    d->n_held = 0;
    return n - n_held;
}

void detok_push_bytes(detok *d, str s, buf *out)
{
    if (s.len == 0) return;
    if (d->n_held > 0) s = str_skip(s, finish_held(d, s, out));
    while (s.len > 0) {
        int64_t bad = utf8_check(s);
        size_t n_good = bad < 0 ? s.len : (size_t)bad;
        buf_put(out, s.ptr, n_good);
        s = str_skip(s, n_good);
        if (s.len == 0) break;
        if (s.len < 4 && (size_t)utf8_tail(s) == s.len) {
            memcpy(d->held, s.ptr, s.len);
            d->n_held = (int)s.len;
            break;
        }
        buf_put(out, UTF8_REPAIR_SIGN, 3);
        s = str_skip(s, utf8_repair_length(s, 0));
    }
}

void detok_push(detok *d, int32_t id, buf *out)
{
    if (d->skips_special && vocab_is_special(d->v, id)) return;
    detok_push_bytes(d, vocab_bytes(d->v, id), out);
}

void detok_flush(detok *d, buf *out)
{
    if (d->n_held > 0) buf_put(out, UTF8_REPAIR_SIGN, 3);
    d->n_held = 0;
}
