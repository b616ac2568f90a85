#include "grammar/schema_ref_priv.h"

#include <stdio.h>

#include "base/buf.h"

static bool find_path(const json *at, const json *part, buf *b)
{
    size_t len = b->len;
    int i = 0;
    if (at == part) return true;
    for (const json *c = at->first; c; c = c->next, i++) {
        buf_put_byte(b, '/');
        if (at->kind == JSON_ARRAY) {
            buf_printf(b, "%d", i);
        } else {
            for (size_t k = 0; k < c->key.len; k++) {
                char x = c->key.ptr[k];
                if (x == '~' || x == '/')
                    buf_put_c(b, x == '~' ? "~0" : "~1");
                else
                    buf_put_byte(b, x);
            }
        }
        if (find_path(c, part, b)) return true;
        b->len = len;
    }
    return false;
}

void schema_pointer(const json *root, const json *part, const char *key, char *out, int cap)
{
    buf b;
    buf_init(&b);
    buf_put_byte(&b, '#');
    if (root && part) find_path(root, part, &b);
    if (key) {
        buf_put_byte(&b, '/');
        buf_put_c(&b, key);
    }
    int n = (int)b.len < cap - 1 ? (int)b.len : cap - 1;
    if (n > 0) memcpy(out, b.ptr, (size_t)n);
    out[n > 0 ? n : 0] = '\0';
    buf_fini(&b);
}

static bool has_id(const json *at, bool is_root)
{
    if (!is_root && at->kind == JSON_OBJECT) {
        const json *id = json_get(at, "$id");
        if (json_is(id, JSON_STRING) && !str_starts(id->text, STR("#"))) return true;
    }
    for (const json *c = at->first; c; c = c->next)
        if (has_id(c, false)) return true;
    return false;
}

void schema_doc_init(schema_doc *d, const json *root)
{
    *d = (schema_doc){.root = root, .has_inner_ids = has_id(root, true)};
    const json *dialect = root->kind == JSON_OBJECT ? json_get(root, "$schema") : NULL;
    if (json_is(dialect, JSON_STRING))
        for (int n = 3; n <= 7; n++) {
            char word[16];
            snprintf(word, sizeof word, "draft-0%d", n);
            if (str_find(dialect->text, str_from(word), 0) >= 0) d->ref_is_alone = true;
        }
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* One step of a pointer with its escapes undone, into out[cap]; false when too long or wrong. */
static bool read_step(str s, char *out, size_t cap, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '%') {
            if (i + 2 >= s.len || hex_digit(s.ptr[i + 1]) < 0 || hex_digit(s.ptr[i + 2]) < 0)
                return false;
            c = (char)(hex_digit(s.ptr[i + 1]) * 16 + hex_digit(s.ptr[i + 2]));
            i += 2;
        } else if (c == '~') {
            if (i + 1 >= s.len || (s.ptr[i + 1] != '0' && s.ptr[i + 1] != '1')) return false;
            c = s.ptr[++i] == '0' ? '~' : '/';
        }
        if (*n == cap) return false;
        out[(*n)++] = c;
    }
    return true;
}

static const json *follow(const json *at, str pointer)
{
    char step[1024];
    while (at && pointer.len > 0) {
        size_t n;
        int64_t end = str_find(pointer, STR("/"), 1);
        str part = str_slice(pointer, 1, end < 0 ? pointer.len : (size_t)end);
        pointer = str_skip(pointer, part.len + 1);
        if (!read_step(part, step, sizeof step, &n)) return NULL;
        int64_t index;
        if (at->kind == JSON_OBJECT)
            at = json_get_str(at, (str){step, n});
        else if (at->kind == JSON_ARRAY && str_to_int64((str){step, n}, &index) && index >= 0 &&
                 index < at->n)
            at = json_at(at, (int)index);
        else
            return NULL;
    }
    return at;
}

static const json *find_anchor(const json *at, str name)
{
    if (at->kind == JSON_OBJECT) {
        const json *anchor = json_get(at, "$anchor"), *id = json_get(at, "$id");
        const json *dynamic = json_get(at, "$dynamicAnchor");
        if (json_is(anchor, JSON_STRING) && str_equal(anchor->text, name)) return at;
        if (json_is(dynamic, JSON_STRING) && str_equal(dynamic->text, name)) return at;
        if (json_is(id, JSON_STRING) && id->text.len > 0 && id->text.ptr[0] == '#' &&
            str_equal(str_skip(id->text, 1), name))
            return at;
    }
    for (const json *c = at->first; c; c = c->next) {
        bool is_data = at->kind == JSON_OBJECT &&
                       (str_is(c->key, "const") || str_is(c->key, "enum"));
        const json *found = is_data && c->kind != JSON_OBJECT ? NULL : find_anchor(c, name);
        if (found) return found;
    }
    return NULL;
}

static status refuse(const schema_doc *d, const json *ref, status s, const char *why, err *e)
{
    char where[160];
    schema_pointer(d->root, ref, NULL, where, sizeof where);
    return err_set(e, s, where, -1, "%s", why);
}

status schema_ref_find(const schema_doc *d, const json *ref, const json **out, err *e)
{
    if (!json_is(ref, JSON_STRING))
        return refuse(d, ref, ERR_FORMAT, "a reference must be a string", e);
    str s = ref->text;
    const json *id = d->root->kind == JSON_OBJECT ? json_get(d->root, "$id") : NULL;
    if (json_is(id, JSON_STRING) && id->text.len > 0 && str_starts(s, id->text)) {
        str rest = str_skip(s, id->text.len);
        if (rest.len == 0 || rest.ptr[0] == '#') s = rest.len ? rest : STR("#");
    }
    if (s.len == 0 || s.ptr[0] != '#')
        return refuse(d, ref, ERR_UNSUPPORTED, "a reference to another document", e);
    if (d->has_inner_ids)
        return refuse(d, ref, ERR_UNSUPPORTED, "a reference beside parts with an $id", e);
    s = str_skip(s, 1);
    const json *found = s.len == 0 || s.ptr[0] == '/' ? follow(d->root, s)
                                                      : find_anchor(d->root, s);
    if (!found) return refuse(d, ref, ERR_FORMAT, "the reference points nowhere", e);
    *out = found;
    return ERR_OK;
}
