/* Numbers are kept as text; these read it exactly or say no. */
#include "base/json.h"

typedef struct {
    bool is_negative;
    uint64_t magnitude;
} integer;

static bool append_digit(uint64_t *v, uint64_t digit)
{
    return !__builtin_mul_overflow(*v, (uint64_t)10, v) && !__builtin_add_overflow(*v, digit, v);
}

/* The exponent that ends a number, held at +-2^60 (no text is long enough to make up for that). */
static int64_t parse_exponent(str s)
{
    const int64_t most = (int64_t)1 << 60;
    int64_t v = 0;
    for (size_t i = s.ptr[0] == '-' || s.ptr[0] == '+'; i < s.len; i++) {
        v = v * 10 + (s.ptr[i] - '0');
        if (v > most / 16) v = most / 16;
    }
    return s.ptr[0] == '-' ? -v : v;
}

/* Zeros are held back until a digit follows, so that 100e-2 and 5.000 never need the fraction. */
static bool to_integer(const json *v, integer *out)
{
    if (!json_is(v, JSON_NUMBER)) return false;
    str s = v->text;
    integer r = {.is_negative = s.ptr[0] == '-'};
    int64_t exponent = 0, zeros = 0;
    bool seen_dot = false;
    for (size_t i = r.is_negative; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == 'e' || c == 'E') {
            exponent += parse_exponent(str_skip(s, i + 1));
            break;
        }
        if (c == '.') {
            seen_dot = true;
            continue;
        }
        exponent -= seen_dot;
        if (c == '0') {
            zeros++;
            continue;
        }
        for (; zeros > 0; zeros--)
            if (!append_digit(&r.magnitude, 0)) return false;
        if (!append_digit(&r.magnitude, (uint64_t)(c - '0'))) return false;
    }
    if (r.magnitude != 0) {
        exponent += zeros;
        if (exponent < 0) return false;
        for (; exponent > 0; exponent--)
            if (!append_digit(&r.magnitude, 0)) return false;
    }
    *out = r;
    return true;
}

bool json_to_int64(const json *v, int64_t *out)
{
    integer i;
    if (!to_integer(v, &i) || i.magnitude > (uint64_t)INT64_MAX + i.is_negative) return false;
    *out = i.is_negative ? (int64_t)(0 - i.magnitude) : (int64_t)i.magnitude;
    return true;
}

bool json_to_uint64(const json *v, uint64_t *out)
{
    integer i;
    if (!to_integer(v, &i) || (i.is_negative && i.magnitude != 0)) return false;
    *out = i.magnitude;
    return true;
}

bool json_to_double(const json *v, double *out)
{
    return json_is(v, JSON_NUMBER) && str_to_double(v->text, out);
}
