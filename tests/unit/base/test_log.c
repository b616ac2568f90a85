#include <unistd.h>

#include "base/log.h"
#include "support/test.h"

/* What `body` writes on standard error. */
static char *captured(void (*body)(void))
{
    static char text[8192];
    int ends[2], old = dup(2);
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], 2);
    close(ends[1]);
    body();
    dup2(old, 2);
    close(old);
    ssize_t n = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void log_three(void)
{
    log_event(LOG_INFO, "start", "port=%d host=%s", 8080, "localhost");
    log_event(LOG_ERROR, "stop", "%s", "");
    log_event(LOG_DEBUG, "hidden", "x=1");
}

TEST(an_event_is_one_line_with_level_and_values)
{
    log_set_level(LOG_INFO);
    assert_string_equal(captured(log_three), "info start port=8080 host=localhost\nerror stop \n");
}

TEST(the_level_decides_what_is_written)
{
    log_set_level(LOG_ERROR);
    assert_string_equal(captured(log_three), "error stop \n");
    log_set_level(LOG_DEBUG);
    assert_non_null(strstr(captured(log_three), "debug hidden x=1\n"));
    log_set_level(LOG_INFO);
}

static void log_foreign_text(void)
{
    log_event(LOG_WARN, "request", "path=%s", "/a\nerror forged\r\x1b[31m");
}

TEST(control_characters_cannot_forge_a_line)
{
    assert_string_equal(captured(log_foreign_text), "warn request path=/a error forged  [31m\n");
}

static void log_long(void)
{
    static char big[5000];
    memset(big, 'x', sizeof big - 1);
    log_event(LOG_INFO, "big", "v=%s", big);
    log_event(LOG_INFO, big, "v=%s", big);
}

TEST(a_long_event_is_cut_and_still_ends_its_line)
{
    char *text = captured(log_long), *newline = strchr(text, '\n');
    assert_non_null(newline);
    assert_true(newline - text > 1900 && newline - text < 2048);
    assert_memory_equal(newline + 1, "info xxx", 8);
    assert_int_equal(text[strlen(text) - 1], '\n');
}
