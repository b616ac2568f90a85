#include "hub/blob_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "hub/hub_url_priv.h"
#include "hub/safe_name_priv.h"

enum { WAIT_MOST_MS = 60000, LOCK_POLL_MS = 100, TELL_NS = 250000000, READ_BYTES = 1 << 16 };

static status fail_memory(err *e)
{
    return err_set(e, ERR_NOMEM, "hub", -1, "out of memory");
}

static status fail_io(const char *path, const char *what, err *e)
{
    return err_set(e, ERR_IO, path, -1, "%s: %s", what, strerror(errno));
}

static void note(const hub_session *s, const char *file, const char *what)
{
    char text[512];
    if (!s->o->on_note) return;
    snprintf(text, sizeof text, "%s: %s", file, what);
    s->o->on_note(s->o->ctx, text);
}

static void sleep_ms(int64_t ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

void blob_wait(const hub_options *o, int n, int retry_after_s)
{
    int64_t ms = (int64_t)o->retry_ms << (n < 10 ? n - 1 : 9);
    if (retry_after_s >= 0) ms = (int64_t)retry_after_s * 1000;
    sleep_ms(ms > WAIT_MOST_MS ? WAIT_MOST_MS : ms);
}

/* --- progress ------------------------------------------------------------------------------------
 */

static void tell(hub_session *s, bool at_once)
{
    int64_t now = clock_ns();
    if (!s->o->on_progress || (!at_once && now - s->mark_ns < TELL_NS)) return;
    double seconds = (double)(now - s->mark_ns) * 1e-9;
    if (s->mark_ns > 0 && seconds > 0.05) {
        double last = (double)(s->n_fetched - s->mark_bytes) / seconds;
        s->rate = s->rate > 0 ? 0.8 * s->rate + 0.2 * last : last;
    }
    s->mark_ns = now;
    s->mark_bytes = s->n_fetched;
    double left = s->rate > 0 ? (double)(s->n_total - s->n_done) / s->rate : -1;
    s->o->on_progress(s->o->ctx, &(hub_progress){s->file, s->n_done, s->n_total, s->rate, left});
}

/* --- opening -------------------------------------------------------------------------------------
 */

static status take_lock(blob *b, err *e)
{
    const char *path = cache_dir_lock(&b->s->dir, b->f->digest);
    if (!path) return fail_memory(e);
    b->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (b->lock_fd < 0) return fail_io(path, "cannot open the lock", e);
    for (bool was_told = false; flock(b->lock_fd, LOCK_EX | LOCK_NB) != 0;) {
        if (errno != EWOULDBLOCK && errno != EINTR) return fail_io(path, "cannot lock", e);
        if (!was_told) note(b->s, b->f->path, "waiting for another process that fetches it");
        was_told = true;
        sleep_ms(LOCK_POLL_MS);
    }
    return ERR_OK;
}

/* Read what an earlier process left, for the digest. */
static status read_partial(blob *b, err *e)
{
    char bytes[READ_BYTES];
    for (;;) {
        ssize_t n = pread(b->fd, bytes, sizeof bytes, b->n);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_io(b->partial, "cannot read", e);
        if (n == 0) return ERR_OK;
        digest_add(&b->sum, bytes, (size_t)n);
        b->n += n;
    }
}

/* Throw away what there is and begin anew. */
static status start_over(blob *b, err *e)
{
    digest_close(&b->sum);
    b->s->n_done -= b->n;
    b->n = b->n_resumed = 0;
    if (ftruncate(b->fd, 0) != 0) return fail_io(b->partial, "cannot empty", e);
    return digest_open(&b->sum, b->f->is_sha256, b->f->n_bytes, e);
}

static status open_partial(blob *b, err *e)
{
    struct stat st;
    b->fd = open(b->partial, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (b->fd < 0) return fail_io(b->partial, "cannot open", e);
    if (fstat(b->fd, &st) != 0) return fail_io(b->partial, "cannot look at", e);
    TRY(digest_open(&b->sum, b->f->is_sha256, b->f->n_bytes, e));
    if (st.st_size > b->f->n_bytes) return start_over(b, e); /* no beginning of this file */
    TRY(read_partial(b, e));
    b->n_resumed = b->n;
    b->s->n_done += b->n;
    return ERR_OK;
}

bool blob_is_there(const hub_session *s, const listing_file *f)
{
    struct stat st;
    const char *path = cache_dir_blob(&s->dir, f->digest, "");
    return path && stat(path, &st) == 0 && st.st_size == f->n_bytes;
}

int64_t blob_partial_bytes(const hub_session *s, const listing_file *f)
{
    struct stat st;
    const char *path = cache_dir_blob(&s->dir, f->digest, ".incomplete");
    return path && stat(path, &st) == 0 ? st.st_size : 0;
}

static status open_all(blob *b, err *e)
{
    b->path = cache_dir_blob(&b->s->dir, b->f->digest, "");
    b->partial = cache_dir_blob(&b->s->dir, b->f->digest, ".incomplete");
    b->url = hub_url_file(b->s->dir.mem, b->s->o->endpoint, b->s->name, b->s->files.commit,
                          b->f->path);
    if (!b->path || !b->partial || !b->url) return fail_memory(e);
    TRY(take_lock(b, e));
    b->is_there = blob_is_there(b->s, b->f);
    if (!b->is_there) return open_partial(b, e);
    b->n = b->f->n_bytes;
    b->s->n_done += b->n;
    return ERR_OK;
}

status blob_open(blob *b, hub_session *s, const listing_file *f, err *e)
{
    *b = (blob){.s = s, .f = f, .lock_fd = -1, .fd = -1};
    s->file = f->path;
    status st = open_all(b, e);
    if (st != ERR_OK) blob_close(b);
    return st;
}

void blob_close(blob *b)
{
    digest_close(&b->sum);
    if (b->fd >= 0) close(b->fd);
    if (b->lock_fd >= 0) close(b->lock_fd); /* gives the lock back */
    b->fd = b->lock_fd = -1;
}

/* --- fetching ------------------------------------------------------------------------------------
 */

status blob_check_code(const hub_session *s, const http_head *h, const char *what, bool *is_passing,
                       err *e)
{
    char where[2 * HUB_NAME_MOST + 8];
    snprintf(where, sizeof where, "%s/%s", s->name->owner, s->name->repo);
    *is_passing = h->code == 408 || h->code == 429 || h->code >= 500;
    if (h->code == 200 || h->code == 206) return ERR_OK;
    bool is_gated = strcmp(h->problem, "GatedRepo") == 0;
    if (is_gated || (h->code == 403 && s->o->token))
        return err_set(e, ERR_INVALID, where, -1,
                       "is gated: accept its terms at %s/%s, then set HF_TOKEN to a token of that "
                       "account",
                       s->o->endpoint, where);
    if (h->code == 401 || h->code == 403)
        return err_set(e, ERR_INVALID, where, -1,
                       "code %d: there is no such repository, or it is private: %s", h->code,
                       s->o->token ? "the token gives no access" : "set HF_TOKEN");
    if (h->code == 404 || h->code == 410) {
        if (strcmp(h->problem, "RevisionNotFound") == 0)
            return err_set(e, ERR_INVALID, where, -1, "has no revision %s",
                           s->o->revision ? s->o->revision : "main");
        return err_set(e, ERR_INVALID, where, -1, "code %d: %s does not exist%s", h->code, what,
                       s->o->token ? "" : " (or is private: HF_TOKEN is not set)");
    }
    if (h->code == 429)
        return err_set(e, ERR_LIMIT, where, -1, "code 429: the hub takes no more requests now");
    return err_set(e, ERR_IO, where, -1, "code %d from the hub for %s", h->code, what);
}

/* The hub's own digests only: other servers' tags mean nothing. */
static bool is_other(const blob *b, const char *etag)
{
    str tag = str_from(etag);
    return safe_hex(tag, strlen(b->f->digest)) && !str_is(tag, b->f->digest);
}

static status check_head(void *ctx, const http_head *h, err *e)
{
    blob *b = ctx;
    const char *where = b->f->path;
    int64_t size = b->f->n_bytes;
    if (h->is_encoded) return err_set(e, ERR_FORMAT, where, -1, "comes compressed, unasked");
    if (is_other(b, h->etag) || (h->commit[0] && strcmp(h->commit, b->s->files.commit) != 0))
        return err_set(e, ERR_FORMAT, where, -1,
                       "changed while it was fetched: what came is kept; pull again");
    if (h->code == 206) {
        if (h->range_from != b->n || (h->range_total >= 0 && h->range_total != size))
            return err_set(e, ERR_FORMAT, where, -1,
                           "asked for byte %lld of %lld, the answer is from byte %lld of %lld",
                           (long long)b->n, (long long)size, (long long)h->range_from,
                           (long long)h->range_total);
        b->n_skip = 0;
        if (h->n_body <= b->until - b->n) return ERR_OK;
        return err_set(e, ERR_FORMAT, where, -1, "the answer is longer than what was asked for");
    }
    if (h->n_body >= 0 && h->n_body != size)
        return err_set(e, ERR_FORMAT, where, -1, "has %lld bytes (%s), the list says %lld",
                       (long long)h->n_body, h->type[0] ? h->type : "no type", (long long)size);
    if (h->n_body < 0 && str_starts(str_from(h->type), STR("text/html")))
        return err_set(e, ERR_FORMAT, where, -1,
                       "a web page came in its place: does something stand between?");
    b->n_skip = b->n;
    return ERR_OK;
}

static status write_all(blob *b, const uint8_t *bytes, size_t n, err *e)
{
    for (size_t at = 0; at < n;) {
        ssize_t w = pwrite(b->fd, bytes + at, n - at, b->n + (int64_t)at);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0) return fail_io(b->partial, "cannot write (what came is kept)", e);
        at += (size_t)w;
    }
    return ERR_OK;
}

static status take_bytes(void *ctx, const uint8_t *bytes, size_t n, err *e)
{
    blob *b = ctx;
    if (b->n_skip > 0) {
        size_t skip = (int64_t)n < b->n_skip ? n : (size_t)b->n_skip;
        b->n_skip -= (int64_t)skip;
        bytes += skip;
        n -= skip;
    }
    if ((int64_t)n > b->f->n_bytes - b->n)
        return err_set(e, ERR_FORMAT, b->f->path, -1, "is longer than the %lld bytes of the list",
                       (long long)b->f->n_bytes);
    TRY(write_all(b, bytes, n, e));
    digest_add(&b->sum, bytes, n);
    b->n += (int64_t)n;
    b->s->n_done += (int64_t)n;
    b->s->n_fetched += (int64_t)n;
    tell(b->s, false);
    /* A server without ranges would send all of it. */
    return b->n >= b->until && b->until < b->f->n_bytes ? ERR_CANCELED : ERR_OK;
}

/* One request for the bytes from b->n on. */
static status ask(blob *b, bool *is_passing, int *retry_after_s, err *e)
{
    http_head head = {.retry_after_s = -1};
    http_request q = {.url = b->url,
                      .token = b->s->o->token,
                      .from = b->n,
                      .to = b->until,
                      .timeout_ms = b->s->o->timeout_ms,
                      .on_head = check_head,
                      .on_bytes = take_bytes,
                      .ctx = b};
    status s = http_fetch_get(b->s->http, &q, &head, is_passing, e);
    if (s == ERR_CANCELED && b->n >= b->until) return ERR_OK;
    TRY(s);
    *retry_after_s = head.retry_after_s;
    TRY(blob_check_code(b->s, &head, b->f->path, is_passing, e));
    if (b->n >= b->until) return ERR_OK;
    *is_passing = true;
    return err_set(e, ERR_IO, b->f->path, -1, "the answer ended early");
}

/* Say how far it came, so that nobody starts from nothing. */
static status fail_cut(const blob *b, status s, err *e)
{
    char reason[160];
    if (!e || b->n == 0) return s;
    snprintf(reason, sizeof reason, "%s", e->msg);
    return err_set(e, s, b->f->path, -1, "cut at %lld of %lld bytes, which are kept: %s",
                   (long long)b->n, (long long)b->f->n_bytes, reason);
}

status blob_fill(blob *b, int64_t until, err *e)
{
    err local = {0};
    if (!e) e = &local;
    b->until = until < b->f->n_bytes ? until : b->f->n_bytes;
    for (int n_tries = 0; !b->is_there && b->n < b->until;) {
        bool is_passing = false;
        int retry_after_s = -1;
        int64_t before = b->n;
        status s = ask(b, &is_passing, &retry_after_s, e);
        if (s == ERR_OK) return ERR_OK;
        if (!is_passing) return s;
        n_tries = b->n > before ? 1 : n_tries + 1;
        if (n_tries > b->s->o->retries) return fail_cut(b, s, e);
        char text[280];
        snprintf(text, sizeof text, "%s; trying again", e->msg);
        note(b->s, b->f->path, text);
        blob_wait(b->s->o, n_tries, retry_after_s);
    }
    return ERR_OK;
}

/* True when the bytes are those that the hub names. */
static bool is_right(blob *b, char has[DIGEST_TEXT])
{
    digest_close_to(&b->sum, has);
    return strcmp(has, b->f->digest) == 0;
}

status blob_finish(blob *b, err *e)
{
    char has[DIGEST_TEXT];
    if (b->is_there) return ERR_OK;
    TRY(blob_fill(b, b->f->n_bytes, e));
    bool was_resumed = b->n_resumed > 0, is_ok = is_right(b, has);
    if (!is_ok && was_resumed) {
        /* The beginning is another process's: once more, all of it. */
        note(b->s, b->f->path, "the part that was here is damaged; fetching it anew");
        TRY(start_over(b, e));
        TRY(blob_fill(b, b->f->n_bytes, e));
        is_ok = is_right(b, has);
    }
    if (!is_ok)
        return err_set(e, ERR_IO, b->f->path, -1,
                       "is damaged: its digest is %.16s…, the hub says %.16s…; pull again", has,
                       b->f->digest);
    if (fdatasync(b->fd) != 0) return fail_io(b->partial, "cannot write", e);
    if (rename(b->partial, b->path) != 0) return fail_io(b->path, "cannot rename", e);
    b->is_there = true;
    tell(b->s, true);
    return ERR_OK;
}
