/* jinja_value: the values a template works with, and what Python says about them.
 *
 * Everything lives in the arena of one rendering (constants in that of the template) and is
 * immutable, except namespaces, cyclers, joiners, loops and iterators. Containers remember whether
 * they came with the input, so that the brackets of their printed form count as input too.
 * The names of this engine's private types start with `j`. */
#ifndef RIPTIDE_CHAT_JINJA_VALUE_PRIV_H
#define RIPTIDE_CHAT_JINJA_VALUE_PRIV_H

#include "base/err.h"
#include "base/json.h"
#include "chat/jinja_text_priv.h"

typedef enum {
    JVALUE_MISSING, /* nothing at all: an argument not given, a name without a value */
    JVALUE_UNDEFINED,
    JVALUE_NONE,
    JVALUE_BOOL,
    JVALUE_INT,
    JVALUE_BIG, /* an integer outside int64: only its digits are known */
    JVALUE_FLOAT,
    JVALUE_STR,
    JVALUE_LIST,
    JVALUE_TUPLE,
    JVALUE_DICT,
    JVALUE_VIEW, /* keys(), values() or items() of a dict */
    JVALUE_RANGE,
    JVALUE_ITER, /* a generator: can be walked once */
    JVALUE_NAMESPACE,
    JVALUE_BUILTIN,
    JVALUE_METHOD, /* a builtin bound to its object */
    JVALUE_MACRO,
    JVALUE_LOOP,
    JVALUE_CYCLER,
    JVALUE_JOINER,
} jkind;

typedef struct jvalue jvalue;

typedef struct {
    jvalue *items; /* [n] */
    int64_t n;
    bool is_group; /* of the groupby filter: also .grouper and .list */
    bool is_input;
} jlist;

/* Insertion order is kept; a hash index appears when it is long. */
typedef struct {
    jvalue *keys, *values; /* [n] */
    int64_t n, cap;
    int32_t *index; /* [index_cap] entry + 1 by hash, or NULL */
    int64_t index_cap;
    bool is_input;
} jdict;

typedef enum { JVIEW_KEYS, JVIEW_VALUES, JVIEW_ITEMS } jview_kind;

typedef struct {
    int64_t start, stop, step, n;
} jrange;

/* Why a value is undefined, for the message when it is used. */
typedef struct {
    str name;         /* of the variable or attribute */
    const char *hint; /* the whole reason, or NULL */
    jkind owner;      /* whose attribute it is; MISSING for a variable */
} jundefined;

typedef struct {
    int64_t pos;
    const jlist *items;
} jcycler;

typedef struct {
    const jtext *sep;
    bool is_used;
} jjoiner;

typedef struct jiter jiter;
typedef struct jmacro jmacro;
typedef struct jloop jloop;
typedef struct jmethod jmethod;
typedef struct jbuiltin jbuiltin;

struct jvalue {
    uint8_t kind;
    uint8_t view;  /* VIEW: jview_kind */
    bool is_input; /* scalars: came with the input */
    union {
        bool b;
        int64_t i;
        double f;
        const jtext *s; /* STR; BIG: its digits */
        const jlist *list;
        jdict *dict; /* DICT, VIEW, NAMESPACE */
        const jrange *range;
        const jundefined *undefined; /* or NULL */
        const jbuiltin *builtin;
        const jmethod *method;
        const jmacro *macro;
        jiter *iter;
        jloop *loop;
        jcycler *cycler;
        jjoiner *joiner;
    };
};

static inline jvalue jvalue_none(void)
{
    return (jvalue){.kind = JVALUE_NONE};
}
static inline jvalue jvalue_bool(bool b)
{
    return (jvalue){.kind = JVALUE_BOOL, .b = b};
}
static inline jvalue jvalue_int(int64_t i)
{
    return (jvalue){.kind = JVALUE_INT, .i = i};
}
static inline jvalue jvalue_float(double f)
{
    return (jvalue){.kind = JVALUE_FLOAT, .f = f};
}
static inline jvalue jvalue_text(const jtext *t)
{
    return (jvalue){.kind = JVALUE_STR, .s = t};
}
static inline jvalue jvalue_undefined(const jundefined *why)
{
    return (jvalue){.kind = JVALUE_UNDEFINED, .undefined = why};
}
static inline jvalue jvalue_list(const jlist *l)
{
    return (jvalue){.kind = JVALUE_LIST, .list = l};
}
static inline bool jvalue_is_missing(jvalue v)
{
    return v.kind == JVALUE_MISSING;
}
/* Of kind BOOL, INT, BIG or FLOAT. */
static inline bool jvalue_is_number(jvalue v)
{
    return v.kind >= JVALUE_BOOL && v.kind <= JVALUE_FLOAT;
}
/* The value of a bool or int as int64; false for anything else. */
static inline bool jvalue_to_int(jvalue v, int64_t *out)
{
    if (v.kind == JVALUE_BOOL)
        *out = v.b;
    else if (v.kind == JVALUE_INT)
        *out = v.i;
    else
        return false;
    return true;
}
/* Any number as double (a big one is rounded); false for anything else. */
bool jvalue_to_double(jvalue v, double *out);

/* Python's name of the type ("str", "list"); for messages and type tests. */
const char *jvalue_type_name(jvalue v);

/* bool(v). */
bool jvalue_is_true(jvalue v);
/* len(v), or -1 when v has no length. */
int64_t jvalue_length(jvalue v);
/* Nesting beyond this makes values different, without order and unhashable. */
enum { JVALUE_DEPTH = 200 };
/* a == b, which never fails. */
bool jvalue_equal(jvalue a, jvalue b);
/* a < b as sign; false when Python would raise TypeError. NaN compares as neither (*order 2). */
bool jvalue_compare(jvalue a, jvalue b, int *order);
/* False when unhashable. */
bool jvalue_hash(jvalue v, uint64_t *out);

jlist *jlist_new(arena *a, int64_t n);
/* NULL when out of memory. */
jdict *jdict_new(arena *a, int64_t cap);
/* False when out of memory. The key must be hashable. */
bool jdict_set(arena *a, jdict *d, jvalue key, jvalue value);
/* NULL when absent; the key must be hashable. */
const jvalue *jdict_get(const jdict *d, jvalue key);
const jvalue *jdict_get_str(const jdict *d, str key);

/* A tree as template values, all marked as input. Numbers become what Python's json.loads makes
 * of them; of repeated keys the last wins at the place of the first.
 *
 * Returns  NOMEM; LIMIT when arrays and objects nest deeper than `depth` */
status jvalue_from_json(arena *a, const json *v, int depth, jvalue *out);

#endif
