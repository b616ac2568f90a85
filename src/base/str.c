#include "base/str.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/asserts.h"

bool str_starts(str s, str prefix)
{
    return s.len >= prefix.len && str_equal((str){s.ptr, prefix.len}, prefix);
}

bool str_ends(str s, str suffix)
{
    return s.len >= suffix.len && str_equal(str_skip(s, s.len - suffix.len), suffix);
}

str str_skip(str s, size_t n)
{
    ASSERT(n <= s.len);
    return (str){n ? s.ptr + n : s.ptr, s.len - n};
}

str str_slice(str s, size_t from, size_t to)
{
    ASSERT(from <= to && to <= s.len);
    return (str){from ? s.ptr + from : s.ptr, to - from};
}

int64_t str_find(str s, str needle, size_t from)
{
    if (from > s.len) return -1;
    if (needle.len == 0) return (int64_t)from;
    if (s.len - from < needle.len) return -1;
    const char *at = memmem(s.ptr + from, s.len - from, needle.ptr, needle.len);
    return at ? at - s.ptr : -1;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

str str_trim(str s)
{
    size_t from = 0, to = s.len;
    while (from < to && is_space(s.ptr[from])) from++;
    while (to > from && is_space(s.ptr[to - 1])) to--;
    return str_slice(s, from, to);
}

int str_compare(str a, str b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n ? memcmp(a.ptr, b.ptr, n) : 0;
    if (order != 0) return order;
    return a.len < b.len ? -1 : a.len > b.len;
}

bool str_to_uint64(str s, uint64_t *out)
{
    if (s.len == 0) return false;
    uint64_t v = 0;
    for (size_t i = 0; i < s.len; i++) {
        unsigned digit = (unsigned)(unsigned char)s.ptr[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)digit, &v))
            return false;
    }
    *out = v;
    return true;
}

bool str_to_int64(str s, int64_t *out)
{
    bool is_negative = s.len > 0 && s.ptr[0] == '-';
    uint64_t v;
    if (!str_to_uint64(is_negative ? str_skip(s, 1) : s, &v)) return false;
    if (v > (uint64_t)INT64_MAX + is_negative) return false;
    *out = is_negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

/* True for [+-]digits[.digits][(e|E)[+-]digits] with at least one digit before the exponent: what
 * strtod takes besides (hex, inf, nan, white space) is no number here. */
static bool is_decimal(str s)
{
    size_t i = 0, n_digits = 0;
    if (i < s.len && (s.ptr[i] == '-' || s.ptr[i] == '+')) i++;
    for (; i < s.len && s.ptr[i] >= '0' && s.ptr[i] <= '9'; i++) n_digits++;
    if (i < s.len && s.ptr[i] == '.')
        for (i++; i < s.len && s.ptr[i] >= '0' && s.ptr[i] <= '9'; i++) n_digits++;
    if (n_digits == 0) return false;
    if (i == s.len) return true;
    if (s.ptr[i] != 'e' && s.ptr[i] != 'E') return false;
    i++;
    if (i < s.len && (s.ptr[i] == '-' || s.ptr[i] == '+')) i++;
    if (i == s.len) return false;
    while (i < s.len && s.ptr[i] >= '0' && s.ptr[i] <= '9') i++;
    return i == s.len;
}

/* Up to 19 digits and a small power of ten are exact in one operation (Clinger's fast path). */
static bool fast_decimal(str s, double *out)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    bool is_negative = s.ptr[0] == '-', seen_dot = false;
    size_t i = is_negative || s.ptr[0] == '+';
    uint64_t v = 0;
    size_t n_digits = 0, n_fraction = 0;
    for (; i < s.len; i++) {
        if (s.ptr[i] == '.') {
            seen_dot = true;
        } else {
            unsigned digit = (unsigned)(unsigned char)s.ptr[i] - '0';
            if (digit > 9 || ++n_digits > 18) return false;
            v = v * 10 + digit;
            n_fraction += seen_dot;
        }
    }
    if (v > (uint64_t)1 << 53) return false;
    double d = (double)v / powers[n_fraction];
    *out = is_negative ? -d : d;
    return true;
}

/* strtod rounds correctly for any number of digits but needs a terminator (and the locale's decimal
 * point), and beyond about 770 digits only "is anything but zero left" matters. So the text is
 * rewritten into a bounded copy: its first digits as an integer, one sticky digit, an exponent. */
enum { DIGITS_KEPT = 800 };

static size_t write_digits(str s, char *out, int64_t *shift)
{
    size_t n = 0;
    bool seen_dot = false, is_sticky = false;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == '.') {
            seen_dot = true;
        } else if (n == 0 && s.ptr[i] == '0') {
            *shift -= seen_dot;
        } else if (n < DIGITS_KEPT) {
            out[n++] = s.ptr[i];
            *shift -= seen_dot;
        } else {
            is_sticky |= s.ptr[i] != '0';
            *shift += !seen_dot;
        }
    }
    if (is_sticky) {
        out[n++] = '1';
        --*shift;
    }
    return n;
}

static int64_t read_exponent(str s)
{
    bool is_negative = s.len > 0 && s.ptr[0] == '-';
    int64_t v = 0;
    for (size_t i = is_negative || (s.len > 0 && s.ptr[0] == '+'); i < s.len; i++)
        if (v < INT64_MAX / 32) v = v * 10 + (s.ptr[i] - '0');
    return is_negative ? -v : v;
}

bool str_to_double(str s, double *out)
{
    if (!is_decimal(s)) return false;
    if (fast_decimal(s, out)) return true;
    bool is_negative = s.ptr[0] == '-';
    if (is_negative || s.ptr[0] == '+') s = str_skip(s, 1);
    size_t n_mantissa = 0;
    while (n_mantissa < s.len && (s.ptr[n_mantissa] | 32) != 'e') n_mantissa++;
    str exponent = n_mantissa < s.len ? str_skip(s, n_mantissa + 1) : STR("");

    char copy[DIGITS_KEPT + 64];
    int64_t shift = 0; /* value = digits * 10^shift */
    size_t n = write_digits(str_slice(s, 0, n_mantissa), copy, &shift);
    double d = 0;
    if (n > 0) {
        shift += read_exponent(exponent);
        snprintf(copy + n, sizeof copy - n, "e%lld", (long long)shift);
        d = strtod(copy, NULL);
        if (isinf(d)) return false;
    }
    *out = is_negative ? -d : d;
    return true;
}
