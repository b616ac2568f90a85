/* The rules are those of jinja2 with trim_blocks and lstrip_blocks on and no line statements.
 *
 * Two states: in the root, text runs up to the next tag; inside a tag there are ordinary tokens,
 * and a closing delimiter counts only while no bracket is open. */
#include "chat/jinja_lex_priv.h"

#include "base/utf8.h"
#include "chat/jinja_string_priv.h"
#include "chat/jinja_unicode_priv.h"

typedef struct {
    const jsource *src;
    str s;
    size_t at;
    arena *a;
    jnames *names;
    jtoken *tokens;
    int n, cap;
    bool at_line_start; /* the last match ended with a newline, or nothing was read yet */
    char open[JINJA_NEST_MOST];
    size_t open_at[JINJA_NEST_MOST];
    int n_open;
} lexer;

const char *jtoken_describe(jtoken_type t)
{
    static const char *const names[] = {
        "end of template",
        "template data",
        "begin of print statement",
        "end of print statement",
        "begin of statement block",
        "end of statement block",
        "name",
        "string",
        "integer",
        "float",
        "+",
        "-",
        "/",
        "//",
        "*",
        "%",
        "**",
        "~",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        "==",
        "!=",
        ">",
        ">=",
        "<",
        "<=",
        "=",
        ".",
        ":",
        "|",
        ",",
        ";",
    };
    return names[t];
}

static status add_token(lexer *l, jtoken_type type, size_t pos, const jtext *text, int name)
{
    if (l->n == l->cap) {
        int cap = l->cap ? l->cap * 2 : 256;
        jtoken *tokens = arena_new_array(l->a, (size_t)cap, sizeof *tokens);
        if (!tokens) return jsource_fail(l->src, ERR_NOMEM, (int64_t)pos, "no memory for tokens");
        if (l->n) memcpy(tokens, l->tokens, (size_t)l->n * sizeof *tokens);
        l->tokens = tokens;
        l->cap = cap;
    }
    l->tokens[l->n++] = (jtoken){(uint8_t)type, (int32_t)pos, name, text};
    return ERR_OK;
}

static status add_text(lexer *l, jtoken_type type, size_t pos, str s)
{
    const jtext *t = jtext_new(l->a, s, false);
    if (!t) return jsource_fail(l->src, ERR_NOMEM, (int64_t)pos, "no memory for text");
    return add_token(l, type, pos, t, 0);
}

static bool looking_at(const lexer *l, size_t at, const char *text)
{
    return at <= l->s.len && str_starts(str_skip(l->s, at), str_from(text));
}

static size_t skip_space(const lexer *l, size_t at)
{
    uint32_t cp;
    while (at < l->s.len) {
        int n = junicode_at(l->s, at, &cp);
        if (!junicode_is_space(cp)) break;
        at += (size_t)n;
    }
    return at;
}

static void move_to(lexer *l, size_t at)
{
    l->at_line_start = at > 0 && l->s.ptr[at - 1] == '\n';
    l->at = at;
}

/* The end of a closing delimiter of `kind` ('%', '}' or '#') at `at`, or 0. A plain one takes one
 * newline with it except after a print statement, one with a minus all white space. */
static size_t match_close(const lexer *l, size_t at, char kind)
{
    char plain[3] = {kind, '}', 0}, minus[4] = {'-', kind, '}', 0}, plus[4] = {'+', kind, '}', 0};
    if (looking_at(l, at, minus)) return skip_space(l, at + 3);
    if (kind != '}' && looking_at(l, at, plus)) return at + 3;
    if (!looking_at(l, at, plain)) return 0;
    return at + 2 + (kind != '}' && looking_at(l, at + 2, "\n"));
}

/* Emit source text [from, to), cut as the tag that follows it asks: `sign` is '-', '+' or 0. */
static status add_data(lexer *l, size_t from, size_t to, char sign, bool is_print)
{
    size_t end = to;
    uint32_t cp;
    if (sign == '-') {
        while (end > from) {
            size_t at = junicode_before(l->s, end);
            junicode_at(l->s, at, &cp);
            if (!junicode_is_space(cp)) break;
            end = at < from ? from : at;
        }
    } else if (sign != '+' && !is_print) {
        size_t line = to;
        while (line > from && l->s.ptr[line - 1] != '\n') line--;
        if ((line > from || l->at_line_start) && line < to && skip_space(l, line) >= to) end = line;
    }
    if (end == from) return ERR_OK;
    return add_text(l, JTOKEN_DATA, from, str_slice(l->s, from, end));
}

