#include "engine/engine_cycle.h"

#include <string.h>

#include "base/mem.h"

enum { TURN_BYTES_DEFAULT = 8 << 20 };

static bool fits_lanes(void *ctx, const cycle_sizes *sizes)
{
    memory_wish w = engine_memory_wish(ctx, sizes);
    return memory_plan_suits(&w);
}

cycle_options engine_cycle_options(const engine_options *o)
{
    return (cycle_options){
        .model = o->model,
        .draft = o->draft,
        .backend = o->backend,
        .n_threads = o->n_threads,
        .pins_threads = o->pins_threads,
        .n_slots = o->n_lanes,
        .fits = fits_lanes,
        .fits_ctx = (void *)o, /* only read */
        .prefill_rows = o->prefill_rows,
        .max_context = o->max_context,
        .kv = o->kv == ENGINE_KV_INT8   ? KV_INT8
              : o->kv == ENGINE_KV_BF16 ? KV_BF16
                                        : KV_F32,
        .has_narrow_states = o->state == ENGINE_STATE_BF16,
        .max_draft = o->draft_rows == ENGINE_ROWS_AUTO ? -1 : o->draft_rows,
        .spoils_drafts = o->spoils_drafts,
        .draft_window = o->draft_window,
        .on_progress = o->on_progress,
        .progress_ctx = o->progress_ctx,
    };
}

int64_t engine_turn_bytes(const engine_options *o)
{
    if (o->turn_bytes < 0 || o->cache_bytes < 0) return 0;
    return o->turn_bytes > 0 ? o->turn_bytes : TURN_BYTES_DEFAULT;
}

memory_wish engine_memory_wish(const engine_options *o, const cycle_sizes *sizes)
{
    memory_wish w = memory_plan_wish(sizes, o->max_memory);
    w.cache_bytes = o->cache_bytes;
    w.turn_bytes = engine_turn_bytes(o);
    return w;
}

status engine_open_widths(const engine_options *o, const cycle *c, width_policy **out, err *e)
{
    *out = NULL;
    bool is_ref = strcmp(cycle_backend(c)->name, "ref") == 0;
    if (o->draft_rows != ENGINE_ROWS_AUTO || cycle_max_draft(c) == 0 || is_ref) return ERR_OK;
    *out = mem_new(sizeof **out);
    return *out ? ERR_OK : err_set(e, ERR_NOMEM, "engine", -1, "draft widths");
}

status engine_measure_widths(width_policy *p, cycle *c)
{
    width_costs costs;
    if (!p) return ERR_OK;
    TRY(cycle_measure(c, &costs));
    width_init(p, &costs);
    return ERR_OK;
}
