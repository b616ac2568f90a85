/* Fetching a model: list, choose, look, and only then the weights. */
#include <stdio.h>
#include <sys/statvfs.h>

#include "base/buf.h"
#include "base/file.h"
#include "hub/blob_priv.h"
#include "hub/choose_priv.h"
#include "hub/hub_url_priv.h"
#include "hub/safe_name_priv.h"

/* The first look at a GGUF file, and how much more each further one takes: heads with a vocabulary
 * of a quarter of a million tokens have some ten megabytes. */
enum { HEAD_FIRST = 1 << 20, HEAD_GROWS = 4, INDEX_MOST = 64 << 20, SMALL_MOST = 256 << 20 };
/* Left free on the disk. */
enum { DISK_MARGIN = 64 << 20 };

static status fail_memory(err *e)
{
    return err_set(e, ERR_NOMEM, "hub", -1, "out of memory");
}

static const char *full_name(arena *a, const hub_name *n)
{
    char text[3 * HUB_NAME_MOST + 8];
    int len = snprintf(text, sizeof text, "%s/%s%s%s", n->owner, n->repo, n->variant[0] ? ":" : "",
                       n->variant);
    return arena_copy(a, text, (size_t)len);
}

static const char *revision(const hub_options *o)
{
    return o->revision ? o->revision : "main";
}

static status check_options(const hub_options *o, err *e)
{
    if (safe_path(str_from(revision(o)))) return ERR_OK;
    return err_set(e, ERR_INVALID, "revision", -1, "\"%s\" is no branch, tag or commit",
                   revision(o));
}

/* --- the list ------------------------------------------------------------------------------------
 */

static status take_text(void *ctx, const uint8_t *bytes, size_t n, err *e)
{
    buf *b = ctx;
    bool fits = n <= b->limit - b->len;
    if (fits) buf_put(b, bytes, n);
    if (b->failed) return fail_memory(e);
    if (fits) return ERR_OK;
    return err_set(e, ERR_FORMAT, "hub", -1, "the list of files is longer than %d bytes",
                   LISTING_BYTES_MOST);
}

static status ask_listing(hub_session *s, buf *text, bool *is_passing, int *retry_after_s, err *e)
{
    http_head head = {.retry_after_s = -1};
    http_request q = {.token = s->o->token,
                      .from = -1,
                      .timeout_ms = s->o->timeout_ms,
                      .total_ms = 3 * s->o->timeout_ms,
                      .on_bytes = take_text,
                      .ctx = text};
    q.url = hub_url_listing(s->dir.mem, s->o->endpoint, s->name, revision(s->o));
    if (!q.url) return fail_memory(e);
    TRY(http_fetch_get(s->http, &q, &head, is_passing, e));
    *retry_after_s = head.retry_after_s;
    TRY(blob_check_code(s, &head, "the repository", is_passing, e));
    if (!head.is_encoded) return ERR_OK;
    return err_set(e, ERR_FORMAT, q.url, -1, "comes compressed, unasked");
}

/* A list in hand counts for the rest of the call; asking again may take a retry or two only, since
 * the cache may do as well. */
static status read_listing(hub_session *s, bool *is_passing, err *e)
{
    buf text;
    status st;
    for (int n_tries = 1;; n_tries++) {
        int retry_after_s = -1;
        *is_passing = false;
        buf_init(&text);
        text.limit = LISTING_BYTES_MOST;
        st = ask_listing(s, &text, is_passing, &retry_after_s, e);
        if (st == ERR_OK || !*is_passing || n_tries > s->o->retries || n_tries > 2) break;
        buf_fini(&text);
        blob_wait(s->o, n_tries, retry_after_s);
    }
    if (st == ERR_OK)
        st = listing_parse(&s->files, s->dir.mem, buf_str(&text), full_name(s->dir.mem, s->name),
                           e);
    buf_fini(&text);
    return st;
}

/* --- the small files and the look ----------------------------------------------------------------
 */

static status link_file(hub_session *s, int i, err *e)
{
    const listing_file *f = &s->files.files[i];
    return cache_dir_link(&s->dir, s->files.commit, f->path, f->digest, e);
}

static status fetch_file(hub_session *s, int i, err *e)
{
    blob b;
    TRY(blob_open(&b, s, &s->files.files[i], e));
    status st = blob_finish(&b, e);
    blob_close(&b);
    return st;
}

