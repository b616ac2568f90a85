/* jinja_rt: the state of one rendering, and what can fail in it.
 *
 * Everything a rendering makes lives in its arena. `budget` counts work (nodes evaluated, items
 * walked, bytes copied / 16); when it is used up the rendering ends with ERR_LIMIT. `depth` counts
 * nested evaluation, macro calls included, and bounds the C stack.
 * Thread: one rendering belongs to one thread. */
#ifndef RIPTIDE_CHAT_JINJA_RT_PRIV_H
#define RIPTIDE_CHAT_JINJA_RT_PRIV_H

#include "chat/jinja_ast_priv.h"

enum { JRT_DEPTH_MOST = 900 };

typedef struct {
    const jprogram *program;
    arena *a;
    const jdict *vars; /* variables of the rendering */
    int64_t budget;
    int depth;
    int32_t pos;      /* of the node being evaluated, for messages */
    size_t text_most; /* longest text that may be built */
    int64_t now_s;    /* wall clock for strftime_now */
    err *e;
} jrt;

/* Record "line L column C: …" at the current node; returns `code`. */
status jrt_fail(jrt *r, status code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
status jrt_fail_memory(jrt *r);
/* "TypeError"-like failures are ERR_FORMAT: the input does not suit the template. */
status jrt_fail_type(jrt *r, const char *what, jvalue v);
/* Using an undefined value. */
status jrt_fail_undefined(jrt *r, jvalue v);

/* Take `units` of work; LIMIT when none is left. */
status jrt_spend(jrt *r, int64_t units);
status jrt_enter(jrt *r);
static inline void jrt_leave(jrt *r)
{
    r->depth--;
}

/* A text of template origin with these bytes (copied); of a C string (borrowed). */
status jrt_text(jrt *r, str s, jvalue *out);
status jrt_c_text(jrt *r, const char *s, jvalue *out);
/* A builder limited by text_most, and what it collected. */
void jrt_builder(jrt *r, jbuilder *b);
status jrt_built(jrt *r, jbuilder *b, jvalue *out);
status jrt_undefined(jrt *r, str name, jkind owner, const char *hint, jvalue *out);

/* ---- jinja_print.c: text of values ---- */
status jprint_str(jrt *r, jbuilder *b, jvalue v);  /* str(v) */
status jprint_repr(jrt *r, jbuilder *b, jvalue v); /* repr(v) */
/* str(v) as a text; a text is returned as it is. */
status jprint_text(jrt *r, jvalue v, const jtext **out);

/* ---- jinja_json.c ---- */
typedef struct {
    bool ensure_ascii, sort_keys;
    const jtext *indent;             /* one level's indentation, NULL for one line */
    const jtext *item_sep, *key_sep; /* NULL: Python's defaults */
} jjson_style;
/* json.dumps(v) */
status jjson_put(jrt *r, jbuilder *b, jvalue v, const jjson_style *style);

/* ---- jinja_attr.c: v.name, v[index], v[a:b:c], x in v ---- */
status jattr_get(jrt *r, jvalue v, const jtext *name, jvalue *out);
status jitem_get(jrt *r, jvalue v, jvalue index, jvalue *out);
status jslice_get(jrt *r, jvalue v, jvalue start, jvalue stop, jvalue step, jvalue *out);
status jattr_contains(jrt *r, jvalue container, jvalue item, bool *out);

/* ---- jinja_op.c ---- */
status jop_binary(jrt *r, jop op, jvalue a, jvalue b, jvalue *out);
status jop_unary(jrt *r, jop op, jvalue v, jvalue *out);
status jop_compare(jrt *r, jop op, jvalue a, jvalue b, bool *out);
status jop_concat_text(jrt *r, const jtext *a, const jtext *b, jvalue *out);

/* ---- jinja_format.c ---- */
status jformat_percent(jrt *r, const jtext *format, jvalue arg, jvalue *out); /* format % arg */

/* ---- jinja_eval.c, jinja_exec.c ---- */
/* One call of a Python-level function: its slots and the activation it was defined in. */
typedef struct jactivation jactivation;
struct jactivation {
    jactivation *outer;
    jvalue *slots;
};
typedef struct {
    jactivation *act;
    jbuilder *out;       /* where print goes */
    const jvalue *block; /* the text that a block's filter is applied to */
} jscope;

status jeval(jrt *r, const jscope *s, const jnode *n, jvalue *out);
typedef enum { JFLOW_NEXT, JFLOW_BREAK, JFLOW_CONTINUE } jflow;
status jexec(jrt *r, const jscope *s, const jnode *first, jflow *flow);
status jexec_assign(jrt *r, const jscope *s, const jnode *target, jvalue v);
status jexec_enter_frame(jrt *r, const jscope *s, const jframe *f);
void jexec_leave_frame(const jscope *s, const jframe *f);
status jexec_new_activation(jrt *r, jactivation *outer, const jfunc *f, jactivation **out);
status jloop_exec(jrt *r, const jscope *s, const jnode *n, jflow *flow);

/* Render the whole program into b. */
status jexec_program(jrt *r, jbuilder *b);

#endif
