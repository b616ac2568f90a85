/* repair: reading JSON that was cut off, as a call's arguments are when its answer hit a limit. */
#ifndef RIPTIDE_CHAT_REPAIR_PRIV_H
#define RIPTIDE_CHAT_REPAIR_PRIV_H

#include "base/json.h"

/* Parse `text`. When it is the beginning of a JSON text, read what is there: an unfinished string
 * value ends where it was cut, an unfinished key, number, word or escape is left out, and open
 * brackets are closed.
 *
 * where    for err.where
 * Returns  FORMAT for text that no continuation would make right; LIMIT, NOMEM */
status repair_parse(arena *a, str text, const char *where, int depth, const json **out, err *e);

#endif
