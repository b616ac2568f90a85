#include "chat/jinja_number_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "chat/jinja_unicode_priv.h"

static const char TOO_BIG[] = "integers beyond 64 bits cannot be computed with";

double jnumber_parse(str s)
{
    double d;
    if (str_to_double(s, &d)) return d;
    return s.len && s.ptr[0] == '-' ? -INFINITY : INFINITY;
}

bool jnumber_from_text(arena *a, str s, bool is_input, jvalue *out)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == '.' || (s.ptr[i] | 32) == 'e') {
            *out = jvalue_float(jnumber_parse(s));
            out->is_input = is_input;
            return true;
        }
    }
    int64_t v;
    if (str_to_int64(s, &v)) {
        *out = jvalue_int(v);
        out->is_input = is_input;
        return true;
    }
    const jtext *digits = jtext_new(a, s, is_input);
    *out = (jvalue){.kind = JVALUE_BIG, .is_input = is_input, .s = digits};
    return digits != NULL;
}

/* The fewest digits that read back as d: digits[0..n), the first one worth 10^exponent. */
static int shortest_digits(double d, char digits[20], int *exponent)
{
    char text[40];
    for (int n = 1; n <= 17; n++) {
        snprintf(text, sizeof text, "%.*e", n - 1, d);
        if (n < 17 && strtod(text, NULL) != d) continue;
        int count = 0;
        for (const char *c = text; *c != 'e'; c++)
            if (*c >= '0' && *c <= '9') digits[count++] = *c;
        *exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
        while (count > 1 && digits[count - 1] == '0') count--;
        return count;
    }
    return 0;
}

int jnumber_format(double d, char out[40])
{
    if (isnan(d)) return snprintf(out, 40, "nan");
    const char *sign = signbit(d) ? "-" : "";
    if (isinf(d)) return snprintf(out, 40, "%sinf", sign);
    if (d == 0) return snprintf(out, 40, "%s0.0", sign);
    char digits[20];
    int exponent, n = shortest_digits(fabs(d), digits, &exponent);
    if (exponent < -4 || exponent >= 16)
        return snprintf(out, 40, "%s%c%s%.*se%c%02d", sign, digits[0], n > 1 ? "." : "", n - 1,
                        digits + 1, exponent < 0 ? '-' : '+', abs(exponent));
    if (exponent < 0)
        return snprintf(out, 40, "%s0.%.*s%.*s", sign, -exponent - 1, "0000", n, digits);
    int whole = exponent + 1; /* digits before the point */
    if (n <= whole)
        return snprintf(out, 40, "%s%.*s%.*s.0", sign, n, digits, whole - n, "0000000000000000");
    return snprintf(out, 40, "%s%.*s.%.*s", sign, whole, digits, n - whole, digits + whole);
}

static int sign_of(long double d)
{
    return d < 0 ? -1 : d > 0;
}

static int compare_digits(str a, str b)
{
    bool a_negative = a.ptr[0] == '-', b_negative = b.ptr[0] == '-';
    if (a_negative != b_negative) return a_negative ? -1 : 1;
    int order = a.len != b.len ? (a.len < b.len ? -1 : 1) : str_compare(a, b);
    order = order < 0 ? -1 : order > 0;
    return a_negative ? -order : order;
}

bool jnumber_compare(jvalue a, jvalue b, int *order)
{
    int64_t i, j;
    bool a_int = jvalue_to_int(a, &i), b_int = jvalue_to_int(b, &j);
    if (a_int && b_int) {
        *order = i < j ? -1 : i > j;
    } else if (a.kind == JVALUE_BIG && b.kind == JVALUE_BIG) {
        *order = compare_digits(a.s->s, b.s->s);
    } else if (a.kind == JVALUE_BIG && b_int) {
        *order = a.s->s.ptr[0] == '-' ? -1 : 1;
    } else if (b.kind == JVALUE_BIG && a_int) {
        *order = b.s->s.ptr[0] == '-' ? 1 : -1;
    } else {
        double x = 0, y = 0;
        jvalue_to_double(a, &x);
        jvalue_to_double(b, &y);
        /* An int64 fits a long double exactly where that has 64 bits of mantissa. */
        long double lx = a_int ? (long double)i : x, ly = b_int ? (long double)j : y;
        *order = isnan(x) || isnan(y) ? 2 : sign_of(lx - ly);
        if (isinf(x) && isinf(y)) *order = sign_of((long double)(x > 0) - (y > 0));
    }
    return true;
}

