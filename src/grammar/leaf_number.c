#include "grammar/leaf_number_priv.h"

/* Characters. */
enum { OTHER, DIGIT, MINUS = DIGIT + 10, POINT, EXPONENT, PLUS, N_CHARS };

/* Where in the text. */
enum {
    AT_START,
    AT_SIGN,
    AT_ZERO,
    AT_WHOLE,
    AT_POINT,
    AT_FRACTION,
    AT_E,
    AT_E_SIGN,
    AT_E_DIGITS,
    NOWHERE
};

/* A bound on the size of the number: its digits before and behind the point. */
typedef struct {
    bool is_used, is_excluded;
    int n_whole, n_fraction;
    char whole[LEAF_NUMBER_DIGITS_MOST + 1], fraction[LEAF_NUMBER_DIGITS_MOST + 1];
} limit;

typedef struct {
    const number_bounds *b;
    bool is_plain;  /* no bounds: exponents are fine */
    bool may_be[2]; /* by sign: 0 = not negative */
    limit low[2], high[2];
} machine;

/* One state. Comparisons with a limit: while the whole part is read, the number of its digits (one
 * more than the limit's at most) and how they compare so far; then decided, or equal up to a digit
 * of the fraction. */
typedef struct {
    int at, sign;
    int low, high; /* comparison states */
    int rest, n_fraction;
} position;

enum { LESS = 0, SAME = 1, MORE = 2 }; /* comparison while reading the whole part: 3 * digits + x */

static bool set_limit(limit *l, const decimal *d, bool is_excluded)
{
    int64_t point = d->n + d->exponent;
    l->is_used = true;
    l->is_excluded = is_excluded;
    l->n_whole = l->n_fraction = 0;
    if (d->n == 0) return true;
    if (point > LEAF_NUMBER_DIGITS_MOST || d->exponent < -LEAF_NUMBER_DIGITS_MOST) return false;
    for (int64_t i = 0; i < point; i++) l->whole[l->n_whole++] = i < d->n ? d->digits[i] : '0';
    for (int64_t i = point; i < 0; i++) l->fraction[l->n_fraction++] = '0';
    for (int64_t i = point > 0 ? point : 0; i < d->n; i++)
        l->fraction[l->n_fraction++] = d->digits[i];
    return true;
}

/* What the bounds say about sizes, for each sign. */
static bool set_machine(machine *m, const number_bounds *b)
{
    bool ok = true;
    m->b = b;
    m->is_plain = !b->has_lower && !b->has_upper && b->divisor == 0;
    m->may_be[0] = m->may_be[1] = true;
    if (b->has_lower) {
        bool is_below = b->lower.is_negative;
        if (is_below)
            ok &= set_limit(&m->high[1], &b->lower, b->lower_excluded);
        else
            m->may_be[1] = false;
        if (!is_below) ok &= set_limit(&m->low[0], &b->lower, b->lower_excluded);
    }
    if (b->has_upper) {
        bool is_below = b->upper.is_negative || (b->upper.n == 0 && b->upper_excluded);
        if (is_below) {
            m->may_be[0] = false;
            ok &= set_limit(&m->low[1], &b->upper, b->upper_excluded);
        } else {
            ok &= set_limit(&m->high[0], &b->upper, b->upper_excluded);
        }
    }
    return ok;
}

static int whole_digit(const limit *l, int state, int digit)
{
    int n = state / 3, how = state % 3;
    if (!l->is_used) return 0;
    if (n < l->n_whole && how == SAME) {
        int other = l->whole[n] - '0';
        how = digit < other ? LESS : digit > other ? MORE : SAME;
    }
    n = n < l->n_whole ? n + 1 : l->n_whole + 1;
    return n > l->n_whole ? 3 * n + MORE : 3 * n + how;
}

/* At the point or the end: LESS, MORE, or equal as far as the fraction's first digit (3). */
static int end_whole(const limit *l, int state)
{
    int n = state / 3, how = state % 3;
    if (!l->is_used) return 0;
    if (n < l->n_whole) return LESS;
    if (n > l->n_whole) return MORE;
    return how == SAME ? 3 : how;
}

