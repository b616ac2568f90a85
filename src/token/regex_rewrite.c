#include "token/regex_rewrite_priv.h"

#include <ctype.h>

#include "base/utf8.h"
#include "token/unicode_priv.h"

enum { NESTING_CAP = 32 };

typedef struct {
    str s;
    size_t at;
    buf *out;
    const char *name;
    err *e;
    int depth;                  /* open groups */
    bool caseless[NESTING_CAP]; /* (?i: at each depth */
    uint32_t last_literal;      /* the code point just written, 0 after anything else */
} rewriter;

static status refuse(rewriter *r, size_t pos, const char *what)
{
    return err_set(r->e, ERR_UNSUPPORTED, r->name, (long)pos,
                   "pre-tokeniser pattern: %s at byte %zu is not supported", what, pos);
}

static status broken(rewriter *r)
{
    return err_set(r->e, ERR_FORMAT, r->name, (long)r->at,
                   "pre-tokeniser pattern breaks off at byte %zu", r->at);
}

static bool is_at(const rewriter *r, char c)
{
    return r->at < r->s.len && r->s.ptr[r->at] == c;
}

static bool take(rewriter *r, const char *text)
{
    str t = str_from(text);
    if (!str_starts(str_skip(r->s, r->at), t)) return false;
    r->at += t.len;
    return true;
}

static bool is_caseless(const rewriter *r)
{
    return r->depth > 0 && r->caseless[r->depth - 1];
}

/* Oniguruma lets two letters match one (ss and the sharp s); PCRE2 does not. Only these pairs of
 * ASCII letters are such. */
static bool folds_to_one(uint32_t first, uint32_t second)
{
    static const char pairs[][3] = {"ss", "ff", "fi", "fl", "st"};
    if (first >= 0x80 || second >= 0x80) return false;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (tolower((int)first) == pairs[i][0] && tolower((int)second) == pairs[i][1]) return true;
    return false;
}

static status put_literal(rewriter *r, size_t pos, uint32_t cp)
{
    if (is_caseless(r) && (cp >= 0x80 || folds_to_one(r->last_literal, cp)))
        return refuse(r, pos, "a letter that case folding changes the length of");
    r->last_literal = cp;
    if (cp < 0x80 && isalnum((int)cp))
        buf_put_byte(r->out, (char)cp);
    else
        buf_printf(r->out, "\\x{%x}", (unsigned)cp);
    return ERR_OK;
}

