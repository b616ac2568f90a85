/* What the environment says about the hub and its cache. */
#include <ctype.h>
#include <stdio.h>

#include "base/file.h"
#include "base/option.h"
#include "hub/hub.h"

enum { TOKEN_MOST = 4096, TIMEOUT_DEFAULT_S = 10, TIMEOUT_MOST_S = 3600 };

static const char *find(const char *name)
{
    const char *text = option_env(name, true);
    return text && *text ? text : NULL;
}

static status fail_memory(err *e)
{
    return err_set(e, ERR_NOMEM, "hub", -1, "out of memory");
}

/* The words that the hub's own tools take for true. */
static bool is_true(const char *name)
{
    const char *text = find(name);
    char word[8] = {0};
    for (int i = 0; text && text[i] && i < 7; i++) word[i] = (char)toupper((unsigned char)text[i]);
    str w = str_from(word);
    return str_is(w, "1") || str_is(w, "ON") || str_is(w, "YES") || str_is(w, "TRUE");
}

static status join(arena *a, const char *dir, const char *name, const char **out, err *e)
{
    *out = file_join(a, dir, name);
    return *out ? ERR_OK : fail_memory(e);
}

/* HF_HOME or what stands for it. */
static status find_home(arena *a, const char **out, err *e)
{
    const char *home = find("HF_HOME"), *cache = find("XDG_CACHE_HOME");
    *out = home;
    if (home) return ERR_OK;
    if (cache) return join(a, cache, "huggingface", out, e);
    home = find("HOME");
    if (!home)
        return err_set(e, ERR_INVALID, "HF_HOME", -1,
                       "is not set, and neither is HOME: where is the cache?");
    return join(a, home, ".cache/huggingface", out, e);
}

static status find_cache(arena *a, const char **out, err *e)
{
    const char *home;
    *out = find("HF_HUB_CACHE");
    if (!*out) *out = find("HUGGINGFACE_HUB_CACHE");
    if (*out) return ERR_OK;
    TRY(find_home(a, &home, e));
    return join(a, home, "hub", out, e);
}

/* A token becomes part of a header: anything but visible characters would be another header. */
static status take_token(arena *a, str text, const char *from, const char **out, err *e)
{
    text = str_trim(text);
    if (text.len == 0) return ERR_OK;
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] <= ' ' || text.ptr[i] > '~')
            return err_set(e, ERR_INVALID, from, -1, "has a character that no token has");
    *out = arena_copy(a, text.ptr, text.len);
    return *out ? ERR_OK : fail_memory(e);
}

static status find_token(arena *a, const char **out, err *e)
{
    const char *text = find("HF_TOKEN"), *path = find("HF_TOKEN_PATH"), *home;
    if (!text) text = find("HUGGING_FACE_HUB_TOKEN");
    if (text) return take_token(a, str_from(text), "HF_TOKEN", out, e);
    if (is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return ERR_OK;
    if (!path) {
        if (find_home(a, &home, NULL) != ERR_OK) return ERR_OK;
        TRY(join(a, home, "token", &path, e));
    }
    str file;
    if (!file_exists(path)) return ERR_OK;
    TRY(file_read(a, path, TOKEN_MOST, &file, e));
    return take_token(a, file, path, out, e);
}

static status find_endpoint(arena *a, const char **out, err *e)
{
    const char *text = find("HF_ENDPOINT");
    str s = str_from(text ? text : "https://huggingface.co");
    while (s.len > 0 && s.ptr[s.len - 1] == '/') s.len--;
    bool is_http = str_starts(s, STR("https://")) || str_starts(s, STR("http://"));
    for (size_t i = 0; is_http && i < s.len; i++)
        is_http = s.ptr[i] > ' ' && s.ptr[i] <= '~' && !strchr("?#@\\", s.ptr[i]);
    if (!is_http)
        return err_set(e, ERR_INVALID, "HF_ENDPOINT", -1, "want https://HOST or http://HOST:PORT");
    *out = arena_copy(a, s.ptr, s.len);
    return *out ? ERR_OK : fail_memory(e);
}

status hub_options_init(hub_options *o, arena *a, err *e)
{
    hub_options next = {.timeout_ms = TIMEOUT_DEFAULT_S * 1000, .retries = 5, .retry_ms = 1000};
    int64_t seconds;
    const char *timeout = find("HF_HUB_DOWNLOAD_TIMEOUT");
    TRY(find_endpoint(a, &next.endpoint, e));
    TRY(find_cache(a, &next.cache, e));
    TRY(find_token(a, &next.token, e));
    next.is_offline = is_true("HF_HUB_OFFLINE");
    if (timeout) {
        if (!str_to_int64(str_from(timeout), &seconds) || seconds < 1 || seconds > TIMEOUT_MOST_S)
            return err_set(e, ERR_INVALID, "HF_HUB_DOWNLOAD_TIMEOUT", -1, "want 1 to %d seconds",
                           TIMEOUT_MOST_S);
        next.timeout_ms = (int)seconds * 1000;
    }
    *o = next;
    return ERR_OK;
}
