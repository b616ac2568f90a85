#include "server/response_store_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

enum {
    FORMAT_VERSION = 1,
    APPLICATION_ID = 0x72697074, /* "ript", in the file's header */
    BUSY_MS = 200,               /* another server may have the same file open */
};

/* Bytes are counted over the index alone, which has no text in it. */
static const char schema[] =
    "CREATE TABLE IF NOT EXISTS response (id TEXT PRIMARY KEY NOT NULL, used INTEGER NOT NULL,"
    " n_bytes INTEGER NOT NULL, response BLOB NOT NULL, items BLOB NOT NULL);"
    "CREATE INDEX IF NOT EXISTS response_by_use ON response (used, n_bytes);";

static const char *const texts[STORE_QUERIES] = {
    [STORE_PUT] = "INSERT INTO response (id, used, n_bytes, response, items)"
                  " VALUES (?1, ?2, ?3, ?4, ?5)",
    [STORE_GET] = "SELECT response, items FROM response WHERE id = ?1",
    [STORE_TOUCH] = "UPDATE response SET used = ?2 WHERE id = ?1",
    [STORE_DROP] = "DELETE FROM response WHERE id = ?1",
    [STORE_COUNT_BYTES] = "SELECT coalesce(sum(n_bytes), 0), coalesce(max(used), 0) FROM response",
    [STORE_DROP_OLDEST] = "DELETE FROM response WHERE rowid IN"
                          " (SELECT rowid FROM response ORDER BY used LIMIT 1)",
};

/* --- open and close ----------------------------------------------------------------------------
 */

static status set_failure(const response_store *s, const char *path, int r, err *e)
{
    const char *where = path ? path : "response store";
    switch (r & 0xff) {
    case SQLITE_NOMEM: return err_set(e, ERR_NOMEM, where, -1, "response store");
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return err_set(e, ERR_FORMAT, where, -1, "is no store of responses: %s", sqlite3_errstr(r));
    default:
        return err_set(e, ERR_IO, where, -1, "%s",
                       s->db ? sqlite3_errmsg(s->db) : sqlite3_errstr(r));
    }
}

static status run(response_store *s, const char *path, const char *sql, err *e)
{
    int r = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    return r == SQLITE_OK ? ERR_OK : set_failure(s, path, r, e);
}

/* A number that one row of one column holds. */
static status read_number(response_store *s, const char *path, const char *sql, int64_t *out,
                          err *e)
{
    sqlite3_stmt *q = NULL;
    int r = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL);
    if (r == SQLITE_OK) r = sqlite3_step(q);
    if (r == SQLITE_ROW) *out = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    return r == SQLITE_ROW ? ERR_OK : set_failure(s, path, r, e);
}

/* SQLite gives its other files the rights of the first one, which it would make for all to read. */
static status make_file(const char *path, err *e)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0) return err_set(e, ERR_IO, path, -1, "%s", strerror(errno));
    close(fd);
    return ERR_OK;
}

/* A database that is not ours is left as it is. */
static status check_kind(response_store *s, const char *path, err *e)
{
    int64_t kind, version, n_tables;
    char sql[120];
    TRY(read_number(s, path, "PRAGMA application_id", &kind, e));
    TRY(read_number(s, path, "PRAGMA user_version", &version, e));
    TRY(read_number(s, path, "SELECT count(*) FROM sqlite_master", &n_tables, e));
    if (kind != APPLICATION_ID && n_tables > 0)
        return err_set(e, ERR_FORMAT, path, -1, "is a database of something else");
    if (version > FORMAT_VERSION)
        return err_set(e, ERR_UNSUPPORTED, path, -1, "was made by a newer riptide");
    snprintf(sql, sizeof sql, "PRAGMA application_id = %d; PRAGMA user_version = %d",
             APPLICATION_ID, FORMAT_VERSION);
    return n_tables > 0 ? ERR_OK : run(s, path, sql, e);
}

static status prepare(response_store *s, const char *path, err *e)
{
    for (int i = 0; i < STORE_QUERIES; i++) {
        int r = sqlite3_prepare_v3(s->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &s->queries[i],
                                   NULL);
        if (r != SQLITE_OK) return set_failure(s, path, r, e);
    }
    return read_number(s, path, "SELECT coalesce(max(used), 0) FROM response", &s->clock, e);
}

static status open_db(response_store *s, const char *path, err *e)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (path) TRY(make_file(path, e));
    int r = sqlite3_open_v2(path ? path : ":memory:", &s->db, flags, NULL);
    if (r != SQLITE_OK) return set_failure(s, path, r, e);
    sqlite3_busy_timeout(s->db, BUSY_MS);
    /* A write ahead log without a flush for every answer: after a power cut the last ones may be
     * missing, the file is whole. */
    TRY(check_kind(s, path, e));
    TRY(run(s, path,
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
            "PRAGMA secure_delete = ON; PRAGMA trusted_schema = OFF",
            e));
    TRY(run(s, path, schema, e));
    return prepare(s, path, e);
}

