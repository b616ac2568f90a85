#include "engine/engine_cycle.h"

cycle_options engine_cycle_options(const engine_options *o)
{
    return (cycle_options){
        .model = o->model,
        .draft = o->draft,
        .backend = o->backend,
        .n_threads = o->n_threads,
        .n_slots = o->n_lanes,
        .prefill_rows = o->prefill_rows,
        .max_context = o->max_context,
        .kv = o->kv == ENGINE_KV_INT8   ? KV_INT8
              : o->kv == ENGINE_KV_BF16 ? KV_BF16
                                        : KV_F32,
        .max_draft = o->draft_rows,
        .on_progress = o->on_progress,
        .progress_ctx = o->progress_ctx,
    };
}
