/* The reader. One loop over values with an explicit list of open containers; the writer is in
 * json_write.c, number conversions in json_number.c, the check for repeated keys in
 * json_unique.c. */
#include "base/json.h"

#include <limits.h>

#include "base/json_priv.h"
#include "base/utf8.h"

/* An open array or object. Frames live in the arena and are used again at their depth. */
typedef struct frame frame;
struct frame {
    frame *outer, *inner;
    json *container, *last;
};

typedef struct {
    const char *start, *at, *end;
    arena *a;
    frame *top;  /* innermost open container, NULL outside all */
    frame *free; /* the outermost frame, once it exists */
    int depth, most_depth, flags;
    const char *name;
    err *e;
} parser;

static status fail_at(parser *p, const char *at, const char *what)
{
    return err_set(p->e, ERR_FORMAT, p->name, at - p->start, "JSON: %s", what);
}

static status fail_expected(parser *p, const char *what)
{
    if (p->at == p->end)
        return err_set(p->e, ERR_FORMAT, p->name, p->at - p->start,
                       "JSON: the text ends where %s should be", what);
    unsigned char c = (unsigned char)*p->at;
    if (c < 0x20 || c > 0x7e)
        return err_set(p->e, ERR_FORMAT, p->name, p->at - p->start,
                       "JSON: byte 0x%02x where %s should be", c, what);
    return err_set(p->e, ERR_FORMAT, p->name, p->at - p->start, "JSON: '%c' where %s should be", c,
                   what);
}

static status fail_memory(parser *p)
{
    return err_set(p->e, ERR_NOMEM, p->name, p->at - p->start, "JSON: no memory for the tree");
}

static void skip_space(parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\t' || *p->at == '\r'))
        p->at++;
}

static bool is_digit(parser *p)
{
    return p->at < p->end && *p->at >= '0' && *p->at <= '9';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Eight bytes at once: high bits set where a byte is a quote, a backslash, a control character or
 * not ASCII, which is everything that needs a second look. May flag a plain byte after such a one,
 * never miss one (the lowest flag is always true). */
static uint64_t special_bytes(uint64_t v)
{
    const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
    uint64_t quote = v ^ ones * '"', backslash = v ^ ones * '\\';
    return (v | (v - ones * 0x20) | (quote - ones) | (backslash - ones)) & highs;
}

static void skip_plain(parser *p)
{
    uint64_t eight;
    while (p->end - p->at >= (ptrdiff_t)sizeof eight) {
        memcpy(&eight, p->at, sizeof eight);
        if (special_bytes(eight)) break;
        p->at += sizeof eight;
    }
}

static status check_escape(parser *p)
{
    p->at++;
    if (p->at == p->end) return fail_expected(p, "the rest of an escape");
    if (*p->at != 'u') {
        if (!memchr("\"\\/bfnrt", *p->at, 8)) return fail_expected(p, "an escape character");
        p->at++;
        return ERR_OK;
    }
    p->at++;
    for (int i = 0; i < 4; i++, p->at++)
        if (p->at == p->end || hex_digit(*p->at) < 0) return fail_expected(p, "a hex digit");
    return ERR_OK;
}

static uint32_t read_hex4(const char *at)
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) v = v << 4 | (uint32_t)hex_digit(at[i]);
    return v;
}

/* at points after "\u"; returns what follows the escape, or the pair of escapes. */
static const char *decode_u(const char *at, const char *end, uint32_t *cp)
{
    uint32_t hi = read_hex4(at);
    at += 4;
    *cp = hi;
    if (hi < 0xd800 || hi > 0xdfff) return at;
    *cp = 0xfffd;
    if (hi > 0xdbff || end - at < 6 || at[0] != '\\' || at[1] != 'u') return at;
    uint32_t lo = read_hex4(at + 2);
    if (lo < 0xdc00 || lo > 0xdfff) return at;
    *cp = 0x10000 + ((hi - 0xd800) << 10) + (lo - 0xdc00);
    return at + 6;
}

