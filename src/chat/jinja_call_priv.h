/* jinja_call: how expressions call: arguments, any callable value, macros. */
#ifndef RIPTIDE_CHAT_JINJA_CALL_PRIV_H
#define RIPTIDE_CHAT_JINJA_CALL_PRIV_H

#include "chat/jinja_builtin_priv.h"

struct jmacro {
    const jmacro_def *def;
    jactivation *outer; /* where it was defined */
};

/* The slot that `ref` means, seen from `act`. */
jvalue *jactivation_slot(jactivation *act, jref ref);

/* Evaluate arguments; `caller` (of a call block) is passed as a keyword, NULL for none. */
status jeval_args(jrt *r, const jscope *s, const jargs *args, const jvalue *caller, jcall *call);
/* Evaluate a CALL node. */
status jeval_call(jrt *r, const jscope *s, const jnode *n, const jvalue *caller, jvalue *out);

status jcall_value(jrt *r, jvalue callee, const jcall *call, jvalue *out);
status jcall_macro(jrt *r, const jmacro *m, const jcall *call, jvalue *out);

#endif
