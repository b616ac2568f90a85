/* jinja_builtin: the functions that a template can name: filters, tests, methods, globals.
 *
 * Every one is a row {name, function, parameters}. The parameters are given as a string like
 * "sep= maxsplit=": names in order, "=" after those that may be left out, "." before those that
 * cannot be passed by name. NULL takes any arguments; the function then reads them from the call.
 */
#ifndef RIPTIDE_CHAT_JINJA_BUILTIN_PRIV_H
#define RIPTIDE_CHAT_JINJA_BUILTIN_PRIV_H

#include "chat/jinja_rt_priv.h"

typedef struct {
    str name;
    jvalue value;
} jnamed;

/* Evaluated arguments. */
typedef struct {
    const jvalue *positional;
    int n;
    const jnamed *named;
    int n_named;
} jcall;

enum { JBUILTIN_PARAMS_MOST = 8 };

/* self  what the filter, test or method is applied to; MISSING for a global function
 * a     the bound parameters, MISSING where none was given; unused when parameters is NULL */
typedef status jbuiltin_fn(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out);

struct jbuiltin {
    const char *name;
    jbuiltin_fn *fn;
    const char *params;
};

struct jmethod {
    jvalue self;
    const jbuiltin *builtin;
};

/* NULL when there is none. */
const jbuiltin *jfilter_find(str name);
const jbuiltin *jtest_find(str name);
const jbuiltin *jglobal_find(str name);
/* A method of str, list, tuple, dict …; NULL when the type has none of that name. */
const jbuiltin *jmethod_find(jvalue object, str name);
/* The row of `name` in a table that ends with a NULL name. */
const jbuiltin *jbuiltin_in(const jbuiltin *table, str name);

/* Bind the arguments and call. */
status jbuiltin_call(jrt *r, const jbuiltin *b, jvalue self, const jcall *call, jvalue *out);

/* format.format(*args, **kwargs). */
status jformat_braces(jrt *r, const jtext *format, const jcall *call, jvalue *out);

/* Argument readers: `what` is the parameter's name, for the message. MISSING leaves *out alone. */
status jarg_int(jrt *r, jvalue v, const char *what, int64_t *out);
status jarg_bool(jrt *r, jvalue v, bool *out); /* any value by its truth */
status jarg_text(jrt *r, jvalue v, const char *what, const jtext **out);

/* Tables, by file. */
extern const jbuiltin jfilters_seq[], jfilters_text[], jfilters_value[], jfilters_pick[],
    jfilters_order[];
extern const jbuiltin jmethods_str[], jmethods_str_split[], jmethods_str_is[], jmethods_list[],
    jmethods_tuple[], jmethods_dict[];

#endif