status response_store_open(response_store *s, const char *path, int64_t limit, err *e)
{
    *s = (response_store){.limit = limit, .has_lock = true};
    mutex_init(&s->lock);
    status st = open_db(s, path, e);
    if (st != ERR_OK) response_store_close(s);
    return st;
}

void response_store_close(response_store *s)
{
    if (!s->has_lock) return;
    for (int i = 0; i < STORE_QUERIES; i++) sqlite3_finalize(s->queries[i]);
    sqlite3_close(s->db);
    mutex_fini(&s->lock);
    *s = (response_store){0};
}

/* --- use ---------------------------------------------------------------------------------------
 */

static void bind_id(sqlite3_stmt *q, str id)
{
    sqlite3_bind_text64(q, 1, id.ptr, id.len, SQLITE_STATIC, SQLITE_UTF8);
}

/* Run a query that gives no rows; its bindings end. */
static bool finish(response_store *s, response_store_query which)
{
    sqlite3_stmt *q = s->queries[which];
    int r = sqlite3_step(q);
    sqlite3_reset(q);
    sqlite3_clear_bindings(q);
    return r == SQLITE_DONE;
}

static int64_t count_bytes(response_store *s)
{
    sqlite3_stmt *q = s->queries[STORE_COUNT_BYTES];
    int64_t n = sqlite3_step(q) == SQLITE_ROW ? sqlite3_column_int64(q, 0) : 0;
    if (sqlite3_column_int64(q, 1) > s->clock) s->clock = sqlite3_column_int64(q, 1);
    sqlite3_reset(q);
    return n;
}

/* Those not used for longest go, so that n_bytes more fit. */
static bool make_room(response_store *s, int64_t n_bytes)
{
    while (count_bytes(s) + n_bytes > s->limit) {
        if (!finish(s, STORE_DROP_OLDEST)) return false;
        if (sqlite3_changes(s->db) == 0) break;
    }
    return true;
}

static bool put(response_store *s, str id, str response, str items, int64_t n_bytes)
{
    sqlite3_stmt *q = s->queries[STORE_PUT];
    bind_id(s->queries[STORE_DROP], id);
    if (!finish(s, STORE_DROP) || !make_room(s, n_bytes)) return false;
    bind_id(q, id);
    sqlite3_bind_int64(q, 2, ++s->clock);
    sqlite3_bind_int64(q, 3, n_bytes);
    sqlite3_bind_blob64(q, 4, response.len ? response.ptr : "", response.len, SQLITE_STATIC);
    sqlite3_bind_blob64(q, 5, items.len ? items.ptr : "", items.len, SQLITE_STATIC);
    return finish(s, STORE_PUT);
}

/* With what goes for it, or not at all. */
static bool put_whole(response_store *s, str id, str response, str items, int64_t n_bytes)
{
    return sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK &&
           put(s, id, response, items, n_bytes) &&
           sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK;
}

void response_store_put(response_store *s, str id, str response, str items)
{
    int64_t n_bytes = (int64_t)(id.len + response.len + items.len);
    if (n_bytes > s->limit) return;
    mutex_lock(&s->lock);
    if (!put_whole(s, id, response, items, n_bytes))
        log_event(LOG_WARN, "response_not_kept", "why=%s", sqlite3_errmsg(s->db));
    if (!sqlite3_get_autocommit(s->db)) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    mutex_unlock(&s->lock);
}

static void put_column(buf *out, sqlite3_stmt *q, int column)
{
    if (!out) return;
    const char *text = sqlite3_column_blob(q, column);
    int n = sqlite3_column_bytes(q, column);
    if (text) buf_put_str(out, (str){text, (size_t)n});
}

bool response_store_get(response_store *s, str id, buf *response, buf *items)
{
    mutex_lock(&s->lock);
    sqlite3_stmt *q = s->queries[STORE_GET];
    bind_id(q, id);
    bool is_there = sqlite3_step(q) == SQLITE_ROW;
    if (is_there) {
        put_column(response, q, 0);
        put_column(items, q, 1);
    }
    sqlite3_reset(q);
    sqlite3_clear_bindings(q);
    if (is_there) {
        bind_id(s->queries[STORE_TOUCH], id);
        sqlite3_bind_int64(s->queries[STORE_TOUCH], 2, ++s->clock);
        finish(s, STORE_TOUCH);
    }
    mutex_unlock(&s->lock);
    return is_there;
}

bool response_store_drop(response_store *s, str id)
{
    mutex_lock(&s->lock);
    bind_id(s->queries[STORE_DROP], id);
    bool was_there = finish(s, STORE_DROP) && sqlite3_changes(s->db) > 0;
    mutex_unlock(&s->lock);
    return was_there;
}

int64_t response_store_bytes(response_store *s)
{
    mutex_lock(&s->lock);
    int64_t n = count_bytes(s);
    mutex_unlock(&s->lock);
    return n;
}
