#include "base/utf8.h"

#include "base/asserts.h"

/* What a first byte demands: the length of its sequence (0: no first byte) and the range of the
 * second byte, which is where RFC 3629 excludes overlong forms, surrogates and > U+10FFFF. */
typedef struct {
    int len;
    unsigned char second_min, second_max;
} lead;

static lead lead_of(unsigned char c)
{
    if (c < 0x80) return (lead){1, 0, 0};
    if (c < 0xc2) return (lead){0, 0, 0};
    if (c < 0xe0) return (lead){2, 0x80, 0xbf};
    if (c == 0xe0) return (lead){3, 0xa0, 0xbf};
    if (c == 0xed) return (lead){3, 0x80, 0x9f};
    if (c < 0xf0) return (lead){3, 0x80, 0xbf};
    if (c == 0xf0) return (lead){4, 0x90, 0xbf};
    if (c < 0xf4) return (lead){4, 0x80, 0xbf};
    if (c == 0xf4) return (lead){4, 0x80, 0x8f};
    return (lead){0, 0, 0};
}

/* How many of the bytes at p[0..n) belong to one well-formed sequence or to its beginning. */
static int match(const unsigned char *p, size_t n, lead l)
{
    int i = 0;
    for (; i < l.len && (size_t)i < n; i++) {
        unsigned char min = i == 1 ? l.second_min : 0x80, max = i == 1 ? l.second_max : 0xbf;
        if (i > 0 && (p[i] < min || p[i] > max)) break;
    }
    return i;
}

int utf8_decode(str s, size_t pos, uint32_t *cp)
{
    ASSERT(pos < s.len);
    const unsigned char *p = (const unsigned char *)s.ptr + pos;
    if (p[0] < 0x80) {
        *cp = p[0];
        return 1;
    }
    lead l = lead_of(p[0]);
    if (l.len == 0 || match(p, s.len - pos, l) < l.len) return 0;
    uint32_t v = p[0] & (0x7fu >> l.len);
    for (int i = 1; i < l.len; i++) v = v << 6 | (p[i] & 0x3fu);
    *cp = v;
    return l.len;
}

int utf8_encode(uint32_t cp, char *out)
{
    ASSERT(cp <= 0x10ffff && (cp < 0xd800 || cp > 0xdfff));
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    int n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, cp >>= 6) out[i] = (char)(0x80 | (cp & 0x3f));
    out[0] = (char)((0xf00u >> n & 0xf0u) | cp);
    return n;
}

int64_t utf8_check(str s)
{
    size_t pos = 0;
    while (pos < s.len) {
        uint64_t eight;
        while (s.len - pos >= sizeof eight) {
            memcpy(&eight, s.ptr + pos, sizeof eight);
            if (eight & 0x8080808080808080u) break;
            pos += sizeof eight;
        }
        if (pos == s.len) break;
        uint32_t cp;
        int n = utf8_decode(s, pos, &cp);
        if (n == 0) return (int64_t)pos;
        pos += (size_t)n;
    }
    return -1;
}

int utf8_tail(str s)
{
    for (size_t n = s.len < 3 ? s.len : 3; n > 0; n--) {
        const unsigned char *p = (const unsigned char *)s.ptr + s.len - n;
        lead l = lead_of(p[0]);
        if (l.len > (int)n && match(p, n, l) == (int)n) return (int)n;
    }
    return 0;
}