static const char *int_power(int64_t base, int64_t exponent, jvalue *out)
{
    int64_t result = 1;
    while (exponent > 0) {
        if (exponent & 1)
            if (__builtin_mul_overflow(result, base, &result)) return TOO_BIG;
        exponent >>= 1;
        if (exponent && __builtin_mul_overflow(base, base, &base)) return TOO_BIG;
    }
    *out = jvalue_int(result);
    return NULL;
}

static const char *float_power(double a, double b, jvalue *out)
{
    if (a == 0 && b < 0) return "0.0 cannot be raised to a negative power";
    if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
        return "a negative number to a fractional power is complex, which is not supported";
    double d = pow(a, b);
    if (isinf(d) && isfinite(a) && isfinite(b)) return "Numerical result out of range";
    *out = jvalue_float(d);
    return NULL;
}

static void float_divmod(double a, double b, double *quotient, double *rest)
{
    double mod = fmod(a, b), div = (a - mod) / b;
    if (mod != 0) {
        if ((b < 0) != (mod < 0)) {
            mod += b;
            div -= 1;
        }
    } else {
        mod = copysign(0, b);
    }
    double whole;
    if (div != 0) {
        whole = floor(div);
        if (div - whole > 0.5) whole += 1;
    } else {
        whole = copysign(0, a / b);
    }
    *quotient = whole;
    *rest = mod;
}

static const char *int_binary(jop op, int64_t a, int64_t b, jvalue *out)
{
    int64_t v = 0;
    bool over = false;
    if ((op == JOP_DIV || op == JOP_FLOORDIV || op == JOP_MOD) && b == 0)
        return op == JOP_DIV ? "division by zero" : "integer division or modulo by zero";
    switch (op) {
    case JOP_ADD: over = __builtin_add_overflow(a, b, &v); break;
    case JOP_SUB: over = __builtin_sub_overflow(a, b, &v); break;
    case JOP_MUL: over = __builtin_mul_overflow(a, b, &v); break;
    case JOP_DIV: *out = jvalue_float((double)((long double)a / (long double)b)); return NULL;
    case JOP_FLOORDIV:
    case JOP_MOD:
        if (b == -1) {
            over = op == JOP_FLOORDIV && __builtin_sub_overflow((int64_t)0, a, &v);
            break;
        }
        v = op == JOP_MOD ? a % b : a / b;
        if (a % b != 0 && (a < 0) != (b < 0)) v += op == JOP_MOD ? b : -1;
        break;
    default:
        if (b >= 0) return int_power(a, b, out);
        return float_power((double)a, (double)b, out);
    }
    if (over) return TOO_BIG;
    *out = jvalue_int(v);
    return NULL;
}

const char *jnumber_binary(jop op, jvalue a, jvalue b, jvalue *out)
{
    int64_t i, j;
    bool is_input = a.is_input && b.is_input;
    const char *why = NULL;
    if (jvalue_to_int(a, &i) && jvalue_to_int(b, &j)) {
        why = int_binary(op, i, j, out);
    } else {
        if (a.kind == JVALUE_BIG || b.kind == JVALUE_BIG) return TOO_BIG;
        double x = 0, y = 0, quotient, rest;
        jvalue_to_double(a, &x);
        jvalue_to_double(b, &y);
        if ((op == JOP_DIV || op == JOP_FLOORDIV || op == JOP_MOD) && y == 0)
            return op == JOP_DIV ? "float division by zero" : "float floor division by zero";
        switch (op) {
        case JOP_ADD: *out = jvalue_float(x + y); break;
        case JOP_SUB: *out = jvalue_float(x - y); break;
        case JOP_MUL: *out = jvalue_float(x * y); break;
        case JOP_DIV: *out = jvalue_float(x / y); break;
        case JOP_POW: why = float_power(x, y, out); break;
        default:
            float_divmod(x, y, &quotient, &rest);
            *out = jvalue_float(op == JOP_MOD ? rest : quotient);
            break;
        }
    }
    if (!why) out->is_input = is_input;
    return why;
}