static int fraction_digit(const limit *l, int state, int digit)
{
    if (!l->is_used || state < 3) return state;
    int i = state - 3, other = i < l->n_fraction ? l->fraction[i] - '0' : 0;
    if (digit != other) return digit < other ? LESS : MORE;
    return i < l->n_fraction ? state + 1 : state;
}

static bool fits(const limit *l, int state, bool is_low)
{
    if (!l->is_used) return true;
    if (state >= 3) state = state - 3 < l->n_fraction ? LESS : SAME;
    if (state == SAME) return !l->is_excluded;
    return state == (is_low ? MORE : LESS);
}

static position begin_number(const machine *m, position p, int digit)
{
    p.at = digit == 0 ? AT_ZERO : AT_WHOLE;
    p.low = p.high = SAME;
    if (digit) {
        p.low = whole_digit(&m->low[p.sign], p.low, digit);
        p.high = whole_digit(&m->high[p.sign], p.high, digit);
    }
    if (m->b->divisor) p.rest = (int)((uint64_t)digit % m->b->divisor);
    return p;
}

static position next_digit(const machine *m, position p, int digit)
{
    const limit *low = &m->low[p.sign], *high = &m->high[p.sign];
    if (p.at == AT_START || p.at == AT_SIGN) return begin_number(m, p, digit);
    if (p.at == AT_WHOLE) {
        p.low = whole_digit(low, p.low, digit);
        p.high = whole_digit(high, p.high, digit);
    } else if (p.at == AT_POINT || p.at == AT_FRACTION) {
        p.at = AT_FRACTION;
        p.low = fraction_digit(low, p.low, digit);
        p.high = fraction_digit(high, p.high, digit);
        if (m->b->divisor && ++p.n_fraction > m->b->scale) p.at = NOWHERE;
    } else if (p.at == AT_E || p.at == AT_E_SIGN || p.at == AT_E_DIGITS) {
        p.at = AT_E_DIGITS;
    } else {
        p.at = NOWHERE;
    }
    if (m->b->divisor) p.rest = (int)(((uint64_t)p.rest * 10 + (uint64_t)digit) % m->b->divisor);
    return p;
}

static position next_char(const machine *m, position p, int c)
{
    static const position nowhere = {NOWHERE, 0, 0, 0, 0, 0};
    bool is_whole = p.at == AT_ZERO || p.at == AT_WHOLE;
    bool has_fraction = !m->b->is_integer && !(m->b->divisor && m->b->scale == 0);
    if (p.at == NOWHERE) return nowhere;
    if (c >= DIGIT && c < DIGIT + 10) {
        if (p.at == AT_START && !m->may_be[0]) return nowhere;
        p = next_digit(m, p, c - DIGIT);
        return p.at == NOWHERE ? nowhere : p;
    }
    if (c == MINUS && p.at == AT_START && m->may_be[1]) {
        p.at = AT_SIGN;
        p.sign = 1;
        return p;
    }
    if (c == POINT && is_whole && has_fraction) {
        p.at = AT_POINT;
        p.low = end_whole(&m->low[p.sign], p.low);
        p.high = end_whole(&m->high[p.sign], p.high);
        return p;
    }
    if (m->is_plain && has_fraction && c == EXPONENT && (is_whole || p.at == AT_FRACTION)) {
        p.at = AT_E;
        return p;
    }
    if ((c == PLUS || c == MINUS) && p.at == AT_E) {
        p.at = AT_E_SIGN;
        return p;
    }
    return nowhere;
}

static bool may_end(const machine *m, position p)
{
    if (p.at == AT_ZERO || p.at == AT_WHOLE) {
        p.low = end_whole(&m->low[p.sign], p.low);
        p.high = end_whole(&m->high[p.sign], p.high);
    } else if (p.at != AT_FRACTION && p.at != AT_E_DIGITS) {
        return false;
    }
    if (m->b->divisor) {
        uint64_t rest = (uint64_t)p.rest;
        for (int i = p.n_fraction; i < m->b->scale; i++) rest = rest * 10 % m->b->divisor;
        if (rest) return false;
    }
    return fits(&m->low[p.sign], p.low, true) && fits(&m->high[p.sign], p.high, false);
}

