#include "load/names_priv.h"

#include <string.h>

static const char *skip_prefix(const char *name, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(name, prefix, n) == 0 ? name + n : NULL;
}

const char *names_canonical(const char *name)
{
    /* The longer ones first. */
    static const char *const prefixes[] = {"language_model.model.", "model.language_model.",
                                           "language_model.", "model."};
    for (int i = 0; i < 4; i++) {
        const char *rest = skip_prefix(name, prefixes[i]);
        if (rest) return rest;
    }
    return name;
}

bool names_is_extra(const char *canonical)
{
    static const char *const prefixes[] = {"visual.", "vision_tower.", "vision_model.", "mtp."};
    for (int i = 0; i < 4; i++)
        if (skip_prefix(canonical, prefixes[i])) return true;
    return false;
}
