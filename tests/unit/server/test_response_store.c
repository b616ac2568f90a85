#include "server/response_store_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "support/test.h"

static response_store s;

static void begin(const char *path, int64_t limit)
{
    err e = {0};
    CHECK_OK(response_store_open(&s, path, limit, &e), &e);
}

static bool is_there(const char *id, const char *response, const char *items)
{
    buf a, b;
    buf_init(&a);
    buf_init(&b);
    bool found = response_store_get(&s, str_from(id), &a, &b);
    if (found) {
        assert_string_equal(buf_str(&a).ptr, response);
        assert_string_equal(buf_str(&b).ptr, items);
    }
    buf_fini(&a);
    buf_fini(&b);
    return found;
}

TEST(what_is_kept_can_be_had_again_until_it_is_dropped)
{
    begin(NULL, 4000);
    assert_false(is_there("a", "", ""));
    response_store_put(&s, STR("a"), STR("one"), STR("[]"));
    response_store_put(&s, STR("b"), STR(""), STR("[1]"));
    assert_true(is_there("a", "one", "[]") && is_there("b", "", "[1]"));
    response_store_put(&s, STR("a"), STR("two"), STR("[2]"));
    assert_true(is_there("a", "two", "[2]"));
    assert_true(response_store_get(&s, STR("a"), NULL, NULL));
    assert_true(response_store_drop(&s, STR("a")));
    assert_false(response_store_drop(&s, STR("a")));
    assert_false(is_there("a", "", ""));
    assert_true(is_there("b", "", "[1]"));
    response_store_close(&s);
    response_store_close(&s);
}

TEST(the_one_not_used_for_longest_goes_first)
{
    static char text[1000];
    str big = {text, sizeof text};
    memset(text, 'x', sizeof text);
    begin(NULL, 3500); /* three of them */
    response_store_put(&s, STR("a"), big, STR(""));
    response_store_put(&s, STR("b"), big, STR(""));
    response_store_put(&s, STR("c"), big, STR(""));
    assert_true(response_store_get(&s, STR("a"), NULL, NULL));
    response_store_put(&s, STR("d"), STR(""), big);
    assert_false(response_store_get(&s, STR("b"), NULL, NULL));
    assert_true(response_store_get(&s, STR("a"), NULL, NULL));
    assert_true(response_store_get(&s, STR("c"), NULL, NULL));
    assert_true(response_store_get(&s, STR("d"), NULL, NULL));
    assert_true(response_store_bytes(&s) <= 3500);
    response_store_close(&s);
}

TEST(what_does_not_fit_is_not_kept_and_nothing_goes_for_it)
{
    static char text[5000];
    begin(NULL, 4000);
    response_store_put(&s, STR("a"), STR("one"), STR("[]"));
    response_store_put(&s, STR("b"), (str){text, sizeof text}, STR(""));
    assert_false(response_store_get(&s, STR("b"), NULL, NULL));
    assert_true(is_there("a", "one", "[]"));
    response_store_close(&s);
}

/* A name of a file that is not there yet. */
static const char *new_path(void)
{
    static char path[] = "/tmp/riptide-store-XXXXXX";
    snprintf(path, sizeof path, "/tmp/riptide-store-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    unlink(path);
    return path;
}

static void remove_all(const char *path)
{
    char name[64];
    static const char *const ends[] = {"", "-wal", "-shm"};
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        unlink(name);
    }
}

TEST(a_file_keeps_them_over_a_restart_with_the_order_of_their_use)
{
    static char text[1000];
    str big = {text, sizeof text};
    const char *path = new_path();
    struct stat st;
    memset(text, 'x', sizeof text);
    begin(path, 3500);
    response_store_put(&s, STR("a"), STR("one"), STR("[]"));
    response_store_put(&s, STR("b"), big, STR(""));
    response_store_put(&s, STR("c"), big, STR(""));
    assert_true(is_there("a", "one", "[]"));
    response_store_close(&s);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    begin(path, 3500);
    assert_true(is_there("a", "one", "[]"));
    response_store_put(&s, STR("d"), big, big);
    assert_false(response_store_get(&s, STR("b"), NULL, NULL));
    assert_true(response_store_get(&s, STR("c"), NULL, NULL));
    assert_true(is_there("a", "one", "[]"));
    response_store_close(&s);
    begin(path, 3100); /* a smaller limit takes effect with the next one */
    response_store_put(&s, STR("e"), STR("x"), STR(""));
    assert_true(response_store_bytes(&s) <= 3100);
    assert_true(is_there("e", "x", ""));
    response_store_close(&s);
    remove_all(path);
}

/* As a server that was killed leaves it: the log is still there. */
TEST(what_was_kept_is_there_for_another_server_at_once)
{
    const char *path = new_path();
    response_store other;
    err e = {0};
    begin(path, 4000);
    response_store_put(&s, STR("a"), STR("one"), STR("[]"));
    CHECK_OK(response_store_open(&other, path, 4000, &e), &e);
    response_store_put(&other, STR("b"), STR("two"), STR("[]"));
    assert_true(is_there("a", "one", "[]") && is_there("b", "two", "[]"));
    assert_true(response_store_drop(&other, STR("a")));
    assert_false(is_there("a", "", ""));
    response_store_close(&other);
    response_store_close(&s);
    remove_all(path);
}

TEST(what_is_no_store_is_refused_and_left_alone)
{
    const char *path = new_path();
    err e = {0};
    arena a;
    str text;
    arena_init(&a, 0);
    CHECK_OK(file_write(path, STR("this is somebody's letter, and not a database of any kind"), &e),
             &e);
    assert_int_equal(response_store_open(&s, path, 4000, &e), ERR_FORMAT);
    assert_string_equal(e.where, path);
    CHECK_OK(file_read(&a, path, 1000, &text, &e), &e);
    assert_true(str_starts(text, STR("this is somebody's letter")));
    unlink(path);

    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE letters (text)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(response_store_open(&s, path, 4000, &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "something else"));
    remove_all(path);

    begin(path, 4000);
    assert_int_equal(sqlite3_exec(s.db, "PRAGMA user_version = 99", NULL, NULL, NULL), SQLITE_OK);
    response_store_close(&s);
    assert_int_equal(response_store_open(&s, path, 4000, &e), ERR_UNSUPPORTED);
    remove_all(path);
    assert_int_equal(response_store_open(&s, "/nowhere/at/all", 4000, &e), ERR_IO);
    arena_fini(&a);
}

/* SQLite has an allocator of its own, which its own limit makes fail. */
TEST(without_memory_nothing_breaks)
{
    begin(NULL, 1 << 24);
    response_store_put(&s, STR("a"), STR("one"), STR("[]"));
    static char text[1 << 22];
    sqlite3_hard_heap_limit64(sqlite3_memory_used() + (1 << 16));
    response_store_put(&s, STR("b"), (str){text, sizeof text}, STR(""));
    sqlite3_hard_heap_limit64(0);
    assert_false(response_store_get(&s, STR("b"), NULL, NULL));
    assert_true(is_there("a", "one", "[]"));
    response_store_put(&s, STR("c"), STR("two"), STR("[]"));
    assert_true(is_there("c", "two", "[]"));
    response_store_close(&s);
}
