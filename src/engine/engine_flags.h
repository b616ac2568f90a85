/* engine_flags: the command-line flags that choose and size an engine, shared by every command
 * that opens one, and how a model is found.
 *
 * Without --model the bundled mini-dense is used, looked for beside the binary's tree (models/),
 * then in share/riptide/models. OWNER/REPO[:VARIANT] that is no path is taken from the cache of the
 * Hugging Face tools, else fetched (engine/engine_hub.h). Without --draft-model M-dflash2 beside M
 * is taken when it exists, else the draft of the target's family: what the cache has, and fetched
 * only with a model that is named OWNER/REPO. "none" turns drafting off. */
#ifndef RIPTIDE_ENGINE_ENGINE_FLAGS_H
#define RIPTIDE_ENGINE_ENGINE_FLAGS_H

#include "base/arena.h"
#include "base/option.h"
#include "engine/engine.h"

typedef struct {
    const char *model, *draft_model, *backend, *kv_format, *state_format, *draft_rows;
    const char *prefill_rows;
    const char *prompt_cache, *revision;
    int64_t lanes, threads, max_context, max_memory, cache_memory, turn_memory;
    double decode_share;
    bool pin_threads, offline;
} engine_flags;

enum { ENGINE_FLAG_ROWS = 18 };

/* Defaults; --lanes differs between commands. */
void engine_flags_init(engine_flags *f, int lanes);

/* Write the rows for f into rows[ENGINE_FLAG_ROWS]; returns ENGINE_FLAG_ROWS. */
int engine_flags_rows(engine_flags *f, option_row *rows);

/* Check the flags and find the model. Texts live in a or are borrowed from f.
 *
 * Returns  INVALID naming the flag, IO when there is no such model */
status engine_flags_resolve(const engine_flags *f, arena *a, engine_options *o, err *e);

/* Print progress of opening to standard error once it has taken a second: set this as
 * engine_options.on_progress with a zeroed engine_progress as its ctx. */
typedef struct {
    int64_t start_ns, shown_ns;
} engine_progress;
void engine_progress_show(void *ctx, int layers_done, int layers);

/* Only the path of the target: M, the bundled model, or a model of the hub. */
status engine_flags_find_model(const engine_flags *f, arena *a, const char **path, err *e);

#endif
