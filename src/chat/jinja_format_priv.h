/* jinja_format: numbers and texts laid out in a field, for `%` and str.format. */
#ifndef RIPTIDE_CHAT_JINJA_FORMAT_PRIV_H
#define RIPTIDE_CHAT_JINJA_FORMAT_PRIV_H

#include "chat/jinja_rt_priv.h"

typedef struct {
    uint32_t fill; /* 0: a space */
    char align;    /* '<', '>', '^', '=' or 0 for the type's own */
    char sign;     /* '+', ' ' or 0 */
    char grouping; /* ',', '_' or 0 */
    char type;     /* conversion letter or 0 */
    bool is_alternate;
    int64_t width;
    int precision; /* -1 when not given */
} jfield;

enum { JFIELD_WIDTH_MOST = 1 << 20, JFIELD_PRECISION_MOST = 300 };

/* Types d, o, x, X, b. A precision is the least number of digits. */
status jfield_put_int(jrt *r, jbuilder *b, const jfield *f, int64_t i);
/* Types e, E, f, F, g, G, % and 0 (repr, or like g with a precision). */
status jfield_put_double(jrt *r, jbuilder *b, const jfield *f, double d);
/* A precision cuts the text. */
status jfield_put_text(jrt *r, jbuilder *b, const jfield *f, const jtext *t);

#endif
