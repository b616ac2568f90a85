/* err: the one list of status codes, and what went wrong in words.
 *
 * 0 is success, failures are negative. A function that fails leaves its outputs untouched.
 * Thread: any; nothing here has state. */
#ifndef RIPTIDE_BASE_ERR_H
#define RIPTIDE_BASE_ERR_H

#define STATUS_MAP(X)                                              \
    X(OK, 0, "ok")                                                 \
    X(NOMEM, -1, "out of memory (host or device)")                 \
    X(IO, -2, "read or write failed; errno text is in err.msg")    \
    X(FORMAT, -3, "the file or request does not say what it must") \
    X(UNSUPPORTED, -4, "well formed, but this build cannot do it") \
    X(LIMIT, -5, "a configured limit was reached; retry later")    \
    X(INVALID, -6, "an argument is outside its documented range")  \
    X(CANCELED, -7, "the caller asked to stop")                    \
    X(DEVICE, -8, "the accelerator failed; the engine must close")

#define STATUS_ENUM(name, value, text) ERR_##name = (value),
typedef enum { STATUS_MAP(STATUS_ENUM) } status;
#undef STATUS_ENUM

/* What went wrong, in words for a person. Owned by the caller, usually on its stack; every
 * writer truncates and terminates. `where` is a file path, a JSON pointer, a tensor or an op
 * name; `pos` a byte offset in it, or -1. */
typedef struct {
    status code;
    char where[160];
    long pos;
    char msg[240];
} err;

/* Fill *e (NULL is fine) and return `code`, so that a failure is one statement. */
status err_set(err *e, status code, const char *where, long pos, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* The name of a code ("FORMAT") and its fixed sentence. Never NULL. */
const char *status_name(status s);
const char *status_text(status s);

/* Write "where:pos: msg" into out[cap], terminated; pos is left out when it is -1. */
void err_format(const err *e, char *out, int cap);

/* Return from the calling function when `expr` fails. */
#define TRY(expr)                                      \
    do {                                               \
        status try_status_ = (expr);                   \
        if (try_status_ != ERR_OK) return try_status_; \
    } while (0)

#endif