/* n_min to n_max hex digits. */
static status read_hex(rewriter *r, int n_min, int n_max, uint32_t *cp)
{
    uint32_t v = 0;
    int n = 0;
    for (; n < n_max && r->at < r->s.len && isxdigit((unsigned char)r->s.ptr[r->at]);
         n++, r->at++) {
        char c = r->s.ptr[r->at];
        v = v << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    if (n < n_min) return broken(r);
    *cp = v;
    return ERR_OK;
}

/* Behind a backslash, at x or u. */
static status read_code_point(rewriter *r, uint32_t *cp)
{
    size_t pos = r->at - 1;
    if (take(r, "x{")) {
        TRY(read_hex(r, 1, 6, cp));
        if (!take(r, "}")) return broken(r);
    } else if (take(r, "u")) {
        TRY(read_hex(r, 4, 4, cp));
    } else {
        r->at++;
        TRY(read_hex(r, 2, 2, cp));
        if (*cp >= 0x80) return refuse(r, pos, "a raw byte");
    }
    if (*cp > 0x10ffff || (*cp >= 0xd800 && *cp <= 0xdfff))
        return refuse(r, pos, "a number that is no character");
    return ERR_OK;
}

/* Behind a backslash: a character that stands for one code point. */
static status read_escaped_literal(rewriter *r, uint32_t *cp)
{
    static const char letters[] = "rntfv", values[] = "\r\n\t\f\v";
    char c = r->s.ptr[r->at];
    const char *found = memchr(letters, c, sizeof letters - 1);
    if (c == 'x' || c == 'u') return read_code_point(r, cp);
    if (found) {
        *cp = (unsigned char)values[found - letters];
    } else if (ispunct((unsigned char)c) || c == ' ') {
        *cp = (unsigned char)c;
    } else {
        return refuse(r, r->at - 1, "this escape");
    }
    r->at++;
    return ERR_OK;
}

/* One character that is itself, read as UTF-8. */
static status read_plain(rewriter *r, uint32_t *cp)
{
    int n = utf8_decode(r->s, r->at, cp);
    if (n == 0) return refuse(r, r->at, "ill-formed UTF-8");
    r->at += (size_t)n;
    return ERR_OK;
}

static bool is_category(str name)
{
    static const char known[][3] = {"L",  "M",  "N",  "P",  "S",  "Z",  "Lu", "Ll", "Lt",
                                    "Lm", "Lo", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd",
                                    "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So",
                                    "Zs", "Zl", "Zp", "Cc", "Cf", "Co"};
    /* Not Cn, C and Mn: Unicode 16 took code points out of them, which a class cannot say. */
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (str_is(name, known[i])) return true;
    return false;
}

/* \p{name} and what Unicode 16 added to it; for use inside a class. */
static void put_category(rewriter *r, str name)
{
    buf_printf(r->out, "\\p{%.*s}", STR_ARG(name));
    for (int i = 0; i < unicode_n_added; i++) {
        if (memcmp(unicode_added[i].category, name.ptr, name.len) != 0) continue;
        buf_printf(r->out, "\\x{%x}-\\x{%x}", (unsigned)unicode_added[i].first,
                   (unsigned)unicode_added[i].last);
    }
}

/* Behind a backslash, at a letter that stands for a set of characters. */
static status rewrite_set(rewriter *r, bool in_class)
{
    size_t pos = r->at - 1;
    char c = r->s.ptr[r->at++];
    if (c == 's' || c == 'S') {
        buf_put_c(r->out, c == 's' ? "\\p{White_Space}" : "\\P{White_Space}");
        return ERR_OK;
    }
    bool is_negated = c == 'D' || c == 'P';
    str name = STR("Nd");
    if (c == 'p' || c == 'P') {
        if (!take(r, "{")) return refuse(r, pos, "a property without braces");
        if (take(r, "^")) is_negated = !is_negated;
        int64_t close = str_find(r->s, STR("}"), r->at);
        if (close < 0) return broken(r);
        name = str_slice(r->s, r->at, (size_t)close);
        if (!is_category(name)) return refuse(r, pos, "this property");
        r->at = (size_t)close + 1;
    }
    if (is_caseless(r)) return refuse(r, pos, "a property in a caseless group");
    if (is_negated && in_class) return refuse(r, pos, "a negated property in a class");
    if (!in_class) buf_put_c(r->out, is_negated ? "[^" : "[");
    put_category(r, name);
    if (!in_class) buf_put_byte(r->out, ']');
    return ERR_OK;
}

static bool is_set_letter(const rewriter *r)
{
    return r->at < r->s.len && r->s.ptr[r->at] && strchr("sSdDpP", r->s.ptr[r->at]);
}

/* A set, which is written at once, or a literal of a class, escaped or not, as a code point. */
static status read_class_item(rewriter *r, bool *is_set, uint32_t *cp)
{
    size_t pos = r->at;
    if (r->at == r->s.len) return broken(r);
    *is_set = false;
    if (take(r, "\\")) {
        if (r->at == r->s.len) return broken(r);
        *is_set = is_set_letter(r);
        return *is_set ? rewrite_set(r, true) : read_escaped_literal(r, cp);
    }
    if (is_at(r, '[')) return refuse(r, pos, "a class in a class");
    if (str_starts(str_skip(r->s, pos), STR("&&"))) return refuse(r, pos, "an intersection");
    return read_plain(r, cp);
}

/* A hyphen that does not end the class. */
static bool is_at_range(const rewriter *r)
{
    return is_at(r, '-') && !str_starts(str_skip(r->s, r->at), STR("-]"));
}

/* Behind the opening bracket. A hyphen is itself only as the first or the last of the class. */
static status rewrite_class(rewriter *r)
{
    buf_put_c(r->out, take(r, "^") ? "[^" : "[");
    if (is_at(r, ']')) return refuse(r, r->at, "an empty class");
    for (bool is_first = true; !take(r, "]"); is_first = false) {
        size_t pos = r->at;
        uint32_t first = 0, last;
        bool is_set;
        if (!is_first && is_at_range(r)) return refuse(r, pos, "a hyphen here");
        TRY(read_class_item(r, &is_set, &first));
        last = first;
        if (is_at_range(r)) {
            r->at++;
            bool is_set_too;
            TRY(read_class_item(r, &is_set_too, &last));
            if (is_set || is_set_too) return refuse(r, pos, "a range from or to a set");
        }
        if (is_set) continue;
        if (last < first) return refuse(r, pos, "a range from high to low");
        if (is_caseless(r) && last >= 0x80) return refuse(r, pos, "case folding beyond ASCII");
        buf_printf(r->out, "\\x{%x}", (unsigned)first);
        if (last > first) buf_printf(r->out, "-\\x{%x}", (unsigned)last);
    }
    buf_put_byte(r->out, ']');
    return ERR_OK;
}

/* Behind the opening parenthesis. */
static status open_group(rewriter *r)
{
    static const char *const heads[] = {"?:", "?i:", "?=", "?!", "?<=", "?<!", "?>"};
    size_t pos = r->at - 1;
    const char *head = NULL;
    for (size_t i = 0; i < sizeof heads / sizeof heads[0] && !head; i++)
        if (take(r, heads[i])) head = heads[i];
    if (!head && is_at(r, '?')) return refuse(r, pos, "this kind of group");
    if (r->depth == NESTING_CAP) return refuse(r, pos, "deeper nesting");
    bool inherited = is_caseless(r);
    r->caseless[r->depth++] = inherited || (head && str_is(STR("?i:"), head));
    buf_printf(r->out, "(%s", head ? head : "?:");
    return ERR_OK;
}

/* {n}, {n,}, {n,m} or {,m}, behind the brace; *is_exact for the first. */
static status rewrite_count(rewriter *r, bool *is_exact)
{
    size_t pos = r->at - 1;
    int64_t close = str_find(r->s, STR("}"), r->at);
    if (close < 0) return broken(r);
    str text = str_slice(r->s, r->at, (size_t)close);
    int64_t comma = str_find(text, STR(","), 0), low = 0, high = -1;
    str a = comma < 0 ? text : str_slice(text, 0, (size_t)comma);
    str b = comma < 0 ? text : str_skip(text, (size_t)comma + 1);
    if ((a.len > 0 && !str_to_int64(a, &low)) || (b.len > 0 && !str_to_int64(b, &high)) ||
        (a.len == 0 && b.len == 0) || low < 0 || low > 1000 || high > 1000 ||
        (b.len > 0 && high < low))
        return refuse(r, pos, "this count");
    r->at = (size_t)close + 1;
    *is_exact = comma < 0;
    if (b.len == 0)
        buf_printf(r->out, "{%d,}", (int)low);
    else
        buf_printf(r->out, "{%d,%d}", (int)low, (int)high);
    return ERR_OK;
}

/* At * + ? or {, of which there may be none. In Oniguruma's Ruby syntax + behind {} repeats the
 * repetition, and ? behind {n} makes it optional; PCRE2 reads both otherwise. */
static status rewrite_quantifier(rewriter *r, bool is_allowed)
{
    size_t pos = r->at;
    bool is_count = false, is_exact = false;
    if (take(r, "{")) {
        if (!is_allowed) return refuse(r, pos, "a count of nothing");
        is_count = true;
        TRY(rewrite_count(r, &is_exact));
    } else if (is_at(r, '*') || is_at(r, '+') || is_at(r, '?')) {
        if (!is_allowed) return refuse(r, pos, "a quantifier of nothing");
        buf_put_byte(r->out, r->s.ptr[r->at++]);
    } else {
        return ERR_OK;
    }
    r->last_literal = 0;
    if (is_at(r, '+') || is_at(r, '?')) {
        if (is_count && (is_exact || is_at(r, '+'))) return refuse(r, r->at, "this mark");
        buf_put_byte(r->out, r->s.ptr[r->at++]);
    }
    if (is_at(r, '*') || is_at(r, '+') || is_at(r, '?') || is_at(r, '{'))
        return refuse(r, r->at, "a quantifier of a quantifier");
    return ERR_OK;
}

/* One item of the pattern with its quantifier. */
static status rewrite_item(rewriter *r)
{
    size_t pos = r->at;
    uint32_t cp;
    char c = r->s.ptr[r->at];
    if (c == '|' || c == '(') {
        r->at++;
        r->last_literal = 0;
        if (c == '(') return open_group(r);
        buf_put_byte(r->out, c);
        return ERR_OK;
    }
    if (c == '^' || c == '$') return refuse(r, pos, "an anchor");
    if (c == ']' || c == '}') return refuse(r, pos, "a closing bracket without its opening one");
    if (c == ')') {
        if (r->depth == 0) return refuse(r, pos, "a closing parenthesis too many");
        r->depth--;
        r->at++;
        r->last_literal = 0;
        buf_put_byte(r->out, c);
    } else if (c == '.' || c == '[') {
        r->at++;
        r->last_literal = 0;
        if (c == '.')
            buf_put_c(r->out, "[^\\n]");
        else
            TRY(rewrite_class(r));
    } else if (c == '\\') {
        if (++r->at == r->s.len) return broken(r);
        if (is_set_letter(r)) {
            r->last_literal = 0;
            TRY(rewrite_set(r, false));
        } else {
            TRY(read_escaped_literal(r, &cp));
            TRY(put_literal(r, pos, cp));
        }
    } else if (c == '*' || c == '+' || c == '?' || c == '{') {
        return rewrite_quantifier(r, false);
    } else {
        TRY(read_plain(r, &cp));
        TRY(put_literal(r, pos, cp));
    }
    return rewrite_quantifier(r, true);
}

status regex_rewrite(str pattern, const char *name, buf *out, err *e)
{
    rewriter r = {.s = pattern, .out = out, .name = name, .e = e};
    if (pattern.len > REGEX_PATTERN_CAP)
        return err_set(e, ERR_UNSUPPORTED, name, -1, "pre-tokeniser pattern: %zu bytes, at most %d",
                       pattern.len, REGEX_PATTERN_CAP);
    while (r.at < pattern.len) TRY(rewrite_item(&r));
    if (r.depth > 0) return broken(&r);
    if (out->failed) return err_set(e, ERR_NOMEM, name, -1, "no memory for a pattern");
    return ERR_OK;
}
