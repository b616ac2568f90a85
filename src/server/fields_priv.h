/* fields: typed members of a request object. null is the same as absent; a value of another type
 * or out of range is an error whose `where` names the field.
 *
 * Outputs are written only when the field is there and right. Thread: any. */
#ifndef RIPTIDE_SERVER_FIELDS_PRIV_H
#define RIPTIDE_SERVER_FIELDS_PRIV_H

#include "base/err.h"
#include "base/json.h"

/* The member, or NULL when it is absent or null. */
const json *field_find(const json *object, const char *name);

status field_bool(const json *object, const char *name, bool *out, err *e);
/* An integer, also written 5.0, within [min, max]. */
status field_int(const json *object, const char *name, int64_t min, int64_t max, int64_t *out,
                 err *e);
/* Any finite number; who uses it knows the range. */
status field_double(const json *object, const char *name, double *out, err *e);
status field_str(const json *object, const char *name, str *out, err *e);
/* A member that must be an array or an object. */
status field_array(const json *object, const char *name, const json **out, err *e);
status field_object(const json *object, const char *name, const json **out, err *e);

/* `metadata`, which is the client's own: an object of strings. */
status field_check_metadata(const json *object, err *e);

/* "a string". */
const char *field_kind(const json *v);

#endif
