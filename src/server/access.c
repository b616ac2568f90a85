#include "server/access_priv.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

enum { NAME_MAX_BYTES = 255 };

static bool equal_fold(str a, str b)
{
    return a.len == b.len && (a.len == 0 || strncasecmp(a.ptr, b.ptr, a.len) == 0);
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
}

static bool is_port(str s)
{
    uint64_t n;
    return str_to_uint64(s, &n) && n <= 65535;
}

/* Split "name", "name:port", "[v6]", "[v6]:port" into the name without brackets; false when it is
 * none of them. */
static bool parse_authority(str s, str *name, bool *is_v6)
{
    str rest;
    *is_v6 = s.len > 0 && s.ptr[0] == '[';
    if (*is_v6) {
        int64_t end = str_find(s, STR("]"), 0);
        if (end < 0) return false;
        *name = str_slice(s, 1, (size_t)end);
        rest = str_skip(s, (size_t)end + 1);
    } else {
        size_t n = 0;
        while (n < s.len && is_name_byte(s.ptr[n])) n++;
        *name = str_slice(s, 0, n);
        rest = str_skip(s, n);
    }
    if (name->len == 0 || name->len > NAME_MAX_BYTES) return false;
    return rest.len == 0 || (rest.ptr[0] == ':' && is_port(str_skip(rest, 1)));
}

typedef enum { NO_ADDRESS, OTHER_ADDRESS, LOOPBACK_ADDRESS } address_kind;

static address_kind address_of(str name, bool is_v6)
{
    char text[NAME_MAX_BYTES + 1];
    unsigned char b[16];
    memcpy(text, name.ptr, name.len);
    text[name.len] = 0;
    if (is_v6) {
        static const unsigned char one[16] = {[15] = 1};
        if (inet_pton(AF_INET6, text, b) != 1) return NO_ADDRESS;
        return memcmp(b, one, 16) == 0 ? LOOPBACK_ADDRESS : OTHER_ADDRESS;
    }
    if (inet_pton(AF_INET, text, b) != 1) return NO_ADDRESS;
    return b[0] == 127 ? LOOPBACK_ADDRESS : OTHER_ADDRESS;
}

static bool is_loopback_name(str name)
{
    str tail = STR(".localhost");
    if (equal_fold(name, STR("localhost"))) return true;
    return name.len > tail.len && equal_fold(str_skip(name, name.len - tail.len), tail);
}

static bool is_listed(const str *list, int n, str what)
{
    for (int i = 0; i < n; i++)
        if (equal_fold(list[i], what)) return true;
    return false;
}

status access_check_host(const access_rules *r, str host, err *e)
{
    str name;
    bool is_v6;
    if (!host.ptr) return ERR_OK;
    if (!parse_authority(host, &name, &is_v6))
        return err_set(e, ERR_FORMAT, "Host", -1, "the Host field is no host name and port");
    address_kind kind = address_of(name, is_v6);
    if (is_v6 && kind == NO_ADDRESS)
        return err_set(e, ERR_FORMAT, "Host", -1, "the Host field has no address in its brackets");
    if (kind == LOOPBACK_ADDRESS || is_loopback_name(name)) return ERR_OK;
    if (is_listed(r->hosts, r->n_hosts, name)) return ERR_OK;
    if (!r->is_loopback &&
        (kind == OTHER_ADDRESS || equal_fold(name, r->bind_name) || r->key.len > 0))
        return ERR_OK;
    return err_set(e, ERR_INVALID, "Host", -1,
                   "the host name \"%.*s\" is not accepted; --allowed-host adds it",
                   (int)(name.len < 100 ? name.len : 100), name.ptr);
}

status access_check_origin(const access_rules *r, str origin, str host, err *e)
{
    if (!origin.ptr) return ERR_OK;
    if (is_listed(r->origins, r->n_origins, origin) ||
        is_listed(r->origins, r->n_origins, STR("*")))
        return ERR_OK;
    static const char *const schemes[] = {"http://", "https://"};
    for (int i = 0; i < 2 && host.ptr; i++) {
        str scheme = str_from(schemes[i]);
        if (str_starts(origin, scheme) && equal_fold(str_skip(origin, scheme.len), host))
            return ERR_OK;
    }
    return err_set(e, ERR_INVALID, "Origin", -1,
                   "pages of \"%.*s\" may not use this server; --allowed-origin admits them",
                   (int)(origin.len < 100 ? origin.len : 100), origin.ptr);
}

/* The time depends on the length of what was shown alone. */
static bool is_key(str key, str shown)
{
    volatile unsigned char differs = key.len != shown.len;
    for (size_t i = 0; i < shown.len; i++)
        differs |= (unsigned char)(shown.ptr[i] ^ key.ptr[i % key.len]);
    return !differs;
}

bool access_has_key(const access_rules *r, str authorization, str x_api_key)
{
    str bearer = STR("bearer ");
    if (r->key.len == 0) return true;
    if (!authorization.ptr && !x_api_key.ptr) return false;
    bool is_right = true;
    if (authorization.ptr) {
        bool has_scheme = authorization.len > bearer.len &&
                          equal_fold(str_slice(authorization, 0, bearer.len), bearer);
        str shown = has_scheme ? str_trim(str_skip(authorization, bearer.len)) : STR("");
        is_right &= is_key(r->key, shown);
    }
    if (x_api_key.ptr) is_right &= is_key(r->key, x_api_key);
    return is_right;
}