const char *jnumber_unary(jop op, jvalue v, jvalue *out)
{
    int64_t i;
    if (v.kind == JVALUE_FLOAT) {
        *out = jvalue_float(op == JOP_NEG ? -v.f : v.f);
    } else if (jvalue_to_int(v, &i)) {
        if (op == JOP_NEG && __builtin_sub_overflow((int64_t)0, i, &i)) return TOO_BIG;
        *out = jvalue_int(i);
    } else if (op == JOP_POS) {
        *out = v;
    } else {
        return TOO_BIG;
    }
    out->is_input = v.is_input;
    return NULL;
}

static str trim_space(str s)
{
    uint32_t cp;
    while (s.len) {
        int n = junicode_at(s, 0, &cp);
        if (!junicode_is_space(cp)) break;
        s = str_skip(s, (size_t)n);
    }
    while (s.len) {
        size_t at = junicode_before(s, s.len);
        junicode_at(s, at, &cp);
        if (!junicode_is_space(cp)) break;
        s.len = at;
    }
    return s;
}

/* The text in ASCII: digits of any script as 0-9, single underscores between digits dropped.
 * False when that is impossible; out[cap] is terminated. */
static bool to_ascii(str s, char *out, size_t cap)
{
    size_t n = 0;
    bool after_digit = false;
    for (size_t at = 0; at < s.len;) {
        uint32_t cp;
        at += (size_t)junicode_at(s, at, &cp);
        int digit = junicode_digit_value(cp);
        if (cp == '_') {
            uint32_t next = 0;
            if (!after_digit || at >= s.len) return false;
            junicode_at(s, at, &next);
            bool hex = (next | 32) >= 'a' && (next | 32) <= 'f' && next < 0x80;
            if (junicode_digit_value(next) < 0 && !hex) return false;
            after_digit = false;
            continue;
        }
        if ((digit < 0 && cp >= 0x80) || n + 1 >= cap) return false;
        char c = digit >= 0 ? (char)('0' + digit) : (char)cp;
        after_digit = digit >= 0 || ((c | 32) >= 'a' && (c | 32) <= 'z');
        out[n++] = c;
    }
    out[n] = 0;
    return n > 0;
}

static int digit_in_base(char c, int base)
{
    int v = c >= '0' && c <= '9'                 ? c - '0'
            : (c | 32) >= 'a' && (c | 32) <= 'z' ? (c | 32) - 'a' + 10
                                                 : 99;
    return v < base ? v : -1;
}

const char *jnumber_int_of_text(arena *a, str s, int base, jvalue *out)
{
    char text[512];
    *out = (jvalue){0};
    if (base != 0 && (base < 2 || base > 36)) return "int() base must be >= 2 and <= 36, or 0";
    if (!to_ascii(trim_space(s), text, sizeof text)) return "not an integer";
    char *at = text;
    bool is_negative = *at == '-';
    if (*at == '-' || *at == '+') at++;
    int prefixed = at[0] != '0'          ? 0
                   : (at[1] | 32) == 'x' ? 16
                   : (at[1] | 32) == 'o' ? 8
                   : (at[1] | 32) == 'b' ? 2
                                         : 0;
    if (prefixed && (base == prefixed || base == 0)) {
        base = prefixed;
        at += 2;
    } else if (base == 0) {
        if (at[0] == '0' && strspn(at, "0") != strlen(at)) return "not an integer";
        base = 10;
    }
    if (!*at) return "not an integer";
    while (at[0] == '0' && at[1]) at++;
    int64_t v = 0;
    bool over = false;
    for (char *c = at; *c; c++) {
        int digit = digit_in_base(*c, base);
        if (digit < 0) return "not an integer";
        over |= __builtin_mul_overflow(v, (int64_t)base, &v) ||
                __builtin_sub_overflow(v, (int64_t)digit, &v);
    }
    if (!over && !is_negative) over = __builtin_sub_overflow((int64_t)0, v, &v);
    if (!over) {
        *out = jvalue_int(v);
        return NULL;
    }
    if (base != 10) return TOO_BIG;
    if (is_negative) *--at = '-';
    char *digits = arena_copy(a, at, strlen(at));
    const jtext *t = digits ? jtext_new(a, str_from(digits), false) : NULL;
    if (t) *out = (jvalue){.kind = JVALUE_BIG, .s = t};
    return NULL;
}

