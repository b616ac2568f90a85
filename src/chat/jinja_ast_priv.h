/* jinja_ast: a compiled template as a tree.
 *
 * Nodes, constants and scopes live in the arena of the program and never change after
 * jinja_compile, so that any number of threads may evaluate them. A node is in at most one list.
 *
 * Scopes follow the Python code that jinja2 would generate: a `jfunc` is one Python function (the
 * template, a macro, a recursive loop, a loop's filter) with one array of local slots; a `jframe`
 * is a scope inside it, which on entry loads its names from outside. A name refers to a slot of its
 * own function (hops 0) or of one that encloses it. */
#ifndef RIPTIDE_CHAT_JINJA_AST_PRIV_H
#define RIPTIDE_CHAT_JINJA_AST_PRIV_H

#include "base/err.h"
#include "chat/jinja_number_priv.h"

/* Limits of a template's text. Beyond them it is refused with ERR_LIMIT. */
enum {
    JINJA_SOURCE_MOST = 1 << 20, /* bytes */
    JINJA_NAMES_MOST = 4096,     /* different identifiers */
    JINJA_NEST_MOST = 100,       /* nested statements and brackets, which cost the parser stack */
    JINJA_HEIGHT_MOST = 250,     /* of an expression, `a + b + c + …` included */
};

typedef enum {
    /* expressions */
    JNODE_CONST,
    JNODE_NAME,
    JNODE_NSREF,
    JNODE_TUPLE,
    JNODE_LIST,
    JNODE_DICT,
    JNODE_UNARY,
    JNODE_BINARY,
    JNODE_AND,
    JNODE_OR,
    JNODE_NOT,
    JNODE_CONCAT,
    JNODE_COMPARE,
    JNODE_OPERAND,
    JNODE_COND,
    JNODE_ATTR,
    JNODE_ITEM,
    JNODE_SLICE,
    JNODE_CALL,
    JNODE_FILTER,
    JNODE_TEST,
    JNODE_KEYWORD,
    /* statements */
    JNODE_DATA,
    JNODE_PRINT,
    JNODE_IF,
    JNODE_FOR,
    JNODE_SET,
    JNODE_SET_BLOCK,
    JNODE_MACRO,
    JNODE_CALL_BLOCK,
    JNODE_FILTER_BLOCK,
    JNODE_WITH,
    JNODE_BREAK,
    JNODE_CONTINUE,
} jnode_kind;

typedef struct jnode jnode;
typedef struct {
    jnode *first, *last;
    int n;
} jnode_list;

typedef struct {
    int hops, slot;
} jref;

typedef enum {
    JLOAD_PARAM,     /* set by whoever enters the frame */
    JLOAD_RESOLVE,   /* from the variables of the rendering, else the globals */
    JLOAD_ALIAS,     /* copied from `source` */
    JLOAD_UNDEFINED, /* starts without a value */
} jload_action;

typedef struct {
    jload_action action;
    int name, slot;
    jref source;
} jload;

typedef struct {
    jload *loads;
    int n;
} jframe;

typedef struct {
    int n_slots;
} jfunc;

typedef struct {
    jnode_list positional;
    jnode_list named;        /* JNODE_KEYWORD */
    jnode *star, *star_star; /* *args and **kwargs, or NULL */
} jargs;

/* A macro, or the body of a call block or generation block. */
typedef struct {
    int name;                    /* -1 for a block */
    jnode_list params, defaults; /* the last defaults.n params have one */
    jnode_list body;
    jfunc func;
    jframe frame;
    int caller, kwargs, varargs; /* slots of the special names, -1 when not used */
    bool has_caller_param;       /* "caller" is among the params */
} jmacro_def;

/* A loop's scopes. */
typedef struct {
    jframe body, otherwise, test;
    jfunc func;         /* of a recursive loop */
    jfunc test_func;    /* of `for … if test` */
    int loop_slot;      /* of the variable `loop`, -1 when the body does not read it */
    jnode *test_target; /* the target with the slots of test_func */
} jloop_def;

struct jnode {
    uint8_t kind;
    uint8_t op; /* jop of UNARY, BINARY, OPERAND */
    uint16_t height;
    int32_t pos; /* byte offset in the source */
    jnode *next;
    union {
        jvalue constant;
        struct {
            int name;
            jref ref;
            const jtext *attr; /* NSREF only */
        } name;
        jnode_list items; /* TUPLE, LIST, CONCAT, PRINT; DICT: key, value, key, value … */
        struct {
            jnode *left, *right; /* UNARY, NOT and OPERAND use left */
        } pair;
        struct {
            jnode *first;
            jnode_list rest; /* OPERAND */
        } compare;
        struct {
            jnode *test, *then, *otherwise; /* otherwise may be NULL */
        } cond;
        struct {
            jnode *object;
            const jtext *name;
        } attr;
        struct {
            jnode *object, *index;
        } item;
        struct {
            jnode *object, *start, *stop, *step; /* the last three may be NULL */
        } slice;
        struct {
            jnode *callee;
            jargs args;
        } call;
        struct {
            jnode *object;           /* NULL: the text of a block */
            const jbuiltin *builtin; /* NULL: unknown, fails when reached */
            int name;
            jargs args;
        } filter; /* FILTER, TEST */
        struct {
            int name;
            jnode *value;
        } keyword;
        const jtext *data;
        struct {
            jnode *test;
            jnode_list body, elifs, otherwise; /* elifs: IF nodes */
        } branch;
        struct {
            jnode *target, *iter, *test; /* test may be NULL */
            bool is_recursive;
            jnode_list body, otherwise;
            jloop_def *def;
        } loop;
        struct {
            jnode *target, *value;
        } set;
        struct {
            jnode *target; /* SET_BLOCK */
            jnode *filter; /* SET_BLOCK: or NULL */
            jnode_list body;
            jframe frame;
        } block; /* SET_BLOCK, FILTER_BLOCK */
        struct {
            jref ref; /* MACRO: where it is stored */
            jmacro_def *def;
            jnode *call; /* CALL_BLOCK: the call, NULL for a generation block */
        } macro;         /* MACRO, CALL_BLOCK */
        struct {
            jnode_list targets, values, body;
            jframe frame;
        } with;
    };
};

/* Source text with normalised line ends, for messages. */
typedef struct {
    str text;
    const char *name; /* borrowed */
    err *e;           /* where a compile error goes, may be NULL */
} jsource;

/* Fill in the error "line L column C: …" (columns count characters) with pos and return it. */
status jsource_fail(const jsource *src, status code, int64_t pos, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The line and column of a byte offset, both from 1. */
void jsource_line(str text, int64_t pos, int *line, int *column);

/* Interned identifiers. */
typedef struct {
    str *names; /* [n] */
    int n, cap;
    int *index; /* [index_cap], number + 1 by hash */
    int index_cap;
} jnames;

/* The number of a name, -1 when out of memory, -2 when there are too many. */
int jnames_add(jnames *t, arena *a, str name);

typedef struct {
    arena a;
    jsource source;
    jnames names;
    jnode_list body;
    jfunc root;
    jframe frame;
} jprogram;

/* Parse and resolve `text` (well-formed UTF-8, copied). On success jprogram_close frees it.
 *
 * Returns  FORMAT for text that is no template, UNSUPPORTED for a tag, filter or test that does
 *          not exist here, LIMIT, NOMEM; err.where is `name`, err.pos the offset */
status jprogram_open(jprogram *p, str text, const char *name, err *e);
void jprogram_close(jprogram *p);

#endif
