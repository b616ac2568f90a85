/* jinja_number: Python's arithmetic and number text.
 *
 * Integers are int64; a larger one can be read, compared and printed (its digits are kept) but not
 * computed with. Functions that can fail return the reason as a fixed sentence, NULL on success.
 * Thread: any. */
#ifndef RIPTIDE_CHAT_JINJA_NUMBER_PRIV_H
#define RIPTIDE_CHAT_JINJA_NUMBER_PRIV_H

#include "chat/jinja_value_priv.h"

typedef enum {
    JOP_ADD,
    JOP_SUB,
    JOP_MUL,
    JOP_DIV,
    JOP_FLOORDIV,
    JOP_MOD,
    JOP_POW,
    JOP_NEG,
    JOP_POS,
    JOP_NOT,
    JOP_EQ,
    JOP_NE,
    JOP_LT,
    JOP_LE,
    JOP_GT,
    JOP_GE,
    JOP_IN,
    JOP_NOT_IN
} jop;

/* Decimal text (checked already) to double; too large becomes infinite. */
double jnumber_parse(str s);
/* A JSON number, or decimal digits, as json.loads makes it. False when out of memory. */
bool jnumber_from_text(arena *a, str s, bool is_input, jvalue *out);

/* repr(d) into out, terminated; returns its length. */
int jnumber_format(double d, char out[40]);

/* Both are numbers. *order is -1, 0, 1, or 2 when one is NaN. Always true. */
bool jnumber_compare(jvalue a, jvalue b, int *order);

/* a OP b for numbers, OP from JOP_ADD to JOP_POW. */
const char *jnumber_binary(jop op, jvalue a, jvalue b, jvalue *out);
/* -v or +v for a number. */
const char *jnumber_unary(jop op, jvalue v, jvalue *out);

/* int(text, base) and float(text). A reason means ValueError; NULL with *out MISSING means that
 * there is no memory. */
const char *jnumber_int_of_text(arena *a, str s, int base, jvalue *out);
bool jnumber_float_of_text(str s, double *out);
/* int(d) for a finite d; MISSING when out of memory. */
jvalue jnumber_int_of_double(arena *a, double d);

/* round(v, digits), math.floor and math.ceil at that many digits. */
const char *jnumber_round(jvalue v, int64_t digits, jvalue *out);
const char *jnumber_floor(jvalue v, int64_t digits, bool is_ceil, jvalue *out);

#endif
