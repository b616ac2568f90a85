#include "base/hash.h"
#include "base/utf8.h"
#include "grammar/gbnf_priv.h"

enum { COUNT_MOST = 100000 };

typedef struct {
    arena *a;
    str s;
    size_t at;
    int depth;
    gbnf_rules rules;
    int *slots; /* hash of names: rule + 1 */
    int n_slots;
    status failed;
    size_t failed_at;
    const char *why;
} reader;

static expr *parse_alternatives(reader *r);

static expr *refuse(reader *r, status s, size_t at, const char *why)
{
    if (r->failed == ERR_OK) {
        r->failed = s;
        r->failed_at = at;
        r->why = why;
    }
    return NULL;
}

static char peek(const reader *r)
{
    return r->at < r->s.len ? r->s.ptr[r->at] : '\0';
}

static void skip_space(reader *r)
{
    while (r->at < r->s.len) {
        char c = r->s.ptr[r->at];
        if (c == '#') {
            while (r->at < r->s.len && r->s.ptr[r->at] != '\n') r->at++;
        } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            r->at++;
        } else {
            return;
        }
    }
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static str read_name(reader *r)
{
    size_t from = r->at;
    while (is_name(peek(r))) r->at++;
    return str_slice(r->s, from, r->at);
}

/* Whether `name ::=` stands here. */
static bool at_rule(reader *r)
{
    size_t from = r->at;
    bool is = read_name(r).len > 0;
    skip_space(r);
    is = is && str_starts(str_skip(r->s, r->at), STR("::="));
    r->at = from;
    return is;
}

static bool rehash(reader *r)
{
    int n_slots = r->rules.cap * 2;
    int *slots = arena_new_array(r->a, (size_t)n_slots, sizeof *slots);
    if (!slots) return false;
    for (int i = 0; i < r->rules.n; i++) {
        int at = (int)(hash_str(r->rules.rules[i].name, 0) % (uint64_t)n_slots);
        while (slots[at]) at = (at + 1) % n_slots;
        slots[at] = i + 1;
    }
    r->slots = slots;
    r->n_slots = n_slots;
    return true;
}

/* The rule of that name, new when it is not known yet; -1 on failure. */
static int find_rule(reader *r, str name, size_t pos)
{
    if (r->rules.n == r->rules.cap) {
        int cap = r->rules.cap ? r->rules.cap * 2 : 64;
        gbnf_rule *more = arena_new_array(r->a, (size_t)cap, sizeof *more);
        if (cap > 2 * GBNF_RULES_MOST) return refuse(r, ERR_LIMIT, pos, "too many rules"), -1;
        if (!more) return -1;
        if (r->rules.n) memcpy(more, r->rules.rules, (size_t)r->rules.n * sizeof *more);
        r->rules.rules = more;
        r->rules.cap = cap;
        if (!rehash(r)) return -1;
    }
    int at = (int)(hash_str(name, 0) % (uint64_t)r->n_slots);
    for (; r->slots[at]; at = (at + 1) % r->n_slots)
        if (str_equal(r->rules.rules[r->slots[at] - 1].name, name)) return r->slots[at] - 1;
    r->rules.rules[r->rules.n] = (gbnf_rule){name, NULL, (int64_t)pos};
    r->slots[at] = ++r->rules.n;
    return r->rules.n - 1;
}

static bool read_hex(reader *r, int n, uint32_t *out)
{
    uint32_t v = 0;
    for (int i = 0; i < n; i++) {
        char c = peek(r);
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0 || v >> 24) return false;
        v = v * 16 + (uint32_t)d;
        r->at++;
    }
    *out = v;
    return v <= EXPR_LAST_CP && !(v >= 0xd800 && v < 0xe000);
}

/* One character of a text or class, with its escapes. */
static bool read_char(reader *r, uint32_t *cp)
{
    static const char names[] = "nrt", values[] = "\n\r\t";
    size_t from = r->at;
    if (peek(r) != '\\') {
        r->at += (size_t)utf8_decode(r->s, r->at, cp);
        return true;
    }
    r->at++;
    char c = peek(r);
    if (r->at == r->s.len) return refuse(r, ERR_FORMAT, from, "a backslash at the end"), false;
    r->at++;
    const char *found = c ? strchr(names, c) : NULL;
    if (found) {
        *cp = (uint32_t)values[found - names];
        return true;
    }
    if (c == 'x' || c == 'u' || c == 'U') {
        if (read_hex(r, c == 'x' ? 2 : c == 'u' ? 4 : 8, cp)) return true;
        return refuse(r, ERR_FORMAT, from, "a number of a character is wrong"), false;
    }
    *cp = (uint32_t)(unsigned char)c;
    if (c && strchr("\\\"[]-^/.", c)) return true;
    return refuse(r, ERR_FORMAT, from, "an unknown escape"), false;
}

