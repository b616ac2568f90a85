#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    status code;
    const char *name, *text;
} status_row;

#define STATUS_ROW(name, value, text) {ERR_##name, #name, text},
static const status_row rows[] = {STATUS_MAP(STATUS_ROW)};
#undef STATUS_ROW

static const status_row *find_row(status s)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].code == s) return &rows[i];
    return NULL;
}

const char *status_name(status s)
{
    const status_row *row = find_row(s);
    return row ? row->name : "UNKNOWN";
}

const char *status_text(status s)
{
    const status_row *row = find_row(s);
    return row ? row->text : "unknown status";
}

status err_set(err *e, status code, const char *where, long pos, const char *fmt, ...)
{
    if (!e) return code;
    /* An argument may point into *e itself (adding context to an error), so both texts are made
     * before either is stored. */
    err next = {.code = code, .pos = pos};
    snprintf(next.where, sizeof next.where, "%s", where ? where : "");
    va_list args;
    va_start(args, fmt);
    vsnprintf(next.msg, sizeof next.msg, fmt, args);
    va_end(args);
    *e = next;
    return code;
}

void err_format(const err *e, char *out, int cap)
{
    if (cap <= 0) return;
    const char *colon = e->where[0] ? ": " : "";
    if (e->pos < 0 || !e->where[0])
        snprintf(out, (size_t)cap, "%s%s%s", e->where, colon, e->msg);
    else
        snprintf(out, (size_t)cap, "%s:%ld: %s", e->where, e->pos, e->msg);
}
