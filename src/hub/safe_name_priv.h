/* safe_name: names from outside that become parts of paths. */
#ifndef RIPTIDE_HUB_SAFE_NAME_PRIV_H
#define RIPTIDE_HUB_SAFE_NAME_PRIV_H

#include "base/str.h"

enum { SAFE_PATH_MOST = 1024 };

/* A relative path of one or more names that stays inside its folder: no empty name, "." or "..",
 * no backslash, colon or control character. */
bool safe_path(str s);

/* Exactly n lower-case hexadecimal digits. */
bool safe_hex(str s, size_t n);

#endif
