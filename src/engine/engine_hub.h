/* engine_hub: models by the name OWNER/REPO[:VARIANT], and the draft that goes with a target.
 *
 * What the cache has complete is taken without asking anybody; else it is fetched, after a look at
 * its configuration or GGUF head, with progress on standard error. */
#ifndef RIPTIDE_ENGINE_ENGINE_HUB_H
#define RIPTIDE_ENGINE_ENGINE_HUB_H

#include "engine/engine_flags.h"
#include "hub/hub.h"
#include "load/load.h"

/* How a name is looked for. */
typedef struct {
    const char *revision;  /* NULL: main */
    bool is_offline;       /* also when HF_HUB_OFFLINE says so */
    bool asks_first;       /* `riptide pull`: take what is newest, not what is there */
    bool wants_draft;      /* a draft, else a target */
    const arch_target *of; /* the target that a draft must fit, or NULL */
    const char *path; /* the name as it was given where a path may stand too, so that a failure says
                       * that nothing lies there; NULL where only a name may stand */
    load_model *seen; /* not NULL: only look at what is not in the cache, and give what was seen
                       * here (the caller closes it); the result's path is then NULL */
} engine_hub_wish;

/* Whether the text is a name: then a path of that text does not exist. */
bool engine_hub_is_name(const char *text, hub_name *out);

/* Returns  what hub_pull and load_model_peek return; INVALID for a draft in a target's place
 * Owns     texts are in the arena */
status engine_hub_take(const hub_name *n, const engine_hub_wish *w, arena *a, hub_model *out,
                       err *e);

/* The repository of the DFlash2 draft of a target's family, or NULL when it has none. */
const char *engine_hub_draft_of(const arch_target *t);

#endif