static char sign_at(const lexer *l, size_t at)
{
    return at < l->s.len && (l->s.ptr[at] == '-' || l->s.ptr[at] == '+') ? l->s.ptr[at] : 0;
}

/* The end of "{% raw %}" at `at`, or 0. */
static size_t match_raw(const lexer *l, size_t at)
{
    at += 2;
    if (sign_at(l, at)) at++;
    at = skip_space(l, at);
    if (!looking_at(l, at, "raw")) return 0;
    at = skip_space(l, at + 3);
    if (looking_at(l, at, "-%}")) return skip_space(l, at + 3);
    return looking_at(l, at, "%}") ? at + 2 : 0;
}

static status lex_raw(lexer *l, size_t begin)
{
    for (size_t at = l->at; at < l->s.len; at++) {
        if (!looking_at(l, at, "{%")) continue;
        char sign = sign_at(l, at + 2);
        size_t word = skip_space(l, at + 2 + (sign != 0));
        if (!looking_at(l, word, "endraw")) continue;
        size_t end = match_close(l, skip_space(l, word + 6), '%');
        if (!end) continue;
        TRY(add_data(l, l->at, at, sign, false));
        move_to(l, end);
        return ERR_OK;
    }
    return jsource_fail(l->src, ERR_FORMAT, (int64_t)begin, "missing end of raw directive");
}

static status lex_comment(lexer *l, size_t begin)
{
    for (size_t at = l->at; at < l->s.len; at++) {
        size_t end = match_close(l, at, '#');
        if (!end) continue;
        move_to(l, end);
        return ERR_OK;
    }
    return jsource_fail(l->src, ERR_FORMAT, (int64_t)begin, "missing end of comment tag");
}

/* \d+(_\d+)* at `at`; its end, or `at`. */
static size_t match_digits(const lexer *l, size_t at)
{
    size_t end = at;
    for (;;) {
        size_t from = end;
        if (from > at && looking_at(l, from, "_")) from++;
        size_t to = from;
        while (to < l->s.len && l->s.ptr[to] >= '0' && l->s.ptr[to] <= '9') to++;
        if (to == from) return end;
        end = to;
    }
}

static size_t match_float(const lexer *l, size_t at)
{
    if (at > 0 && l->s.ptr[at - 1] == '.') return at;
    size_t end = match_digits(l, at);
    if (end == at) return at;
    size_t fraction = end;
    if (looking_at(l, end, ".")) {
        size_t to = match_digits(l, end + 1);
        if (to > end + 1) fraction = to;
    }
    if (looking_at(l, fraction, "e") || looking_at(l, fraction, "E")) {
        size_t from = fraction + 1 + (sign_at(l, fraction + 1) != 0);
        size_t to = match_digits(l, from);
        if (to > from) return to;
    }
    return fraction > end ? fraction : at;
}

static bool is_digit_of(char c, int base)
{
    int v = c >= '0' && c <= '9'                 ? c - '0'
            : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                 : 99;
    return v < base;
}

/* An integer literal; *base is its base. */
static size_t match_int(const lexer *l, size_t at, int *base)
{
    char prefix = looking_at(l, at, "0") && at + 1 < l->s.len ? (char)(l->s.ptr[at + 1] | 32) : 0;
    *base = prefix == 'b' ? 2 : prefix == 'o' ? 8 : prefix == 'x' ? 16 : 10;
    if (*base != 10) {
        size_t end = at + 2;
        for (;;) {
            size_t digit = end + looking_at(l, end, "_");
            if (digit >= l->s.len || !is_digit_of(l->s.ptr[digit], *base)) break;
            end = digit + 1;
        }
        if (end > at + 2) return end;
        *base = 10;
    }
    if (!looking_at(l, at, "0")) return match_digits(l, at);
    size_t end = at + 1;
    while (looking_at(l, end + looking_at(l, end, "_"), "0")) end += 1u + looking_at(l, end, "_");
    return end;
}

