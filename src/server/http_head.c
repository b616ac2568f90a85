#include "server/http_head_priv.h"

#include "base/mem.h"

void http_head_fini(http_head *h)
{
    buf_fini(&h->text);
    mem_free(h->fields);
    *h = (http_head){0};
}

const char *http_method_text(http_method m)
{
    static const char *const names[METHOD_COUNT] = {"OTHER", "GET",    "HEAD",
                                                    "POST",  "DELETE", "OPTIONS"};
    return m < METHOD_COUNT ? names[m] : names[METHOD_OTHER];
}

static str field_name(const http_head *h, int i)
{
    return (str){h->text.ptr + h->fields[i].name_at, h->fields[i].name_len};
}

str http_head_get(const http_head *h, const char *name)
{
    for (int i = 0; i < h->n_fields; i++) {
        if (!str_is(field_name(h, i), name)) continue;
        return (str){h->text.ptr + h->fields[i].value_at, h->fields[i].value_len};
    }
    return (str){NULL, 0};
}

int http_head_count(const http_head *h, const char *name)
{
    int n = 0;
    for (int i = 0; i < h->n_fields; i++) n += str_is(field_name(h, i), name);
    return n;
}

/* The target from its path on. */
static str from_path(const http_head *h)
{
    /* A head that could not be kept for want of memory has less text than it counted. */
    str target = buf_str(&h->text);
    if (target.len > h->target_len) target.len = h->target_len;
    int64_t scheme = str_find(target, STR("://"), 0);
    if (target.len > 0 && target.ptr[0] != '/' && scheme > 0) {
        int64_t slash = str_find(target, STR("/"), (size_t)scheme + 3);
        target = slash < 0 ? STR("/") : str_skip(target, (size_t)slash);
    }
    int64_t fragment = str_find(target, STR("#"), 0);
    return fragment < 0 ? target : str_slice(target, 0, (size_t)fragment);
}

str http_head_path(const http_head *h)
{
    str target = from_path(h);
    int64_t query = str_find(target, STR("?"), 0);
    return query < 0 ? target : str_slice(target, 0, (size_t)query);
}

str http_head_query(const http_head *h)
{
    str target = from_path(h);
    int64_t query = str_find(target, STR("?"), 0);
    return query < 0 ? STR("") : str_skip(target, (size_t)query + 1);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

bool http_decode_path(str path, buf *out)
{
    size_t before = out->len;
    for (size_t i = 0; i < path.len; i++) {
        char c = path.ptr[i];
        if (c == '%') {
            int high = i + 2 < path.len ? hex_digit(path.ptr[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(path.ptr[i + 2]) : -1;
            if (low < 0) {
                if (out->ptr) out->ptr[out->len = before] = 0;
                return false;
            }
            c = (char)(high << 4 | low);
            i += 2;
        }
        buf_put_byte(out, c);
    }
    return !out->failed;
}
