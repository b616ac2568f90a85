/* json: pieces shared by json*.c. */
#ifndef RIPTIDE_BASE_JSON_PRIV_H
#define RIPTIDE_BASE_JSON_PRIV_H

#include "base/json.h"

/* Set *repeated to the first member (in source order) whose key stood before in `object`, or to
 * NULL. False when there is no memory to tell. Cost O(n log n) whatever the keys are. */
bool json_find_repeated(const json *object, const json **repeated);

/* The offset of the opening quote of the key of the member whose value is at value_pos. */
int64_t json_key_pos(const char *source, int64_t value_pos);

#endif
