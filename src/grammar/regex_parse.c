#include "grammar/regex_parse_priv.h"

#include <utf8proc.h>

#include "base/utf8.h"

typedef struct {
    arena *a;
    str s;
    size_t at;
    int depth;
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

static bool more(const reader *r)
{
    return r->at < r->s.len;
}

static char peek(const reader *r)
{
    return r->at < r->s.len ? r->s.ptr[r->at] : '\0';
}

static bool accept(reader *r, char c)
{
    if (!more(r) || r->s.ptr[r->at] != c) return false;
    r->at++;
    return true;
}

static int hex(str s, size_t at, int n, uint32_t *out)
{
    uint32_t v = 0;
    if (at + (size_t)n > s.len) return 0;
    for (int i = 0; i < n; i++) {
        char c = s.ptr[at + (size_t)i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0) return 0;
        v = v * 16 + (uint32_t)d;
    }
    *out = v;
    return n;
}

/* ECMAScript's white space and line ends. */
static void add_space(expr_set *set)
{
    static const expr_range space[] = {
        {9, 13},          {32, 32},         {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
        {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
    for (size_t i = 0; i < sizeof space / sizeof *space; i++)
        expr_set_add(set, space[i].lo, space[i].hi);
}

static void add_word(expr_set *set)
{
    expr_set_add(set, '0', '9');
    expr_set_add(set, 'A', 'Z');
    expr_set_add(set, 'a', 'z');
    expr_set_add(set, '_', '_');
}

static void add_other(expr_set *set, expr_set *part, bool negated)
{
    if (negated) expr_set_negate(part);
    for (int i = 0; i < part->n; i++) expr_set_add(set, part->ranges[i].lo, part->ranges[i].hi);
    set->failed |= part->failed;
}

/* Every code point whose general category begins with `name`. */
static bool add_category(expr_set *set, str name)
{
    static const char *const known =
        " L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po"
        " S Sm Sc Sk So Z Zs Zl Zp C Cc Cf Cs Co Cn ";
    char word[8] = {' '};
    uint32_t from = 0;
    bool inside = false;
    if (name.len < 1 || name.len > 2) return false;
    memcpy(word + 1, name.ptr, name.len);
    word[1 + name.len] = ' ';
    if (str_find(str_from(known), str_from(word), 0) < 0) return false;
    for (uint32_t cp = 0; cp <= EXPR_LAST_CP; cp++) {
        const char *category = utf8proc_category_string((utf8proc_int32_t)cp);
        bool is = memcmp(category, name.ptr, name.len) == 0;
        if (is && !inside) from = cp;
        if (!is && inside) expr_set_add(set, from, cp - 1);
        inside = is;
    }
    if (inside) expr_set_add(set, from, EXPR_LAST_CP);
    return true;
}

/* {Name}, {gc=Name} or {General_Category=Name} behind \p or \P. */
static int property(expr_set *part, str s, size_t at)
{
    static const struct {
        const char *name, *category;
    } words[] = {{"Letter", "L"},
                 {"Lowercase_Letter", "Ll"},
                 {"Uppercase_Letter", "Lu"},
                 {"Mark", "M"},
                 {"Number", "N"},
                 {"Decimal_Number", "Nd"},
                 {"digit", "Nd"},
                 {"Punctuation", "P"},
                 {"Symbol", "S"},
                 {"Separator", "Z"},
                 {"Other", "C"}};
    int64_t end = at < s.len && s.ptr[at] == '{' ? str_find(s, STR("}"), at) : -1;
    if (end < 0) return -1;
    str name = str_slice(s, at + 1, (size_t)end);
    int length = (int)name.len + 2;
    if (str_starts(name, STR("gc="))) name = str_skip(name, 3);
    if (str_starts(name, STR("General_Category="))) name = str_skip(name, 17);
    if (str_is(name, "Any")) {
        expr_set_add(part, 0, EXPR_LAST_CP);
        return length;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (str_is(name, words[i].name)) name = str_from(words[i].category);
    return add_category(part, name) ? length : -1;
}

int regex_class_escape(expr_set *set, str s, size_t at)
{
    expr_set part = {.a = set->a};
    char c = at < s.len ? s.ptr[at] : '\0';
    int length = 1;
    switch (c) {
    case 'd':
    case 'D': expr_set_add(&part, '0', '9'); break;
    case 'w':
    case 'W': add_word(&part); break;
    case 's':
    case 'S': add_space(&part); break;
    case 'p':
    case 'P': {
        int more_bytes = property(&part, s, at + 1);
        if (more_bytes < 0) return -1;
        length += more_bytes;
        break;
    }
    default: return 0;
    }
    add_other(set, &part, c == 'D' || c == 'W' || c == 'S' || c == 'P');
    return length;
}

/* A code point behind a backslash that stands for itself or by number; 0 bytes when refused. */
static int read_unicode_escape(str s, size_t at, uint32_t *cp)
{
    if (at < s.len && s.ptr[at] == '{') {
        for (int n = 1; n <= 6; n++)
            if (hex(s, at + 1, n, cp) && at + 1 + (size_t)n < s.len &&
                s.ptr[at + 1 + (size_t)n] == '}')
                return *cp <= EXPR_LAST_CP ? n + 2 : 0;
        return 0;
    }
    uint32_t low;
    if (!hex(s, at, 4, cp)) return 0;
    if (*cp >= 0xd800 && *cp < 0xdc00 && at + 6 < s.len && s.ptr[at + 4] == '\\' &&
        s.ptr[at + 5] == 'u' && hex(s, at + 6, 4, &low) && low >= 0xdc00 && low < 0xe000) {
        *cp = 0x10000 + ((*cp - 0xd800) << 10) + (low - 0xdc00);
        return 10;
    }
    return 4;
}

static bool is_letter_or_digit(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool parse_char_escape(reader *r, bool in_class, uint32_t *cp)
{
    static const char names[] = "tnvfr";
    static const char values[] = "\t\n\v\f\r";
    size_t at = r->at;
    char c = peek(r);
    if (!more(r)) return refuse(r, ERR_FORMAT, at, "a backslash at the end"), false;
    const char *found = c ? strchr(names, c) : NULL;
    if (found) {
        *cp = (uint32_t)values[found - names];
        r->at++;
        return true;
    }
    int n = 0;
    if (c == 'x') n = hex(r->s, at + 1, 2, cp);
    if (c == 'u') n = read_unicode_escape(r->s, at + 1, cp);
    if (n) {
        r->at += 1 + (size_t)n;
        return true;
    }
    if (c == 'c' && at + 1 < r->s.len && is_letter_or_digit(r->s.ptr[at + 1]) &&
        r->s.ptr[at + 1] > '9') {
        *cp = (uint32_t)(r->s.ptr[at + 1] & 31);
        r->at += 2;
        return true;
    }
    if (c == '0' && !(at + 1 < r->s.len && r->s.ptr[at + 1] >= '0' && r->s.ptr[at + 1] <= '9')) {
        *cp = 0;
        r->at++;
        return true;
    }
    if (c == 'b' && in_class) {
        *cp = 8;
        r->at++;
        return true;
    }
    if (c >= '1' && c <= '9') return refuse(r, ERR_UNSUPPORTED, at - 1, "a back reference"), false;
    if (c == 'k') return refuse(r, ERR_UNSUPPORTED, at - 1, "a named back reference"), false;
    if (c == 'b' || c == 'B') return refuse(r, ERR_UNSUPPORTED, at - 1, "a word boundary"), false;
    if (is_letter_or_digit(c)) return refuse(r, ERR_FORMAT, at - 1, "an unknown escape"), false;
    n = utf8_decode(r->s, at, cp);
    r->at += (size_t)n;
    return true;
}

/* One member of a class; *is_set when it was a set like \d, which cannot begin a range. */
static bool parse_class_atom(reader *r, expr_set *set, uint32_t *cp, bool *is_set)
{
    *is_set = false;
    if (accept(r, '\\')) {
        int n = regex_class_escape(set, r->s, r->at);
        if (n < 0)
            return refuse(r, ERR_UNSUPPORTED, r->at - 1, "an unknown character property"), false;
        if (n == 0) return parse_char_escape(r, true, cp);
        r->at += (size_t)n;
        *is_set = true;
        return true;
    }
    r->at += (size_t)utf8_decode(r->s, r->at, cp);
    return true;
}

static expr *parse_class(reader *r)
{
    expr_set set = {.a = r->a};
    size_t from = r->at - 1;
    bool negated = accept(r, '^');
    while (more(r) && peek(r) != ']') {
        uint32_t lo = 0, hi = 0;
        bool is_set, is_end_set;
        size_t at = r->at;
        if (!parse_class_atom(r, &set, &lo, &is_set)) return NULL;
        if (is_set) continue;
        if (peek(r) != '-' || r->at + 1 >= r->s.len || r->s.ptr[r->at + 1] == ']') {
            expr_set_add(&set, lo, lo);
            continue;
        }
        r->at++;
        if (!parse_class_atom(r, &set, &hi, &is_end_set)) return NULL;
        if (is_end_set) { /* [a-\d] is a, -, and the digits */
            expr_set_add(&set, lo, lo);
            expr_set_add(&set, '-', '-');
            continue;
        }
        if (hi < lo) return refuse(r, ERR_FORMAT, at, "a range that ends before it begins");
        expr_set_add(&set, lo, hi);
    }
    if (!accept(r, ']')) return refuse(r, ERR_FORMAT, from, "a class without its end");
    if (negated) expr_set_negate(&set);
    return expr_from_set(&set);
}

static expr *parse_group(reader *r)
{
    size_t from = r->at - 1;
    if (accept(r, '?')) {
        if (accept(r, '<')) {
            if (peek(r) == '=' || peek(r) == '!')
                return refuse(r, ERR_UNSUPPORTED, from, "looking back");
            int64_t end = str_find(r->s, STR(">"), r->at);
            if (end <= (int64_t)r->at) return refuse(r, ERR_FORMAT, from, "a group without a name");
            r->at = (size_t)end + 1;
        } else if (peek(r) == '=' || peek(r) == '!') {
            return refuse(r, ERR_UNSUPPORTED, from, "looking ahead");
        } else if (!accept(r, ':')) {
            return refuse(r, ERR_FORMAT, from, "an unknown kind of group");
        }
    }
    if (++r->depth > REGEX_DEPTH) return refuse(r, ERR_LIMIT, from, "too many nested groups");
    expr *e = parse_alternatives(r);
    r->depth--;
    if (e && !accept(r, ')')) return refuse(r, ERR_FORMAT, from, "a group without its end");
    return e;
}

static expr *parse_dot(reader *r)
{
    expr_set set = {.a = r->a};
    expr_set_add(&set, '\n', '\n');
    expr_set_add(&set, '\r', '\r');
    expr_set_add(&set, 0x2028, 0x2029);
    expr_set_negate(&set);
    return expr_from_set(&set);
}

static expr *parse_atom(reader *r)
{
    uint32_t cp = 0;
    char c = peek(r);
    switch (c) {
    case '(': r->at++; return parse_group(r);
    case '[': r->at++; return parse_class(r);
    case '.': r->at++; return parse_dot(r);
    case '^': r->at++; return expr_new(r->a, EXPR_START);
    case '$': r->at++; return expr_new(r->a, EXPR_END);
    case '*':
    case '+':
    case '?': return refuse(r, ERR_FORMAT, r->at, "a quantifier without anything before it");
    default: break;
    }
    if (accept(r, '\\')) {
        expr_set set = {.a = r->a};
        int n = regex_class_escape(&set, r->s, r->at);
        if (n < 0) return refuse(r, ERR_UNSUPPORTED, r->at - 1, "an unknown character property");
        if (n > 0) {
            r->at += (size_t)n;
            return expr_from_set(&set);
        }
        return parse_char_escape(r, false, &cp) ? expr_code_point(r->a, cp) : NULL;
    }
    r->at += (size_t)utf8_decode(r->s, r->at, &cp);
    return expr_code_point(r->a, cp);
}

/* Digits at r->at, at most REGEX_COUNT_MOST; -1 without digits, -2 when too large. */
static int read_count(reader *r)
{
    int64_t v = -1;
    while (peek(r) >= '0' && peek(r) <= '9') {
        v = (v < 0 ? 0 : v) * 10 + (peek(r) - '0');
        if (v > REGEX_COUNT_MOST) v = REGEX_COUNT_MOST + 1;
        r->at++;
    }
    return v > REGEX_COUNT_MOST ? -2 : (int)v;
}

/* {n}, {n,} or {n,m}; false leaves the text where it was: the brace is then a character. */
static bool read_bounds(reader *r, int *least, int *most)
{
    size_t from = r->at++;
    *least = read_count(r);
    *most = *least;
    if (*least != -1 && accept(r, ',')) {
        *most = peek(r) == '}' ? EXPR_NO_MOST : read_count(r);
        if (peek(r) != '}') *least = -1;
    }
    if (*least != -1 && accept(r, '}')) return true;
    r->at = from;
    return false;
}

static expr *parse_quantified(reader *r)
{
    size_t from = r->at;
    expr *e = parse_atom(r);
    if (!e || !more(r)) return e;
    int least = 0, most = EXPR_NO_MOST;
    size_t at = r->at;
    switch (peek(r)) {
    case '*': r->at++; break;
    case '+': r->at++, least = 1; break;
    case '?': r->at++, most = 1; break;
    case '{':
        if (!read_bounds(r, &least, &most)) return e;
        break;
    default: return e;
    }
    if (least == -2 || most == -2) return refuse(r, ERR_LIMIT, at, "a repetition beyond 20000");
    if (most >= 0 && most < least)
        return refuse(r, ERR_FORMAT, at, "a repetition that ends before it begins");
    if (e->kind == EXPR_START || e->kind == EXPR_END)
        return refuse(r, ERR_FORMAT, from, "a repeated anchor");
    accept(r, '?');
    return expr_repeat(r->a, e, least, most);
}

/* A list that grows in the arena; push fails without memory. */
typedef struct {
    expr **items;
    int n, cap;
} expr_items;

static bool push(reader *r, expr_items *l, expr *e)
{
    if (!e) return false;
    if (l->n == l->cap) {
        int cap = l->cap ? l->cap * 2 : 8;
        expr **grown = arena_new_array(r->a, (size_t)cap, sizeof *grown);
        if (!grown) return false;
        if (l->n) memcpy(grown, l->items, (size_t)l->n * sizeof *grown);
        l->items = grown;
        l->cap = cap;
    }
    l->items[l->n++] = e;
    return true;
}

static expr *parse_sequence(reader *r)
{
    expr_items l = {0};
    while (more(r) && peek(r) != '|' && peek(r) != ')')
        if (!push(r, &l, parse_quantified(r))) return NULL;
    return expr_list(r->a, EXPR_CAT, l.items, l.n);
}

static expr *parse_alternatives(reader *r)
{
    expr_items l = {0};
    do {
        if (!push(r, &l, parse_sequence(r))) return NULL;
    } while (accept(r, '|'));
    return expr_list(r->a, EXPR_ALT, l.items, l.n);
}

status regex_parse(arena *a, str text, const char *where, expr **out, err *e)
{
    reader r = {.a = a, .s = text};
    int64_t bad = utf8_check(text);
    if (bad >= 0) return err_set(e, ERR_FORMAT, where, (long)bad, "the pattern is no UTF-8");
    if (text.len > REGEX_BYTES_MOST)
        return err_set(e, ERR_LIMIT, where, -1, "a pattern of more than %d bytes",
                       REGEX_BYTES_MOST);
    expr *tree = parse_alternatives(&r);
    if (tree && more(&r)) {
        tree = NULL;
        refuse(&r, ERR_FORMAT, r.at, "a closing parenthesis without its group");
    }
    if (tree) {
        *out = tree;
        return ERR_OK;
    }
    if (r.failed == ERR_OK) return err_set(e, ERR_NOMEM, where, -1, "the pattern's tree");
    return err_set(e, r.failed, where, (long)r.failed_at, "regular expression: %s", r.why);
}
