#include "chat/repair_priv.h"

#include "base/utf8.h"

/* One pass over the text that keeps track of open brackets and of the last place where cutting
 * and closing gives JSON: behind a complete value, behind an opening bracket, or inside a string
 * that is a value. What lies in between is checked by the parser afterwards. */
typedef struct {
    str s;
    char *open; /* closing brackets to come, outermost first */
    int n_open, cap;
    size_t safe;    /* text up to here, */
    bool in_string; /* then a quote if so, */
    int n_safe;     /* then the first n_safe of `open` in reverse */
    bool wants_key; /* the next string is a key */
} scan;

static void mark_safe(scan *c, size_t at)
{
    c->safe = at;
    c->in_string = false;
    c->n_safe = c->n_open;
}

/* From an opening quote; the offset behind the closing one, or s.len. */
static size_t scan_string(scan *c, size_t at)
{
    bool is_key = c->wants_key;
    size_t from = at + 1, safe = from;
    for (at++; at < c->s.len && c->s.ptr[at] != '"';) {
        size_t n = c->s.ptr[at] != '\\' ? 1 : at + 1 < c->s.len && c->s.ptr[at + 1] == 'u' ? 6 : 2;
        at += n;
        if (at <= c->s.len) safe = at;
    }
    if (at < c->s.len) {
        if (!is_key) mark_safe(c, at + 1);
        return at + 1;
    }
    if (!is_key) {
        mark_safe(c, safe - (size_t)utf8_tail(str_slice(c->s, 0, safe)));
        c->in_string = true;
    }
    return c->s.len;
}

static bool is_delimiter(char ch)
{
    return strchr(" \t\r\n,:[]{}\"", ch) != NULL;
}

static void scan_text(scan *c)
{
    for (size_t at = 0; at < c->s.len;) {
        char ch = c->s.ptr[at];
        if (ch == '"') {
            at = scan_string(c, at);
        } else if (ch == '{' || ch == '[') {
            if (c->n_open == c->cap) return;
            c->open[c->n_open++] = ch == '{' ? '}' : ']';
            c->wants_key = ch == '{';
            mark_safe(c, ++at);
        } else if (ch == '}' || ch == ']') {
            if (c->n_open) c->n_open--;
            c->wants_key = false;
            mark_safe(c, ++at);
        } else if (ch == ',' || ch == ':') {
            c->wants_key = ch == ',' && c->n_open && c->open[c->n_open - 1] == '}';
            at++;
        } else if (is_delimiter(ch)) {
            at++;
        } else {
            /* A number or word counts when something follows it. */
            while (at < c->s.len && !is_delimiter(c->s.ptr[at])) at++;
            if (at < c->s.len) mark_safe(c, at);
        }
    }
}

static status parse_closed(arena *a, const scan *c, const char *where, int depth, const json **out,
                           err *e)
{
    char *text = arena_new(a, c->safe + (size_t)c->n_safe + 2);
    if (!text) return err_set(e, ERR_NOMEM, where, -1, "no memory for JSON");
    size_t n = c->safe;
    memcpy(text, c->s.ptr, n);
    if (c->in_string) text[n++] = '"';
    for (int i = c->n_safe; i > 0; i--) text[n++] = c->open[i - 1];
    return json_parse(a, (str){text, n}, where, depth, 0, out, e);
}

status repair_parse(arena *a, str text, const char *where, int depth, const json **out, err *e)
{
    err first = {0};
    status s = json_parse(a, text, where, depth, 0, out, &first);
    if (s == ERR_OK) return s;
    /* Only an error at the very end can be mended by more text. */
    long end = (long)text.len - utf8_tail(text);
    scan c = {.s = text, .cap = depth};
    if (s == ERR_FORMAT && first.pos >= end) {
        c.open = arena_new(a, (size_t)depth);
        if (!c.open) return err_set(e, ERR_NOMEM, where, -1, "no memory for JSON");
        scan_text(&c);
        if (c.n_safe > 0 && parse_closed(a, &c, where, depth, out, NULL) == ERR_OK) return ERR_OK;
    }
    if (e) *e = first;
    return s;
}
