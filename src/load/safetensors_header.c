/* The header is JSON of one fixed form, so it is read by a scanner of that form: a header of
 * 100,000 tensors then costs one row each instead of a tree of eight values each, and a hostile
 * header cannot make a tree at all. */
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "load/safetensors_priv.h"

/* A model with one tensor an expert has 92,160 of them; what a hostile header makes us take stays
 * below 100 MB. */
enum { HEADER_AT = 8, NAME_MOST = 1024, DIMS_MOST = 16, ROWS_MOST = 1 << 17 };

typedef struct {
    str text;
    size_t at;
    const char *where;
    arena *mem;
    err *e;
} scan;

#define FAIL(s, ...) \
    return err_set((s)->e, ERR_FORMAT, (s)->where, (long)(HEADER_AT + (s)->at), __VA_ARGS__)

static void skip_space(scan *s)
{
    while (s->at < s->text.len && strchr(" \t\r\n", s->text.ptr[s->at]) && s->text.ptr[s->at])
        s->at++;
}

/* The next character after white space, or NUL at the end. */
static char peek(scan *s)
{
    skip_space(s);
    return s->at < s->text.len ? s->text.ptr[s->at] : '\0';
}

static status expect(scan *s, char c)
{
    if (peek(s) != c) FAIL(s, "the header wants '%c' here", c);
    s->at++;
    return ERR_OK;
}

