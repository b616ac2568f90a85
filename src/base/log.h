/* log: one line an event on standard error, "level event key=value …".
 *
 * Thread: any; a line is written with one write. */
#ifndef RIPTIDE_BASE_LOG_H
#define RIPTIDE_BASE_LOG_H

typedef enum { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR } log_level;
void log_set_level(log_level least);
void log_event(log_level level, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
