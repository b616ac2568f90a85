#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "support/test.h"

static char dir[64];

/* A fresh folder, removed by the last test. */
static const char *in_dir(const char *name)
{
    static char path[200];
    if (!dir[0]) {
        strcpy(dir, "/tmp/riptide-file-XXXXXX");
        assert_non_null(mkdtemp(dir));
    }
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static const char *with_content(const char *name, const char *bytes, size_t n)
{
    const char *path = in_dir(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    if (n > 0) assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    return path;
}

TEST(map_shows_the_bytes_and_closes_twice)
{
    err e;
    file_map m = {0};
    const char *path = with_content("map", "a\0bc", 4);
    CHECK_OK(file_map_open(&m, path, &e), &e);
    assert_int_equal(m.n_bytes, 4);
    assert_memory_equal(m.ptr, "a\0bc", 4);
    file_map_close(&m);
    assert_null(m.ptr);
    file_map_close(&m);
}

TEST(map_of_an_empty_file_is_empty)
{
    err e;
    file_map m = {.n_bytes = 5};
    CHECK_OK(file_map_open(&m, with_content("empty", "", 0), &e), &e);
    assert_int_equal(m.n_bytes, 0);
    file_map_close(&m);
}

TEST(map_of_nothing_or_a_folder_names_path_and_reason)
{
    err e;
    file_map m = {.n_bytes = 5};
    CHECK_STATUS(file_map_open(&m, in_dir("absent"), &e), ERR_IO);
    assert_string_equal(e.where, in_dir("absent"));
    assert_non_null(strstr(e.msg, "No such file"));
    CHECK_STATUS(file_map_open(&m, in_dir(""), &e), ERR_IO);
    assert_int_equal(m.n_bytes, 5);
}

TEST(forget_leaves_the_content_readable)
{
    enum { N = 100000 };
    static char bytes[N];
    for (int i = 0; i < N; i++) bytes[i] = (char)(i * 7);
    err e;
    file_map m;
    CHECK_OK(file_map_open(&m, with_content("forget", bytes, N), &e), &e);
    file_map_forget(&m, 0, N);
    file_map_forget(&m, 5000, 50);
    file_map_forget(&m, 5000, INT32_MAX);
    assert_memory_equal(m.ptr, bytes, N);
    file_map_close(&m);
}

TEST(what_is_expected_is_read_as_before)
{
    enum { N = 100000 };
    static char bytes[N];
    for (int i = 0; i < N; i++) bytes[i] = (char)(i * 5);
    err e;
    file_map m;
    CHECK_OK(file_map_open(&m, with_content("expect", bytes, N), &e), &e);
    file_expect(m.ptr, N);
    file_expect(m.ptr + 5000, 50);
    file_expect(m.ptr + N - 1, 1);
    file_expect(m.ptr, 0);
    assert_memory_equal(m.ptr, bytes, N);
    file_map_close(&m);
}

TEST(read_gives_the_whole_file_terminated)
{
    err e;
    arena a;
    arena_init(&a, 0);
    str s;
    CHECK_OK(file_read(&a, with_content("read", "x\0yz", 4), 4, &s, &e), &e);
    assert_int_equal(s.len, 4);
    assert_memory_equal(s.ptr, "x\0yz", 5);
    CHECK_OK(file_read(&a, with_content("empty", "", 0), 4, &s, &e), &e);
    assert_int_equal(s.len, 0);
    assert_string_equal(s.ptr, "");
    arena_fini(&a);
}

TEST(read_refuses_more_than_it_was_allowed)
{
    err e;
    arena a;
    arena_init(&a, 0);
    str s = STR("before");
    CHECK_STATUS(file_read(&a, with_content("read", "12345", 5), 4, &s, &e), ERR_LIMIT);
    assert_non_null(strstr(e.msg, "4 bytes"));
    assert_true(str_is(s, "before"));
    assert_int_equal(a.n_bytes, 0);
    arena_fini(&a);
}

TEST(read_takes_files_without_a_size)
{
    err e;
    arena a;
    arena_init(&a, 0);
    str s;
    CHECK_OK(file_read(&a, "/proc/self/status", 1 << 20, &s, &e), &e);
    assert_true(s.len > 100);
    assert_true(str_starts(s, STR("Name:")));
    CHECK_STATUS(file_read(&a, "/dev/zero", 100000, &s, &e), ERR_LIMIT);
    arena_fini(&a);
}

TEST(read_of_nothing_or_a_folder_names_path_and_reason)
{
    err e;
    arena a;
    arena_init(&a, 0);
    str s;
    CHECK_STATUS(file_read(&a, in_dir("absent"), 100, &s, &e), ERR_IO);
    assert_string_equal(e.where, in_dir("absent"));
    CHECK_STATUS(file_read(&a, in_dir(""), 100, &s, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "directory"));
    arena_fini(&a);
}

TEST(read_without_memory_is_nomem_and_leaves_nothing)
{
    int64_t live = mem_count().n_live;
    const char *paths[] = {"/proc/self/status", with_content("read", "12345", 5)};
    for (int which = 0; which < 2; which++) {
        int n = 1;
        for (;; n++) {
            arena a;
            arena_init(&a, 0);
            err e;
            str s;
            mem_fail_at(n);
            status got = file_read(&a, paths[which], 1 << 20, &s, &e);
            mem_fail_at(0);
            arena_fini(&a);
            assert_int_equal(mem_count().n_live, live);
            if (got == ERR_OK) break;
            assert_int_equal(got, ERR_NOMEM);
        }
        assert_true(n > 1);
    }
}

TEST(stdin_is_read_to_its_end_or_limit)
{
    int old = dup(0);
    for (int limit = 5; limit < 8; limit++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        assert_int_equal(write(ends[1], "123456", 6), 6);
        close(ends[1]);
        dup2(ends[0], 0);
        close(ends[0]);
        err e;
        arena a;
        arena_init(&a, 0);
        str s = {0};
        status got = file_read_stdin(&a, limit, &s, &e);
        assert_int_equal(got, limit < 6 ? ERR_LIMIT : ERR_OK);
        if (got == ERR_OK) assert_true(str_is(s, "123456"));
        arena_fini(&a);
    }
    dup2(old, 0);
    close(old);
}

static int n_files(void)
{
    int n = 0;
    DIR *d = opendir(dir);
    while (readdir(d)) n++;
    closedir(d);
    return n - 2;
}

TEST(write_replaces_the_file_and_leaves_no_other)
{
    err e;
    arena a;
    arena_init(&a, 0);
    in_dir("x");
    int before = n_files();
    const char *contents[] = {"first", "second, longer", ""};
    for (int i = 0; i < 3; i++) {
        const char *path = in_dir("written");
        str s;
        CHECK_OK(file_write(path, str_from(contents[i]), &e), &e);
        CHECK_OK(file_read(&a, path, 100, &s, &e), &e);
        assert_true(str_is(s, contents[i]));
    }
    assert_int_equal(n_files(), before + 1);
    arena_fini(&a);
}

TEST(a_failed_write_keeps_what_was_there)
{
    err e;
    assert_int_equal(mkdir(in_dir("target"), 0700), 0);
    with_content("target/inside", "x", 1);
    int before = n_files();
    /* A folder that is not empty can't be replaced: rename fails after all was written. */
    CHECK_STATUS(file_write(in_dir("target"), STR("content"), &e), ERR_IO);
    assert_string_equal(e.where, in_dir("target"));
    assert_int_equal(n_files(), before);
    CHECK_STATUS(file_write(in_dir("no/such/folder"), STR("content"), &e), ERR_IO);
    mem_fail_at(1);
    CHECK_STATUS(file_write(in_dir("z"), STR("content"), &e), ERR_NOMEM);
    mem_fail_at(0);
    assert_false(file_exists(in_dir("z")));
}

TEST(paths_can_be_looked_at_and_joined)
{
    arena a;
    arena_init(&a, 0);
    const char *path = with_content("there", "x", 1);
    assert_true(file_exists(path));
    assert_false(file_is_dir(path));
    assert_true(file_is_dir(dir));
    assert_false(file_exists(in_dir("absent")));
    assert_false(file_is_dir(in_dir("absent")));
    assert_string_equal(file_join(&a, "a", "b"), "a/b");
    assert_string_equal(file_join(&a, "a//", "b"), "a/b");
    assert_string_equal(file_join(&a, "/", "b"), "/b");
    assert_string_equal(file_join(&a, "", "b"), "b");
    mem_fail_at(1);
    arena empty;
    arena_init(&empty, 0);
    assert_null(file_join(&empty, "a", "b"));
    assert_null(file_exe_dir(&empty));
    mem_fail_at(0);
    arena_fini(&a);
}

TEST(exe_dir_is_where_this_test_lies)
{
    arena a;
    arena_init(&a, 0);
    char *exe = file_exe_dir(&a);
    assert_non_null(exe);
    assert_true(file_exists(file_join(&a, exe, "test_file")));
    arena_fini(&a);
}

TEST(zz_the_folder_goes_away)
{
    char command[200];
    in_dir("x");
    snprintf(command, sizeof command, "rm -r '%s'", dir);
    assert_int_equal(system(command), 0);
}