static status explore(arena *a, int64_t *work, const machine *m, const char *where, leaf_table *out,
                      err *e)
{
    leaf_keys keys;
    position p = {AT_START, 0, 0, 0, 0, 0};
    int *next = NULL, cap = 0, width = (int)(sizeof p / sizeof(int));
    if (!leaf_keys_init(&keys, a, width) || leaf_keys_find(&keys, &p.at) < 0) goto nomem;
    for (int s = 0; s < keys.n; s++) {
        if (s >= LEAF_STATES_MOST || s * N_CHARS > LEAF_TABLE_MOST ||
            !leaf_spend(work, 4 * N_CHARS))
            return err_set(e, ERR_LIMIT, where, -1, "bounds and divisor are too large together");
        if ((s + 1) * N_CHARS > cap) {
            int more = cap * 2 + 1024;
            int *grown = arena_new_array(a, (size_t)more, sizeof *grown);
            if (!grown) goto nomem;
            if (s) memcpy(grown, next, (size_t)(s * N_CHARS) * sizeof *next);
            next = grown;
            cap = more;
        }
        memcpy(&p, keys.keys + s * width, sizeof p);
        for (int c = 0; c < N_CHARS; c++) {
            position q = next_char(m, p, c);
            int to = leaf_keys_find(&keys, &q.at);
            if (to < 0) goto nomem;
            next[s * N_CHARS + c] = to;
        }
    }
    uint8_t *accept = arena_new_array(a, (size_t)keys.n, 1);
    if (!accept) goto nomem;
    for (int s = 0; s < keys.n; s++) {
        memcpy(&p, keys.keys + s * width, sizeof p);
        accept[s] = may_end(m, p);
    }
    *out = (leaf_table){keys.n, N_CHARS, next, accept};
    return ERR_OK;
nomem:
    return err_set(e, ERR_NOMEM, where, -1, "an automaton of numbers");
}

/* The characters as an alphabet: for each code point its class, in runs. */
static void set_alphabet(leaf_alphabet *al, uint32_t *lo, uint16_t *class_of)
{
    int n = 0;
    for (uint32_t cp = 0; cp < 128; cp++) {
        int c = cp >= '0' && cp <= '9'   ? DIGIT + (int)cp - '0'
                : cp == '+'              ? PLUS
                : cp == '-'              ? MINUS
                : cp == '.'              ? POINT
                : cp == 'e' || cp == 'E' ? EXPONENT
                                         : OTHER;
        if (n > 0 && class_of[n - 1] == c) continue;
        lo[n] = cp;
        class_of[n++] = (uint16_t)c;
    }
    *al = (leaf_alphabet){.n = n, .n_classes = N_CHARS, .lo = lo, .class_of = class_of};
}

static status build(arena *result, arena *a, int64_t *work, const number_bounds *b,
                    const char *where, const leaf **out, err *e)
{
    machine *m = arena_new(a, sizeof *m);
    leaf_table t;
    leaf_alphabet al;
    uint32_t lo[64];
    uint16_t class_of[64];
    int least = 0, most = EXPR_NO_MOST;
    if (!m) return err_set(e, ERR_NOMEM, where, -1, "an automaton of numbers");
    if (!set_machine(m, b) || b->divisor > LEAF_NUMBER_DIVISOR_MOST)
        return err_set(e, ERR_LIMIT, where, -1, "a bound or divisor of too many digits");
    if (!leaf_spend(work, LEAF_WORK_EACH))
        return err_set(e, ERR_LIMIT, where, -1, "too many automata");
    TRY(explore(a, work, m, where, &t, e));
    set_alphabet(&al, lo, class_of);
    return leaf_finish(result, a, work, &t, &al, LEAF_RAW, &least, &most, where, out, e);
}

status leaf_number_build(arena *result, int64_t *work, const number_bounds *b, const char *where,
                         const leaf **out, err *e)
{
    arena a;
    arena_init(&a, 0);
    status s = build(result, &a, work, b, where, out, e);
    arena_fini(&a);
    return s;
}
