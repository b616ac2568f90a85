/* schema_format: the formats of JSON Schema as regular expressions. */
#ifndef RIPTIDE_GRAMMAR_SCHEMA_FORMAT_PRIV_H
#define RIPTIDE_GRAMMAR_SCHEMA_FORMAT_PRIV_H

#include "base/str.h"

/* The pattern of texts of that format, for the whole text; NULL for a format we do not know. */
const char *schema_format_pattern(str name);

#endif