/* After an element: ',' leaves *is_last false, `close` makes it true. */
static status expect_next(scan *s, char close, bool *is_last)
{
    char c = peek(s);
    if (c != ',' && c != close) FAIL(s, "the header wants ',' or '%c' here", close);
    s->at++;
    *is_last = c == close;
    return ERR_OK;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Step over one escape, s->at on the backslash. */
static status skip_escape(scan *s)
{
    char c = s->at + 1 < s->text.len ? s->text.ptr[s->at + 1] : '\0';
    bool is_ok = c && strchr("\"\\/bfnrtu", c);
    for (size_t i = 2; is_ok && c == 'u' && i < 6; i++)
        is_ok = s->at + i < s->text.len && is_hex(s->text.ptr[s->at + i]);
    if (!is_ok) FAIL(s, "the header has a malformed escape in a string");
    s->at += c == 'u' ? 6 : 2;
    return ERR_OK;
}

/* A string with its quotes as it stands, in *token. */
static status scan_token(scan *s, str *token, bool *has_escape)
{
    TRY(expect(s, '"'));
    size_t from = s->at - 1;
    *has_escape = false;
    for (;;) {
        if (s->at >= s->text.len) FAIL(s, "the header ends inside a string");
        char c = s->text.ptr[s->at];
        if ((unsigned char)c < 0x20) FAIL(s, "the header has a control character in a string");
        if (c == '\\') {
            *has_escape = true;
            TRY(skip_escape(s));
            continue;
        }
        s->at++;
        if (c == '"') break;
    }
    *token = str_slice(s->text, from, s->at);
    return ERR_OK;
}

static status scan_string(scan *s, str *out)
{
    str token;
    bool has_escape;
    TRY(scan_token(s, &token, &has_escape));
    *out = str_slice(token, 1, token.len - 1);
    if (!has_escape) return ERR_OK;
    const json *v;
    TRY(json_parse(s->mem, token, s->where, 1, 0, &v, s->e));
    *out = v->text;
    return ERR_OK;
}

/* A plain non-negative integer. */
static status scan_int(scan *s, int64_t *out)
{
    char c = peek(s);
    size_t from = s->at;
    while (s->at < s->text.len && s->text.ptr[s->at] >= '0' && s->text.ptr[s->at] <= '9') s->at++;
    str digits = str_slice(s->text, from, s->at);
    bool is_plain = digits.len > 0 && (c != '0' || digits.len == 1);
    if (!is_plain || !str_to_int64(digits, out)) {
        s->at = from;
        FAIL(s, "the header wants a whole number from 0 to 2^63-1 here");
    }
    return ERR_OK;
}

/* [a, b, ...] of at most `most` numbers. */
static status scan_ints(scan *s, int64_t *out, int most, int *n)
{
    TRY(expect(s, '['));
    *n = 0;
    bool is_last = peek(s) == ']';
    if (is_last) s->at++;
    while (!is_last) {
        if (*n == most) FAIL(s, "the header has more than %d numbers in a list", most);
        TRY(scan_int(s, &out[*n]));
        ++*n;
        TRY(expect_next(s, ']', &is_last));
    }
    return ERR_OK;
}

/* __metadata__: strings by name; checked and dropped. */
static status scan_metadata(scan *s)
{
    TRY(expect(s, '{'));
    bool is_last = peek(s) == '}', has_escape;
    if (is_last) s->at++;
    str token;
    while (!is_last) {
        TRY(scan_token(s, &token, &has_escape));
        TRY(expect(s, ':'));
        TRY(scan_token(s, &token, &has_escape));
        TRY(expect_next(s, '}', &is_last));
    }
    return ERR_OK;
}

typedef struct {
    str type;
    int64_t shape[DIMS_MOST], offset[2];
    int n_dims, n_offsets;
    bool has_type, has_shape, has_offsets;
} body;

static status scan_member(scan *s, const char *name, body *b)
{
    str key;
    TRY(scan_string(s, &key));
    TRY(expect(s, ':'));
    bool *seen = str_is(key, "dtype")          ? &b->has_type
                 : str_is(key, "shape")        ? &b->has_shape
                 : str_is(key, "data_offsets") ? &b->has_offsets
                                               : NULL;
    if (key.len > 40) key.len = 40;
    if (!seen)
        FAIL(s, "tensor '%.100s': key '%.*s' is not one of the format's", name, STR_ARG(key));
    if (*seen) FAIL(s, "tensor '%.100s': '%.*s' stands twice", name, STR_ARG(key));
    *seen = true;
    if (seen == &b->has_type) return scan_string(s, &b->type);
    if (seen == &b->has_shape) return scan_ints(s, b->shape, DIMS_MOST, &b->n_dims);
    return scan_ints(s, b->offset, 2, &b->n_offsets);
}

static status check_size(scan *s, const body *b, safetensors_row *row)
{
    int64_t n = 1, n_bits;
    for (int i = 0; i < b->n_dims; i++)
        if (__builtin_mul_overflow(n, b->shape[i], &n))
            FAIL(s, "tensor '%.100s': its shape has more than 2^63 elements", row->name);
    if (__builtin_mul_overflow(n, dtype_bits(row->type), &n_bits))
        FAIL(s, "tensor '%.100s': its shape has more than 2^63 bits", row->name);
    if (row->begin > row->end)
        FAIL(s, "tensor '%.100s': data_offsets [%lld, %lld] run backwards", row->name,
             (long long)row->begin, (long long)row->end);
    if (row->end - row->begin != n_bits / 8)
        FAIL(s, "tensor '%.100s': data_offsets hold %lld bytes, but shape and dtype %s need %lld",
             row->name, (long long)(row->end - row->begin), dtype_name(row->type),
             (long long)(n_bits / 8));
    return ERR_OK;
}

static status scan_body(scan *s, safetensors_row *row)
{
    body b = {0};
    TRY(expect(s, '{'));
    bool is_last = peek(s) == '}';
    if (is_last) s->at++;
    while (!is_last) {
        TRY(scan_member(s, row->name, &b));
        TRY(expect_next(s, '}', &is_last));
    }
    if (!b.has_type || !b.has_shape || !b.has_offsets || b.n_offsets != 2)
        FAIL(s, "tensor '%.100s': dtype, shape or two data_offsets are missing", row->name);
    row->type = dtype_find(b.type.ptr, b.type.len);
    if (row->type == DTYPE_NONE)
        FAIL(s, "tensor '%.100s': dtype '%.*s' is not known", row->name,
             b.type.len > 20 ? 20 : (int)b.type.len, b.type.ptr);
    row->begin = b.offset[0];
    row->end = b.offset[1];
    TRY(check_size(s, &b, row));
    row->n_dims = b.n_dims < TENSOR_DIMS_MAX ? b.n_dims : TENSOR_DIMS_MAX;
    for (int i = 0; i < b.n_dims; i++) {
        if (i < TENSOR_DIMS_MAX)
            row->shape[i] = b.shape[i];
        else /* a product of the whole shape that fits need not fit in part: [0, big, big] */
            row->shape[TENSOR_DIMS_MAX - 1] = row->end == row->begin
                                                  ? 0
                                                  : row->shape[TENSOR_DIMS_MAX - 1] * b.shape[i];
    }
    return ERR_OK;
}

static status keep_name(scan *s, str name, safetensors_row *row)
{
    if (name.len == 0 || name.len > NAME_MOST || memchr(name.ptr, 0, name.len))
        FAIL(s, "a tensor's name must have 1 to %d bytes and no NUL", NAME_MOST);
    row->name = arena_copy(s->mem, name.ptr, name.len);
    return row->name ? ERR_OK : err_set(s->e, ERR_NOMEM, s->where, -1, "out of memory");
}

static status grow_rows(scan *s, safetensors_row **rows, int n, int *cap)
{
    if (n < *cap) return ERR_OK;
    if (n >= ROWS_MOST) FAIL(s, "the header has more than %d tensors", ROWS_MOST);
    int next = *cap ? *cap * 2 : 64;
    safetensors_row *more = mem_resize(*rows, (size_t)next * sizeof **rows);
    if (!more) return err_set(s->e, ERR_NOMEM, s->where, -1, "out of memory for the header");
    *rows = more;
    *cap = next;
    return ERR_OK;
}

static status scan_header(scan *s, safetensors_row **rows, int *n)
{
    int cap = 0;
    bool has_metadata = false;
    TRY(expect(s, '{'));
    bool is_last = peek(s) == '}';
    if (is_last) s->at++;
    while (!is_last) {
        str name;
        TRY(scan_string(s, &name));
        TRY(expect(s, ':'));
        if (str_is(name, "__metadata__")) {
            if (has_metadata) FAIL(s, "'__metadata__' stands twice");
            has_metadata = true;
            TRY(scan_metadata(s));
        } else {
            TRY(grow_rows(s, rows, *n, &cap));
            safetensors_row *row = &(*rows)[*n];
            *row = (safetensors_row){0};
            TRY(keep_name(s, name, row));
            TRY(scan_body(s, row));
            ++*n;
        }
        TRY(expect_next(s, '}', &is_last));
    }
    skip_space(s);
    if (s->at != s->text.len) FAIL(s, "the header goes on after its closing '}'");
    return ERR_OK;
}

status safetensors_parse_header(arena *mem, str text, const char *where, safetensors_row **rows,
                                int *n, err *e)
{
    scan s = {text, 0, where, mem, e};
    safetensors_row *list = NULL;
    int count = 0;
    int64_t bad = utf8_check(text);
    if (bad >= 0)
        return err_set(e, ERR_FORMAT, where, (long)(HEADER_AT + bad), "the header is not UTF-8");
    status st = scan_header(&s, &list, &count);
    if (st != ERR_OK) {
        mem_free(list);
        return st;
    }
    *rows = list;
    *n = count;
    return ERR_OK;
}