/* raw is checked already. Every escape is at least as long as what it stands for. */
static status decode_escapes(parser *p, str raw, str *out)
{
    char *to = arena_new(p->a, raw.len);
    if (!to) return fail_memory(p);
    const char *at = raw.ptr, *end = raw.ptr + raw.len;
    char *const first = to;
    while (at < end) {
        const char *backslash = memchr(at, '\\', (size_t)(end - at));
        size_t n = (size_t)((backslash ? backslash : end) - at);
        memcpy(to, at, n);
        to += n;
        at += n;
        if (!backslash) break;
        char c = at[1];
        at += 2;
        if (c == 'u') {
            uint32_t cp;
            at = decode_u(at, end, &cp);
            to += utf8_encode(cp, to);
        } else {
            const char *names = "bfnrt", *found = memchr(names, c, 5);
            *to++ = found ? "\b\f\n\r\t"[found - names] : c;
        }
    }
    *out = (str){first, (size_t)(to - first)};
    return ERR_OK;
}

/* At the opening quote. */
static status read_string(parser *p, str *out)
{
    const char *first = ++p->at;
    bool has_escape = false;
    for (;;) {
        skip_plain(p);
        if (p->at == p->end) return fail_expected(p, "the rest of a string");
        unsigned char c = (unsigned char)*p->at;
        if (c == '"') break;
        if (c == '\\') {
            has_escape = true;
            TRY(check_escape(p));
        } else if (c < 0x20) {
            return fail_at(p, p->at, "a raw control character in a string");
        } else if (c < 0x80) {
            p->at++;
        } else {
            uint32_t cp;
            int n = utf8_decode((str){p->at, (size_t)(p->end - p->at)}, 0, &cp);
            if (n == 0) return fail_at(p, p->at, "ill-formed UTF-8 in a string");
            p->at += n;
        }
    }
    str raw = {first, (size_t)(p->at - first)};
    if (has_escape)
        TRY(decode_escapes(p, raw, out));
    else
        *out = raw;
    p->at++;
    return ERR_OK;
}

static status read_digits(parser *p)
{
    if (!is_digit(p)) return fail_expected(p, "a digit");
    while (is_digit(p)) p->at++;
    return ERR_OK;
}

static status read_number(parser *p, str *out)
{
    const char *first = p->at;
    if (*p->at == '-') p->at++;
    if (p->at < p->end && *p->at == '0') {
        p->at++;
        if (is_digit(p)) return fail_at(p, p->at, "a number with a leading zero");
    } else {
        TRY(read_digits(p));
    }
    if (p->at < p->end && *p->at == '.') {
        p->at++;
        TRY(read_digits(p));
    }
    if (p->at < p->end && (*p->at == 'e' || *p->at == 'E')) {
        p->at++;
        if (p->at < p->end && (*p->at == '+' || *p->at == '-')) p->at++;
        TRY(read_digits(p));
    }
    *out = (str){first, (size_t)(p->at - first)};
    return ERR_OK;
}

static status read_word(parser *p, const char *word)
{
    for (; *word; word++, p->at++)
        if (p->at == p->end || *p->at != *word)
            return fail_expected(p, "the rest of true, false or null");
    return ERR_OK;
}

static status open_container(parser *p, json *v)
{
    if (p->depth == p->most_depth)
        return err_set(p->e, ERR_LIMIT, p->name, p->at - p->start, "JSON: nested deeper than %d",
                       p->most_depth);
    frame *f = p->top ? p->top->inner : p->free;
    if (!f) {
        f = arena_new(p->a, sizeof *f);
        if (!f) return fail_memory(p);
        f->outer = p->top;
        if (p->top)
            p->top->inner = f;
        else
            p->free = f;
    }
    f->container = v;
    f->last = NULL;
    p->top = f;
    p->depth++;
    p->at++;
    return ERR_OK;
}

static status close_container(parser *p)
{
    json *v = p->top->container;
    if (v->kind == JSON_OBJECT && (p->flags & JSON_UNIQUE_KEYS)) {
        const json *repeated = NULL;
        if (!json_find_repeated(v, &repeated)) return fail_memory(p);
        if (repeated) {
            int64_t pos = json_key_pos(p->start, repeated->pos);
            int n = repeated->key.len < 60 ? (int)repeated->key.len : 60;
            return err_set(p->e, ERR_FORMAT, p->name, (long)pos, "JSON: repeated key \"%.*s\"", n,
                           repeated->key.ptr);
        }
    }
    p->top = p->top->outer;
    p->depth--;
    p->at++;
    return ERR_OK;
}