static expr *parse_text(reader *r)
{
    size_t from = r->at++, n = 0;
    expr **items = NULL;
    size_t cap = 0;
    while (r->at < r->s.len && peek(r) != '"') {
        uint32_t cp;
        if (!read_char(r, &cp)) return NULL;
        if (n == cap) {
            cap = cap * 2 + 16;
            expr **more = arena_new_array(r->a, cap, sizeof *more);
            if (!more) return NULL;
            if (n) memcpy(more, items, n * sizeof *more);
            items = more;
        }
        items[n++] = expr_code_point(r->a, cp);
    }
    if (peek(r) != '"') return refuse(r, ERR_FORMAT, from, "a text without its end");
    r->at++;
    return expr_list(r->a, EXPR_CAT, items, (int)n);
}

static expr *parse_class(reader *r)
{
    expr_set set = {.a = r->a};
    size_t from = r->at++;
    bool is_negated = peek(r) == '^';
    if (is_negated) r->at++;
    while (r->at < r->s.len && peek(r) != ']') {
        uint32_t lo, hi;
        size_t at = r->at;
        if (!read_char(r, &lo)) return NULL;
        hi = lo;
        if (peek(r) == '-' && r->at + 1 < r->s.len && r->s.ptr[r->at + 1] != ']') {
            r->at++;
            if (!read_char(r, &hi)) return NULL;
        }
        if (hi < lo) return refuse(r, ERR_FORMAT, at, "a range that ends before it begins");
        expr_set_add(&set, lo, hi);
    }
    if (peek(r) != ']') return refuse(r, ERR_FORMAT, from, "a class without its end");
    r->at++;
    if (is_negated) expr_set_negate(&set);
    return expr_from_set(&set);
}

static expr *parse_element(reader *r)
{
    size_t from = r->at;
    char c = peek(r);
    if (c == '"') return parse_text(r);
    if (c == '[') return parse_class(r);
    if (c == '.') {
        r->at++;
        return expr_any(r->a);
    }
    if (c == '(') {
        if (++r->depth > GBNF_DEPTH) return refuse(r, ERR_LIMIT, from, "too many nested groups");
        r->at++;
        expr *e = parse_alternatives(r);
        r->depth--;
        if (e && peek(r) != ')') return refuse(r, ERR_FORMAT, from, "a group without its end");
        r->at++;
        return e;
    }
    if (!is_name(c)) return refuse(r, ERR_FORMAT, from, "not an element of a rule");
    int rule = find_rule(r, read_name(r), from);
    expr *e = rule < 0 ? NULL : expr_new(r->a, EXPR_RULE);
    if (e) e->id = rule;
    return e;
}

static int read_count(reader *r)
{
    int v = -1;
    while (peek(r) >= '0' && peek(r) <= '9') {
        v = (v < 0 ? 0 : v) * 10 + (peek(r) - '0');
        if (v > COUNT_MOST) v = COUNT_MOST + 1;
        r->at++;
    }
    return v;
}

static bool read_bounds(reader *r, int *least, int *most)
{
    size_t from = r->at++;
    skip_space(r);
    *least = read_count(r);
    skip_space(r);
    *most = *least;
    if (peek(r) == ',') {
        r->at++;
        skip_space(r);
        *most = read_count(r);
        if (*most < 0) *most = EXPR_NO_MOST;
        if (*least < 0) *least = 0;
        skip_space(r);
    }
    if (*least < 0 || peek(r) != '}')
        return refuse(r, ERR_FORMAT, from, "bounds are {n}, {n,} or {n,m}"), false;
    r->at++;
    if (*least > COUNT_MOST || *most > COUNT_MOST)
        return refuse(r, ERR_LIMIT, from, "a repetition beyond 100000"), false;
    if (*most >= 0 && *most < *least)
        return refuse(r, ERR_FORMAT, from, "a repetition that ends before it begins"), false;
    return true;
}

