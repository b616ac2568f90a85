#include "grammar/decimal_priv.h"

enum { PLAIN_MOST = 400, DIVISOR_DIGITS_MOST = 17 };

/* The exponent behind e or E, clamped to beyond the limit. */
static int64_t read_exponent(str s, size_t at)
{
    bool is_negative = s.ptr[at] == '-';
    int64_t v = 0;
    if (is_negative || s.ptr[at] == '+') at++;
    for (; at < s.len; at++)
        if (v <= 10 * (int64_t)DECIMAL_EXPONENT_MOST) v = v * 10 + (s.ptr[at] - '0');
    return is_negative ? -v : v;
}

bool decimal_read(arena *a, const json *number, decimal *out)
{
    str s = number->text;
    decimal d = {0};
    size_t at = 0, dot = SIZE_MAX;
    char *digits = arena_new(a, s.len + 1);
    if (!digits) return false;
    if (s.ptr[0] == '-') {
        d.is_negative = true;
        at = 1;
    }
    for (; at < s.len && s.ptr[at] != 'e' && s.ptr[at] != 'E'; at++) {
        if (s.ptr[at] == '.') {
            dot = at;
            continue;
        }
        if (dot != SIZE_MAX) d.exponent--;
        if (d.n == 0 && s.ptr[at] == '0') continue;
        digits[d.n++] = s.ptr[at];
    }
    if (at < s.len) d.exponent += read_exponent(s, at + 1);
    while (d.n > 0 && digits[d.n - 1] == '0') {
        d.n--;
        d.exponent++;
    }
    if (d.n == 0) d = (decimal){0};
    d.digits = digits;
    if (d.n > DECIMAL_DIGITS_MOST || d.exponent > DECIMAL_EXPONENT_MOST ||
        d.exponent < -DECIMAL_EXPONENT_MOST)
        return false;
    *out = d;
    return true;
}

static int compare_size(const decimal *x, const decimal *y)
{
    if (x->n == 0 || y->n == 0) return (x->n > 0) - (y->n > 0);
    int64_t p = x->n + x->exponent, q = y->n + y->exponent;
    if (p != q) return p < q ? -1 : 1;
    int n = x->n > y->n ? x->n : y->n;
    for (int i = 0; i < n; i++) {
        int c = i < x->n ? x->digits[i] : '0', d = i < y->n ? y->digits[i] : '0';
        if (c != d) return c < d ? -1 : 1;
    }
    return 0;
}

int decimal_compare(const decimal *x, const decimal *y)
{
    if (x->is_negative != y->is_negative) return x->is_negative ? -1 : 1;
    return x->is_negative ? -compare_size(x, y) : compare_size(x, y);
}

bool decimal_scale(const decimal *d, uint64_t *p, int *k)
{
    uint64_t v = 0;
    if (d->is_negative || d->n == 0 || d->n > DIVISOR_DIGITS_MOST) return false;
    for (int i = 0; i < d->n; i++) v = v * 10 + (uint64_t)(d->digits[i] - '0');
    for (int64_t e = d->exponent; e > 0; e--) {
        v *= 10;
        if (v >= DECIMAL_SCALE_MOST) return false;
    }
    if (v >= DECIMAL_SCALE_MOST || d->exponent < -PLAIN_MOST) return false;
    *p = v;
    *k = d->exponent < 0 ? (int)-d->exponent : 0;
    return true;
}

bool decimal_is_multiple(const decimal *x, const decimal *m)
{
    uint64_t p = 0, r = 0;
    if (x->n == 0) return true;
    if (m->n == 0 || m->n > DIVISOR_DIGITS_MOST || m->is_negative) return false;
    if (x->exponent < m->exponent) return false; /* x has no zero at its end to divide away */
    for (int i = 0; i < m->n; i++) p = p * 10 + (uint64_t)(m->digits[i] - '0');
    for (int i = 0; i < x->n; i++) r = (r * 10 + (uint64_t)(x->digits[i] - '0')) % p;
    for (int64_t e = x->exponent - m->exponent; e > 0 && r; e--) r = r * 10 % p;
    return r == 0;
}

void decimal_put(buf *b, const decimal *d)
{
    int64_t point = d->n + d->exponent; /* digits before the point */
    if (d->n == 0) {
        buf_put_byte(b, '0');
        return;
    }
    if (d->is_negative) buf_put_byte(b, '-');
    if (point > PLAIN_MOST || point < -PLAIN_MOST || d->n > PLAIN_MOST) {
        buf_put(b, d->digits, (size_t)d->n);
        buf_printf(b, "e%lld", (long long)d->exponent);
        return;
    }
    if (point <= 0) {
        buf_put_c(b, "0.");
        for (int64_t i = point; i < 0; i++) buf_put_byte(b, '0');
        buf_put(b, d->digits, (size_t)d->n);
        return;
    }
    for (int64_t i = 0; i < point; i++) buf_put_byte(b, i < d->n ? d->digits[i] : '0');
    if (point < d->n) {
        buf_put_byte(b, '.');
        buf_put(b, d->digits + point, (size_t)(d->n - point));
    }
}