/* The characters of [from, to) without underscores. */
static status add_number(lexer *l, jtoken_type type, size_t from, size_t to, int base)
{
    char *copy = arena_copy(l->a, l->s.ptr + from, to - from);
    if (!copy) return jsource_fail(l->src, ERR_NOMEM, (int64_t)from, "no memory for a number");
    size_t n = 0;
    for (size_t i = from; i < to; i++)
        if (l->s.ptr[i] != '_') copy[n++] = l->s.ptr[i];
    TRY(add_text(l, type, from, (str){copy, n}));
    l->tokens[l->n - 1].name = base;
    return ERR_OK;
}

static status lex_name(lexer *l)
{
    size_t begin = l->at;
    uint32_t cp;
    int first = junicode_at(l->s, begin, &cp);
    if (!junicode_is_name_start(cp))
        return jsource_fail(l->src, ERR_FORMAT, (int64_t)begin, "invalid character in identifier");
    size_t at = begin + (size_t)first;
    while (at < l->s.len) {
        int n = junicode_at(l->s, at, &cp);
        if (!junicode_is_name(cp)) break;
        at += (size_t)n;
    }
    int name = jnames_add(l->names, l->a, str_slice(l->s, begin, at));
    if (name == -2) return jsource_fail(l->src, ERR_LIMIT, (int64_t)begin, "too many names");
    if (name < 0) return jsource_fail(l->src, ERR_NOMEM, (int64_t)begin, "no memory for a name");
    l->at = at;
    return add_token(l, JTOKEN_NAME, begin, NULL, name);
}

/* The end of the string literal at `at`, or 0. */
static size_t match_string(const lexer *l, size_t at)
{
    char quote = l->s.ptr[at];
    if (quote != '\'' && quote != '"') return 0;
    for (size_t i = at + 1; i < l->s.len; i++) {
        if (l->s.ptr[i] == '\\')
            i++;
        else if (l->s.ptr[i] == quote)
            return i + 1;
    }
    return 0;
}

static status lex_string(lexer *l, size_t end)
{
    size_t begin = l->at;
    str raw = str_slice(l->s, begin + 1, end - 1), text;
    const char *why = jstring_unescape(l->a, raw, &text);
    if (why) return jsource_fail(l->src, ERR_FORMAT, (int64_t)begin, "in a string: %s", why);
    if (!text.ptr) return jsource_fail(l->src, ERR_NOMEM, (int64_t)begin, "no memory for a string");
    l->at = end;
    return add_text(l, JTOKEN_STRING, begin, text);
}

static status track_bracket(lexer *l, char c, size_t pos)
{
    static const char pairs[] = "()[]{}";
    if (c == '(' || c == '[' || c == '{') {
        if (l->n_open == JINJA_NEST_MOST)
            return jsource_fail(l->src, ERR_LIMIT, (int64_t)pos, "brackets nest deeper than %d",
                                JINJA_NEST_MOST);
        l->open_at[l->n_open] = pos;
        l->open[l->n_open++] = strchr(pairs, c)[1];
    } else if (c == ')' || c == ']' || c == '}') {
        if (l->n_open == 0)
            return jsource_fail(l->src, ERR_FORMAT, (int64_t)pos, "unexpected '%c'", c);
        if (l->open[--l->n_open] != c)
            return jsource_fail(l->src, ERR_FORMAT, (int64_t)pos, "unexpected '%c', expected '%c'",
                                c, l->open[l->n_open]);
    }
    return ERR_OK;
}