static status fetch_small(hub_session *s, const choice *c, err *e)
{
    for (int i = 0; i < c->n_small; i++) {
        const listing_file *f = &s->files.files[c->small[i]];
        if (f->n_bytes > SMALL_MOST)
            return err_set(e, ERR_FORMAT, f->path, -1, "has %lld bytes: too many for what it is",
                           (long long)f->n_bytes);
        TRY(fetch_file(s, c->small[i], e));
        TRY(link_file(s, c->small[i], e));
    }
    return ERR_OK;
}

static status read_shards(hub_session *s, choice *c, err *e)
{
    str text;
    if (c->index < 0) return ERR_OK;
    const char *path = cache_dir_snapshot(&s->dir, s->files.commit, s->files.files[c->index].path);
    if (!path) return fail_memory(e);
    TRY(file_read(s->dir.mem, path, INDEX_MOST, &text, e));
    return choose_shards(c, s->dir.mem, &s->files, text, path, e);
}

static status check_folder(hub_session *s, err *e)
{
    hub_sight sight = {.dir = cache_dir_snapshot(&s->dir, s->files.commit, NULL)};
    bool wants_more = false;
    if (!sight.dir) return fail_memory(e);
    return s->o->check ? s->o->check(s->o->ctx, &sight, &wants_more, e) : ERR_OK;
}

static status look(const blob *b, bool *wants_more, err *e)
{
    file_map map = {0};
    TRY(file_map_open(&map, b->is_there ? b->path : b->partial, e));
    hub_sight sight = {
        .file = b->f->path, .head = map.ptr, .n_head = map.n_bytes, .n_file = b->f->n_bytes};
    status st = b->s->o->check(b->s->o->ctx, &sight, wants_more, e);
    file_map_close(&map);
    return st;
}

/* Fetch as much of a GGUF file as its head takes, and look at that. The bytes stay in the partial
 * file, so nothing is fetched twice. */
static status check_head(hub_session *s, int i, err *e)
{
    blob b;
    int64_t n_before = s->n_done;
    if (!s->o->check) return ERR_OK;
    TRY(blob_open(&b, s, &s->files.files[i], e));
    status st = ERR_OK;
    bool wants_more = true;
    for (int64_t until = HEAD_FIRST; st == ERR_OK && wants_more; until *= HEAD_GROWS) {
        wants_more = false;
        st = blob_fill(&b, until, e);
        if (st == ERR_OK) st = look(&b, &wants_more, e);
        if (wants_more && b.n < b.f->n_bytes) st = ERR_OK;
    }
    blob_close(&b);
    s->n_done = n_before; /* counted again when it is opened for the rest */
    return st;
}

/* --- the weights ---------------------------------------------------------------------------------
 */

static int64_t sum_bytes(const hub_session *s, const int *list, int n)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
        if (__builtin_add_overflow(sum, s->files.files[list[i]].n_bytes, &sum)) return INT64_MAX;
    return sum;
}

/* Bytes that a partial file already takes are not needed again. */
static int64_t missing_bytes(const hub_session *s, const choice *c)
{
    int64_t need = 0;
    for (int i = 0; i < c->n_weights; i++) {
        const listing_file *f = &s->files.files[c->weights[i]];
        if (blob_is_there(s, f)) continue;
        int64_t has = blob_partial_bytes(s, f), lacks = f->n_bytes > has ? f->n_bytes - has : 0;
        if (__builtin_add_overflow(need, lacks, &need)) need = INT64_MAX;
    }
    return need;
}

static status check_disk(const hub_session *s, const choice *c, err *e)
{
    struct statvfs v;
    int64_t need = missing_bytes(s, c);
    if (need == 0 || statvfs(s->dir.repo, &v) != 0) return ERR_OK;
    double free_bytes = (double)v.f_bavail * (double)v.f_frsize;
    if ((double)need + DISK_MARGIN <= free_bytes) return ERR_OK;
    return err_set(e, ERR_IO, s->dir.repo, -1,
                   "%.1f GB are still to come, the disk has %.1f GB free; nothing more was fetched",
                   (double)need * 1e-9, free_bytes * 1e-9);
}

static status fetch_weights(hub_session *s, const choice *c, err *e)
{
    TRY(check_disk(s, c, e));
    for (int i = 0; i < c->n_weights; i++) TRY(fetch_file(s, c->weights[i], e));
    for (int i = 0; i < c->n_weights; i++) TRY(link_file(s, c->weights[i], e));
    return ERR_OK;
}

