#include "token/utf8_repair_priv.h"

#include "base/utf8.h"

size_t utf8_repair_length(str s, size_t pos)
{
    for (size_t n = s.len - pos < 3 ? s.len - pos : 3; n > 1; n--)
        if ((size_t)utf8_tail(str_slice(s, pos, pos + n)) == n) return n;
    return 1;
}

/* Walks s once; out may be NULL. */
static size_t repair(str s, char *out)
{
    size_t n = 0;
    while (s.len > 0) {
        int64_t bad = utf8_check(s);
        size_t n_good = bad < 0 ? s.len : (size_t)bad;
        if (out && n_good > 0) memcpy(out + n, s.ptr, n_good);
        n += n_good;
        if (bad < 0) break;
        if (out) memcpy(out + n, UTF8_REPAIR_SIGN, 3);
        n += 3;
        s = str_skip(s, n_good + utf8_repair_length(s, n_good));
    }
    return n;
}

size_t utf8_repair_count(str s)
{
    return repair(s, NULL);
}

void utf8_repair_write(str s, char *out)
{
    repair(s, out);
}
