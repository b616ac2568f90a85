#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

static atomic_int least_level = LOG_INFO;
static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_set_level(log_level least)
{
    atomic_store_explicit(&least_level, (int)least, memory_order_relaxed);
}

void log_event(log_level level, const char *event, const char *fmt, ...)
{
    if ((int)level < atomic_load_explicit(&least_level, memory_order_relaxed)) return;
    char line[2048];
    const int most = (int)sizeof line - 1; /* one byte for the newline */
    int n = snprintf(line, (size_t)most, "%s %s", level_names[level], event);
    if (n >= most) n = most - 1;
    if (fmt[0] && n + 1 < most) {
        line[n++] = ' ';
        va_list args;
        va_start(args, fmt);
        int more = vsnprintf(line + n, (size_t)(most - n), fmt, args);
        va_end(args);
        n += more < most - n ? more : most - n - 1;
    }
    /* Values may come from outside; an event is one line whatever they contain. */
    for (int i = 0; i < n; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f) line[i] = ' ';
    line[n++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, (size_t)n);
    (void)written; /* there is nobody to tell */
}