static status set_result(hub_session *s, const choice *c, hub_model *out, err *e)
{
    const char *file = c->is_gguf ? s->files.files[c->weights[0]].path : NULL;
    hub_model m = {.path = cache_dir_snapshot(&s->dir, s->files.commit, file),
                   .commit = arena_copy(s->dir.mem, s->files.commit, COMMIT_DIGITS),
                   .n_bytes = sum_bytes(s, c->weights, c->n_weights) +
                              sum_bytes(s, c->small, c->n_small),
                   .n_fetched = s->n_fetched,
                   .n_files = c->n_weights + c->n_small};
    if (!m.path || !m.commit) return fail_memory(e);
    *out = m;
    return ERR_OK;
}

static status fetch_model(hub_session *s, hub_model *out, err *e)
{
    choice c;
    const char *where = full_name(s->dir.mem, s->name);
    if (!where) return fail_memory(e);
    TRY(choose_files(&c, s->dir.mem, &s->files, s->name->variant, where, e));
    TRY(cache_dir_make(&s->dir, e));
    TRY(fetch_small(s, &c, e));
    TRY(read_shards(s, &c, e));
    s->n_total = sum_bytes(s, c.weights, c.n_weights) + s->n_done;
    TRY(c.is_gguf ? check_head(s, c.weights[0], e) : check_folder(s, e));
    if (s->o->only_looks) {
        TRY(set_result(s, &c, out, e));
        out->path = NULL;
        out->n_missing = missing_bytes(s, &c);
        return ERR_OK;
    }
    TRY(fetch_weights(s, &c, e));
    /* Last: who starts without the network must find a revision that is complete. */
    TRY(cache_dir_write_ref(&s->dir, revision(s->o), s->files.commit, e));
    return set_result(s, &c, out, e);
}

/* --- the door ------------------------------------------------------------------------------------
 */

status hub_find(const hub_name *n, const hub_options *o, arena *a, hub_model *out, err *e)
{
    hub_session s = {.o = o, .name = n};
    char commit[COMMIT_DIGITS + 1];
    choice c;
    const char *where = full_name(a, n);
    if (!where) return fail_memory(e);
    TRY(check_options(o, e));
    TRY(cache_dir_init(&s.dir, a, o->cache, n, e));
    TRY(cache_dir_read_ref(&s.dir, revision(o), commit, e));
    TRY(cache_dir_list(&s.dir, commit, &s.files, e));
    TRY(choose_files(&c, a, &s.files, n->variant, where, e));
    TRY(read_shards(&s, &c, e));
    return set_result(&s, &c, out, e);
}

static status find_offline(const hub_name *n, const hub_options *o, arena *a, hub_model *out,
                           err *e)
{
    err why = {0};
    status st = hub_find(n, o, a, out, &why);
    if (st == ERR_OK) return ERR_OK;
    if (e) *e = why;
    if (st != ERR_IO) return st;
    return err_set(e, st, full_name(a, n), -1, "is not whole in the cache, and offline: %.170s",
                   why.msg);
}

/* What the cache has instead, when the hub could not be asked. */
static status take_cached(hub_session *s, status why, hub_model *out, err *e)
{
    err first = e ? *e : (err){0}, second;
    if (hub_find(s->name, s->o, s->dir.mem, out, &second) != ERR_OK) {
        if (e) *e = first;
        return why;
    }
    if (s->o->on_note) {
        char text[600];
        snprintf(text, sizeof text, "the hub could not be asked (%s); taking what the cache has",
                 first.msg);
        s->o->on_note(s->o->ctx, text);
    }
    return ERR_OK;
}

status hub_pull(const hub_name *n, const hub_options *o, arena *a, hub_model *out, err *e)
{
    hub_session s = {.o = o, .name = n};
    bool is_passing = false;
    if (o->is_offline) return find_offline(n, o, a, out, e);
    TRY(check_options(o, e));
    TRY(cache_dir_init(&s.dir, a, o->cache, n, e));
    TRY(http_fetch_open(&s.http, e));
    status st = read_listing(&s, &is_passing, e);
    bool may_be_cached = is_passing || (st != ERR_OK && st != ERR_INVALID && st != ERR_NOMEM);
    if (st == ERR_OK)
        st = fetch_model(&s, out, e);
    else if (may_be_cached)
        st = take_cached(&s, st, out, e);
    http_fetch_close(s.http);
    return st;
}
