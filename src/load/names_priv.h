/* names: one spelling for a tensor or module, whatever wrapper class wrote the file. */
#ifndef RIPTIDE_LOAD_NAMES_PRIV_H
#define RIPTIDE_LOAD_NAMES_PRIV_H

#include <stdbool.h>

/* `name` without language_model.model., model.language_model., language_model. or model. in
 * front: a pointer into it. */
const char *names_canonical(const char *name);

/* Whether a canonical name belongs to the vision tower or the multi-token head, which the text
 * model does not read. */
bool names_is_extra(const char *canonical);

#endif