static expr *parse_quantified(reader *r)
{
    expr *e = parse_element(r);
    for (int n = 0; e; n++) {
        int least = 0, most = EXPR_NO_MOST;
        skip_space(r);
        char c = peek(r);
        if (c != '*' && c != '+' && c != '?' && c != '{') return e;
        if (n == GBNF_DEPTH) return refuse(r, ERR_LIMIT, r->at, "too many repetitions of one");
        if (c == '{') {
            if (!read_bounds(r, &least, &most)) return NULL;
        } else {
            r->at++;
            least = c == '+';
            if (c == '?') most = 1;
        }
        e = expr_repeat(r->a, e, least, most);
    }
    return NULL;
}

/* Elements up to the next | or ), or to the next rule. */
static expr *parse_sequence(reader *r)
{
    expr **items = NULL;
    int n = 0, cap = 0;
    skip_space(r);
    while (r->at < r->s.len && peek(r) != '|' && peek(r) != ')' && !at_rule(r)) {
        expr *e = parse_quantified(r);
        if (!e) return NULL;
        if (n == cap) {
            cap = cap * 2 + 8;
            expr **more = arena_new_array(r->a, (size_t)cap, sizeof *more);
            if (!more) return NULL;
            if (n) memcpy(more, items, (size_t)n * sizeof *more);
            items = more;
        }
        items[n++] = e;
        skip_space(r);
    }
    return expr_list(r->a, EXPR_CAT, items, n);
}

static expr *parse_alternatives(reader *r)
{
    expr *items[64], *left = NULL;
    int n = 0;
    for (;;) {
        items[n] = parse_sequence(r);
        if (!items[n++]) return NULL;
        if (peek(r) != '|') break;
        r->at++;
        if (n == 64) {
            expr *full = expr_list(r->a, EXPR_ALT, items, n);
            left = left ? expr_pair(r->a, EXPR_ALT, left, full) : full;
            n = 0;
        }
    }
    expr *last = expr_list(r->a, EXPR_ALT, items, n);
    return left ? expr_pair(r->a, EXPR_ALT, left, last) : last;
}

static bool parse_rule(reader *r)
{
    size_t from = r->at;
    str name = read_name(r);
    skip_space(r);
    if (name.len == 0 || !str_starts(str_skip(r->s, r->at), STR("::=")))
        return refuse(r, ERR_FORMAT, from, "a rule begins with its name and ::="), false;
    r->at += 3;
    int rule = find_rule(r, name, from);
    if (rule < 0) return false;
    if (r->rules.rules[rule].body)
        return refuse(r, ERR_FORMAT, from, "the rule has two definitions"), false;
    expr *body = parse_alternatives(r);
    if (!body) return false;
    if (peek(r) == ')')
        return refuse(r, ERR_FORMAT, r->at, "a closing parenthesis without its group"), false;
    r->rules.rules[rule].body = body;
    return true;
}

status gbnf_parse(arena *a, str text, gbnf_rules *out, err *e)
{
    reader r = {.a = a, .s = text};
    int64_t bad = utf8_check(text);
    if (text.len > GBNF_BYTES_MOST)
        return err_set(e, ERR_LIMIT, "grammar", -1, "more than %d bytes", GBNF_BYTES_MOST);
    if (bad >= 0) return err_set(e, ERR_FORMAT, "grammar", (long)bad, "the grammar is no UTF-8");
    bool ok = true;
    for (skip_space(&r); ok && r.at < text.len; skip_space(&r)) ok = parse_rule(&r);
    if (ok && r.rules.n == 0) {
        refuse(&r, ERR_FORMAT, 0, "there is no rule");
        ok = false;
    }
    for (int i = 0; ok && i < r.rules.n; i++) {
        if (str_is(r.rules.rules[i].name, "root")) r.rules.start = i;
        if (!r.rules.rules[i].body) {
            refuse(&r, ERR_FORMAT, (size_t)r.rules.rules[i].pos, "a rule that is not defined");
            ok = false;
        }
    }
    if (ok) {
        *out = r.rules;
        return ERR_OK;
    }
    if (r.failed == ERR_OK) return err_set(e, ERR_NOMEM, "grammar", -1, "a grammar's rules");
    return err_set(e, r.failed, "grammar", (long)r.failed_at, "%s", r.why);
}
