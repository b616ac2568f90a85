#include "hub/hub.h"
#include "hub/safe_name_priv.h"

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
}

/* Copy a part of a name; false when the hub would not have such a one. */
static bool take_part(str s, char out[HUB_NAME_MOST + 1])
{
    if (s.len == 0 || s.len > HUB_NAME_MOST) return false;
    for (size_t i = 0; i < s.len; i++)
        if (!is_word(s.ptr[i])) return false;
    char first = s.ptr[0], last = s.ptr[s.len - 1];
    /* Two dashes part owner from repository in the cache's folders. */
    if (first == '.' || first == '-' || last == '.' || last == '-') return false;
    if (str_find(s, STR(".."), 0) >= 0 || str_find(s, STR("--"), 0) >= 0) return false;
    memcpy(out, s.ptr, s.len);
    out[s.len] = '\0';
    return true;
}

bool hub_name_parse(str text, hub_name *out)
{
    hub_name n = {0};
    int64_t slash = str_find(text, STR("/"), 0);
    if (slash < 0) return false;
    str rest = str_skip(text, (size_t)slash + 1);
    int64_t colon = str_find(rest, STR(":"), 0);
    str repo = colon < 0 ? rest : str_slice(rest, 0, (size_t)colon);
    if (!take_part(str_slice(text, 0, (size_t)slash), n.owner) || !take_part(repo, n.repo))
        return false;
    if (colon >= 0 && !take_part(str_skip(rest, (size_t)colon + 1), n.variant)) return false;
    *out = n;
    return true;
}

bool safe_path(str s)
{
    size_t from = 0;
    if (s.len == 0 || s.len > SAFE_PATH_MOST) return false;
    for (size_t i = 0; i <= s.len; i++) {
        if (i < s.len && s.ptr[i] != '/') {
            unsigned char c = (unsigned char)s.ptr[i];
            if (c < 32 || c == 127 || c == '\\' || c == ':') return false;
            continue;
        }
        str part = str_slice(s, from, i);
        if (part.len == 0 || part.len > 255 || str_is(part, ".") || str_is(part, ".."))
            return false;
        from = i + 1;
    }
    return true;
}

bool safe_hex(str s, size_t n)
{
    if (s.len != n) return false;
    for (size_t i = 0; i < n; i++)
        if (!((s.ptr[i] >= '0' && s.ptr[i] <= '9') || (s.ptr[i] >= 'a' && s.ptr[i] <= 'f')))
            return false;
    return true;
}