bool jnumber_float_of_text(str s, double *out)
{
    char text[512];
    if (!to_ascii(trim_space(s), text, sizeof text)) return false;
    str t = str_from(text);
    bool is_negative = text[0] == '-';
    char word[16] = "";
    for (size_t i = 0, n = 0; i < t.len && n < sizeof word - 1; i++)
        if (i > 0 || (text[0] != '-' && text[0] != '+')) word[n++] = (char)(text[i] | 32);
    if (strcmp(word, "inf") == 0 || strcmp(word, "infinity") == 0) {
        *out = is_negative ? -INFINITY : INFINITY;
        return true;
    }
    if (strcmp(word, "nan") == 0) {
        *out = NAN;
        return true;
    }
    if (str_to_double(t, out)) return true;
    /* What is a number but no finite one has a large exponent or very many digits. */
    size_t n_mantissa = strcspn(text, "eE");
    const char *digits = text + n_mantissa + (n_mantissa < t.len);
    digits += *digits == '-' || *digits == '+';
    bool is_number = n_mantissa == t.len ||
                     (*digits && strspn(digits, "0123456789") == strlen(digits));
    double probe;
    str mantissa = str_slice(t, 0, n_mantissa < 300 ? n_mantissa : 300);
    if (!is_number || !str_to_double(mantissa, &probe)) return false;
    *out = is_negative ? -INFINITY : INFINITY;
    return true;
}

jvalue jnumber_int_of_double(arena *a, double d)
{
    d = trunc(d);
    if (d >= -9223372036854775808.0 && d < 9223372036854775808.0) return jvalue_int((int64_t)d);
    char text[340];
    int n = snprintf(text, sizeof text, "%.0f", d);
    char *digits = arena_copy(a, text, (size_t)n);
    const jtext *t = digits ? jtext_new(a, (str){digits, (size_t)n}, false) : NULL;
    return t ? (jvalue){.kind = JVALUE_BIG, .s = t} : (jvalue){0};
}

/* round() of an integer to a negative number of digits: half goes to the even multiple. */
static const char *round_int(int64_t i, int64_t digits, jvalue *out)
{
    int64_t unit = 1;
    for (int64_t d = digits; d < 0; d++)
        if (__builtin_mul_overflow(unit, (int64_t)10, &unit)) {
            *out = jvalue_int(0);
            return NULL;
        }
    int64_t rest = ((i % unit) + unit) % unit, low = i - rest;
    bool up = rest > unit - rest || (rest == unit - rest && (low / unit) % 2 != 0);
    if (up && __builtin_add_overflow(low, unit, &low)) return TOO_BIG;
    *out = jvalue_int(low);
    return NULL;
}

const char *jnumber_round(jvalue v, int64_t digits, jvalue *out)
{
    int64_t i;
    if (jvalue_to_int(v, &i)) return round_int(i, digits, out);
    if (v.kind == JVALUE_BIG) return TOO_BIG;
    if (!isfinite(v.f) || digits > 320) {
        *out = jvalue_float(v.f);
    } else if (digits >= 0) {
        char text[700];
        snprintf(text, sizeof text, "%.*f", (int)digits, v.f); /* exact, half to even */
        *out = jvalue_float(strtod(text, NULL));
    } else {
        double unit = digits < -308 ? INFINITY : pow(10, (double)-digits);
        *out = jvalue_float(isinf(unit) ? copysign(0, v.f) : nearbyint(v.f / unit) * unit);
    }
    return NULL;
}

const char *jnumber_floor(jvalue v, int64_t digits, bool is_ceil, jvalue *out)
{
    double x = 0;
    if (v.kind == JVALUE_BIG) return TOO_BIG;
    jvalue_to_double(v, &x);
    if (!isfinite(x)) return "cannot convert float infinity or NaN to integer";
    double unit = pow(10, (double)digits);
    if (!isfinite(unit) || unit == 0) return TOO_BIG;
    x *= unit;
    x = is_ceil ? ceil(x) : floor(x);
    *out = jvalue_float(x == 0 ? 0 : x / unit); /* Python goes through an integer: no -0.0 */
    return NULL;
}
