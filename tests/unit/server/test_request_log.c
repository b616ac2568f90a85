/* tags: threads */
#include "server/request_log_priv.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "serve_fixture.h"
#include "support/test.h"

static char path[80], log_path[80];
static int kept_stderr;

static void name_files(void)
{
    snprintf(path, sizeof path, "/tmp/riptide-requests-%d", (int)getpid());
    snprintf(log_path, sizeof log_path, "/tmp/riptide-log-%d", (int)getpid());
}

static void catch_stderr(void)
{
    int fd = open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    kept_stderr = dup(STDERR_FILENO);
    assert_true(fd >= 0 && kept_stderr >= 0);
    dup2(fd, STDERR_FILENO);
    close(fd);
}

/* What the log has, in `a`; stderr is as it was. */
static str caught(arena *a)
{
    err e;
    str text;
    dup2(kept_stderr, STDERR_FILENO);
    close(kept_stderr);
    CHECK_OK(file_read(a, log_path, 1 << 20, &text, &e), &e);
    unlink(log_path);
    return text;
}

static bool has(str text, const char *part)
{
    return str_find(text, str_from(part), 0) >= 0;
}

static int count(str text, const char *part)
{
    int n = 0;
    for (int64_t at = -1; (at = str_find(text, str_from(part), (size_t)(at + 1))) >= 0;) n++;
    return n;
}

TEST(a_request_has_one_line_without_its_body)
{
    serve_fixture f;
    arena a;
    arena_init(&a, 0);
    name_files();
    serve_open(&f, serve_options(), 1, 2, 256);
    catch_stderr();
    assert_int_equal(serve_ask(&f, "GET", "/health", NULL), 200);
    assert_int_equal(serve_chat(&f, "{'messages':[{'role':'user','content':'violet lantern'}],"
                                    "'max_tokens':3,'ignore_eos':true}"),
                     200);
    assert_int_equal(serve_ask(&f, "GET", "/nowhere?key=secret", NULL), 404);
    client_fetch(f.port, STR("nonsense\r\n\r\n"), &f.in);
    int fd = client_open(f.port); /* leaves in the middle of a body */
    client_send(fd,
                STR("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"));
    usleep(100 * 1000);
    close(fd);
    usleep(200 * 1000);
    serve_close(&f);
    str log = caught(&a);
    assert_int_equal(count(log, "info request "), 4);
    assert_true(has(log, " method=POST path=/v1/chat/completions status=200 ms="));
    assert_true(has(log, " cached=0 completion=3\n"));
    assert_true(has(log, " method=GET path=/nowhere status=404 ms="));
    assert_true(has(log, " code=not_found\n"));
    assert_true(has(log, "id=- "));
    assert_true(has(log, " path=/tokenize status=0 cut ms="));
    assert_false(has(log, "lantern") || has(log, "secret") || has(log, "/health"));
    arena_fini(&a);
}

TEST(requests_are_kept_as_they_came_and_may_be_read_by_their_owner_alone)
{
    serve_fixture f;
    arena a;
    err e;
    str text;
    struct stat about;
    server_options o = serve_options();
    arena_init(&a, 0);
    name_files();
    o.request_log = path;
    for (int i = 0; i < 2; i++) { /* the second server adds to the file */
        serve_open(&f, o, 1, 2, 256);
        assert_int_equal(serve_ask(&f, "POST", "/tokenize?x=1", "{\"prompt\": \"a\\n\xc3\xa4\"}"),
                         200);
        assert_int_equal(serve_ask(&f, "POST", "/tokenize", "\xff"), 400);
        assert_int_equal(serve_ask(&f, "GET", "/v1/models", NULL), 200);
        serve_close(&f);
    }
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    CHECK_OK(file_read(&a, path, 1 << 20, &text, &e), &e);
    assert_int_equal(count(text, "\n"), 4);
    const json *first, *second;
    int64_t end = str_find(text, STR("\n"), 0);
    CHECK_OK(json_parse(&a, str_slice(text, 0, (size_t)end), "log", 9, 0, &first, &e), &e);
    text = str_skip(text, (size_t)end + 1);
    end = str_find(text, STR("\n"), 0);
    CHECK_OK(json_parse(&a, str_slice(text, 0, (size_t)end), "log", 9, 0, &second, &e), &e);
    assert_true(str_is(json_get(first, "method")->text, "POST"));
    assert_true(str_is(json_get(first, "path")->text, "/tokenize?x=1"));
    assert_true(str_is(json_get(first, "body")->text, "{\"prompt\": \"a\\n\xc3\xa4\"}"));
    assert_true(str_starts(json_get(first, "id")->text, STR("req_")));
    assert_true(str_is(json_get(second, "body")->text, "\xef\xbf\xbd"));
    unlink(path);
    arena_fini(&a);
}

TEST(a_file_that_cannot_be_written_is_told_and_nothing_else_fails)
{
    serve_fixture f;
    arena a;
    err e = {0};
    request_log l;
    arena_init(&a, 0);
    name_files();
    CHECK_STATUS(request_log_open(&l, "/nowhere/requests", &e), ERR_IO);
    assert_string_equal(e.where, "/nowhere/requests");
    server_options o = serve_options();
    o.request_log = "/dev/full";
    serve_open(&f, o, 1, 2, 256);
    catch_stderr();
    for (int i = 0; i < 2; i++)
        assert_int_equal(serve_ask(&f, "POST", "/tokenize", "{\"prompt\":\"a\"}"), 200);
    serve_close(&f);
    assert_int_equal(count(caught(&a), "warn request_log_ends "), 1);
    arena_fini(&a);
}