/* A key and its colon, up to the value. */
static status read_key(parser *p, str *key)
{
    skip_space(p);
    if (p->at == p->end || *p->at != '"') return fail_expected(p, "a key in quotes");
    TRY(read_string(p, key));
    skip_space(p);
    if (p->at == p->end || *p->at != ':') return fail_expected(p, "a colon");
    p->at++;
    return ERR_OK;
}

static status add_value(parser *p, str key, json **out)
{
    json *v = arena_new(p->a, sizeof *v);
    if (!v) return fail_memory(p);
    v->pos = p->at - p->start;
    v->key = key;
    if (p->top) {
        json *container = p->top->container;
        if (container->n == INT_MAX)
            return err_set(p->e, ERR_LIMIT, p->name, p->at - p->start, "JSON: too many elements");
        if (p->top->last)
            p->top->last->next = v;
        else
            container->first = v;
        p->top->last = v;
        container->n++;
    }
    *out = v;
    return ERR_OK;
}

/* Read one value, of a container only its opening bracket. */
static status read_value(parser *p, json *v)
{
    switch (*p->at) {
    case '{': v->kind = JSON_OBJECT; return open_container(p, v);
    case '[': v->kind = JSON_ARRAY; return open_container(p, v);
    case '"': v->kind = JSON_STRING; return read_string(p, &v->text);
    case 't': v->kind = JSON_TRUE; return read_word(p, "true");
    case 'f': v->kind = JSON_FALSE; return read_word(p, "false");
    case 'n': v->kind = JSON_NULL; return read_word(p, "null");
    default:
        if (*p->at != '-' && !is_digit(p)) return fail_expected(p, "a value");
        v->kind = JSON_NUMBER;
        return read_number(p, &v->text);
    }
}

static bool at_closing(parser *p)
{
    char closing = p->top->container->kind == JSON_OBJECT ? '}' : ']';
    return p->at < p->end && *p->at == closing;
}

/* After a complete value: close what closes here, then step over a comma. Leaves p->top NULL when
 * the outermost value is complete. */
static status read_after_value(parser *p)
{
    while (p->top) {
        skip_space(p);
        if (!at_closing(p)) {
            bool in_object = p->top->container->kind == JSON_OBJECT;
            if (p->at == p->end || *p->at != ',')
                return fail_expected(p, in_object ? "a comma or }" : "a comma or ]");
            p->at++;
            return ERR_OK;
        }
        TRY(close_container(p));
    }
    return ERR_OK;
}

static status read_all(parser *p, const json **out)
{
    const json *root = NULL;
    for (;;) {
        str key = {0};
        if (p->top && p->top->container->kind == JSON_OBJECT) TRY(read_key(p, &key));
        skip_space(p);
        if (p->at == p->end) return fail_expected(p, "a value");
        json *v = NULL;
        TRY(add_value(p, key, &v));
        if (!root) root = v;
        TRY(read_value(p, v));
        if (p->top && p->top->container == v) {
            skip_space(p);
            if (!at_closing(p)) continue;
        }
        TRY(read_after_value(p));
        if (!p->top) break;
    }
    skip_space(p);
    if (p->at != p->end) return fail_expected(p, "the end of the text");
    *out = root;
    return ERR_OK;
}

status json_parse(arena *a, str src, const char *name, int depth, int flags, const json **out,
                  err *e)
{
    parser p = {
        .start = src.ptr,
        .at = src.ptr,
        .end = src.len ? src.ptr + src.len : src.ptr,
        .a = a,
        .most_depth = depth,
        .flags = flags,
        .name = name,
        .e = e,
    };
    return read_all(&p, out);
}

const json *json_get_str(const json *object, str key)
{
    const json *found = NULL;
    if (!json_is(object, JSON_OBJECT)) return NULL;
    for (const json *v = object->first; v; v = v->next)
        if (str_equal(v->key, key)) found = v;
    return found;
}

const json *json_get(const json *object, const char *key)
{
    return json_get_str(object, str_from(key));
}

const json *json_at(const json *array, int i)
{
    if (!json_is(array, JSON_ARRAY) || i < 0 || i >= array->n) return NULL;
    const json *v = array->first;
    while (i-- > 0) v = v->next;
    return v;
}

bool json_to_bool(const json *v, bool *out)
{
    if (!json_is_bool(v)) return false;
    *out = v->kind == JSON_TRUE;
    return true;
}

bool json_to_str(const json *v, str *out)
{
    if (!json_is(v, JSON_STRING)) return false;
    *out = v->text;
    return true;
}
