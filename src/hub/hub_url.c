#include "hub/hub_url_priv.h"

#include "base/buf.h"

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("-_.~", c));
}

static void put_encoded(buf *out, const char *text, bool keeps_slash)
{
    for (; *text; text++) {
        if (is_plain(*text) || (*text == '/' && keeps_slash))
            buf_put_byte(out, *text);
        else
            buf_printf(out, "%%%02X", (unsigned char)*text);
    }
}

/* Move the text into the arena. */
static char *take(arena *a, buf *url)
{
    char *out = url->failed ? NULL : arena_copy(a, url->ptr, url->len);
    buf_fini(url);
    return out;
}

char *hub_url_listing(arena *a, const char *endpoint, const hub_name *n, const char *revision)
{
    buf url;
    buf_init(&url);
    buf_printf(&url, "%s/api/models/%s/%s/revision/", endpoint, n->owner, n->repo);
    put_encoded(&url, revision, false);
    buf_put_c(&url, "?blobs=true");
    return take(a, &url);
}

char *hub_url_file(arena *a, const char *endpoint, const hub_name *n, const char *commit,
                   const char *path)
{
    buf url;
    buf_init(&url);
    buf_printf(&url, "%s/%s/%s/resolve/%s/", endpoint, n->owner, n->repo, commit);
    put_encoded(&url, path, true);
    return take(a, &url);
}