static status lex_operator(lexer *l)
{
    static const struct {
        const char *text;
        jtoken_type type;
    } operators[] = {
        {"//", JTOKEN_FLOORDIV}, {"**", JTOKEN_POW},      {"==", JTOKEN_EQ},
        {"!=", JTOKEN_NE},       {">=", JTOKEN_GE},       {"<=", JTOKEN_LE},
        {"+", JTOKEN_ADD},       {"-", JTOKEN_SUB},       {"/", JTOKEN_DIV},
        {"*", JTOKEN_MUL},       {"%", JTOKEN_MOD},       {"~", JTOKEN_TILDE},
        {"[", JTOKEN_LBRACKET},  {"]", JTOKEN_RBRACKET},  {"(", JTOKEN_LPAREN},
        {")", JTOKEN_RPAREN},    {"{", JTOKEN_LBRACE},    {"}", JTOKEN_RBRACE},
        {">", JTOKEN_GT},        {"<", JTOKEN_LT},        {"=", JTOKEN_ASSIGN},
        {".", JTOKEN_DOT},       {":", JTOKEN_COLON},     {"|", JTOKEN_PIPE},
        {",", JTOKEN_COMMA},     {";", JTOKEN_SEMICOLON},
    };
    size_t pos = l->at;
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (!looking_at(l, pos, operators[i].text)) continue;
        TRY(track_bracket(l, operators[i].text[0], pos));
        l->at += strlen(operators[i].text);
        return add_token(l, operators[i].type, pos, NULL, 0);
    }
    uint32_t cp;
    int n = junicode_at(l->s, pos, &cp);
    return jsource_fail(l->src, ERR_FORMAT, (int64_t)pos, "unexpected char '%.*s'", n,
                        l->s.ptr + pos);
}

static status lex_one(lexer *l)
{
    int base = 10;
    uint32_t cp;
    junicode_at(l->s, l->at, &cp);
    if (junicode_is_space(cp)) {
        l->at = skip_space(l, l->at);
        return ERR_OK;
    }
    size_t end = match_float(l, l->at);
    jtoken_type type = JTOKEN_FLOAT;
    if (end == l->at) {
        type = JTOKEN_INT;
        end = match_int(l, l->at, &base);
    }
    if (end > l->at) {
        size_t from = l->at;
        l->at = end;
        return add_number(l, type, from, end, base);
    }
    if (junicode_is_name(cp) || (cp >= 0x80 && junicode_is_word(cp))) return lex_name(l);
    end = match_string(l, l->at);
    return end ? lex_string(l, end) : lex_operator(l);
}

/* Tokens up to the end of the tag, or of the source: the parser then misses the end. */
static status lex_tag(lexer *l, char kind)
{
    l->n_open = 0;
    while (l->at < l->s.len) {
        size_t end = l->n_open == 0 ? match_close(l, l->at, kind) : 0;
        if (end) {
            jtoken_type type = kind == '}' ? JTOKEN_VAR_END : JTOKEN_BLOCK_END;
            TRY(add_token(l, type, l->at, NULL, 0));
            move_to(l, end);
            return ERR_OK;
        }
        TRY(lex_one(l));
    }
    return ERR_OK;
}

/* Text up to the next tag, then the tag. */
static status lex_root(lexer *l)
{
    size_t tag = l->at;
    while (tag < l->s.len && !looking_at(l, tag, "{%") && !looking_at(l, tag, "{{") &&
           !looking_at(l, tag, "{#"))
        tag++;
    if (tag == l->s.len) {
        size_t from = l->at;
        l->at = tag;
        return add_text(l, JTOKEN_DATA, from, str_skip(l->s, from));
    }
    char kind = l->s.ptr[tag + 1], sign = sign_at(l, tag + 2);
    TRY(add_data(l, l->at, tag, sign, kind == '{'));
    size_t raw = kind == '%' ? match_raw(l, tag) : 0;
    move_to(l, raw ? raw : tag + 2 + (sign != 0));
    if (raw) return lex_raw(l, tag);
    if (kind == '#') return lex_comment(l, tag);
    TRY(add_token(l, kind == '{' ? JTOKEN_VAR_BEGIN : JTOKEN_BLOCK_BEGIN, tag, NULL, 0));
    return lex_tag(l, kind == '{' ? '}' : '%');
}

status jlex_tokens(arena *a, const jsource *src, jnames *names, const jtoken **tokens)
{
    lexer l = {.src = src, .s = src->text, .a = a, .names = names, .at_line_start = true};
    while (l.at < l.s.len) TRY(lex_root(&l));
    TRY(add_token(&l, JTOKEN_EOF, l.s.len, NULL, 0));
    *tokens = l.tokens;
    return ERR_OK;
}
