/* links: base */
/* The three readers of UTF-8 must agree with each other on any bytes. */
#include "base/asserts.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    str s = {(const char *)data, n};
    int64_t bad = -1;
    for (size_t pos = 0; pos < n;) {
        uint32_t cp;
        char again[4];
        int len = utf8_decode(s, pos, &cp);
        if (len == 0) {
            bad = (int64_t)pos;
            break;
        }
        ASSERT(utf8_encode(cp, again) == len && memcmp(again, s.ptr + pos, (size_t)len) == 0);
        pos += (size_t)len;
    }
    ASSERT(utf8_check(s) == bad);
    size_t tail = (size_t)utf8_tail(s);
    ASSERT(tail <= 3 && tail <= n);
    if (tail > 0 && bad >= 0) ASSERT((size_t)bad <= n - tail);
    if (bad < 0) ASSERT(tail == 0);
    return 0;
}
