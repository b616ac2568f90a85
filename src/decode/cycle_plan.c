/* Sizes of a cycle from its options and the two checkpoints: what opening takes and a plan says. */
#include <string.h>

#include "decode/cycle_priv.h"
#include "model/cells.h"

model_options cycle_size_model(cycle_options *o, const arch_target *target,
                               const arch_draft *drafter)
{
    int64_t longest = target->max_position;
    if (o->max_context == 0 || o->max_context > longest) o->max_context = longest;
    if (o->prefill_rows > o->max_context) o->prefill_rows = (int)o->max_context;
    int most = drafter ? drafter->block - 1 : 0;
    if (o->max_draft < 0 || o->max_draft > most) o->max_draft = most;
    int verify = o->max_draft + 1, rows = o->n_slots * verify;
    return (model_options){
        .n_slots = o->n_slots,
        .max_rows = o->prefill_rows > rows ? o->prefill_rows : rows,
        .verify_rows = verify,
        .logit_rows = o->logit_rows > rows ? o->logit_rows : rows,
        .max_context = o->max_context,
        .n_blocks = o->n_blocks,
        .kv = o->kv,
        .n_taps = drafter ? drafter->n_taps : 0,
        .taps = drafter ? drafter->taps : NULL,
        .keeps_layers = o->keeps_layers,
        .has_penalties = true,
        .on_progress = o->on_progress,
        .progress_ctx = o->progress_ctx,
    };
}

status cycle_plan(const cycle_options *o, const load_model *target, const load_model *drafter,
                  dtype act, model_options *settings, model_memory *bytes, err *e)
{
    cycle_options sized = *o;
    *settings = cycle_size_model(&sized, &target->target, drafter ? &drafter->draft : NULL);
    return model_plan(target, settings, act, bytes, e);
}

/* What a backend takes beyond a file's bytes for weights of block types, which it keeps in a form
 * of its own instead. The embedding is a table, which may stay in the file, and the head besides
 * where that is tied to it. */
static int64_t unpacked_bytes(const load_model *files, const char *backend_name)
{
    int64_t more = 0;
    for (int i = 0; files->weights && i < weights_count(files->weights); i++) {
        const tensor *t;
        const char *name = weights_name(files->weights, i, &t);
        if (!dtype_is_block(t->type) || t->n_dims < 2) continue;
        weight_use use = t->n_dims == 3 ? WEIGHT_EXPERTS : WEIGHT_LINEAR;
        bool is_table = strcmp(name, "embed_tokens.weight") == 0;
        int64_t table = is_table ? backend_block_bytes(backend_name, t, WEIGHT_TABLE) : 0;
        int64_t matrix = 0;
        if (!is_table || files->target.is_tied) matrix = backend_block_bytes(backend_name, t, use);
        more += table + matrix;
        if (is_table ? table > 0 : matrix > 0) more -= t->n_bytes;
    }
    return more;
}

int64_t cycle_sizes_total(const cycle_sizes *s, int64_t n_blocks)
{
    return s->weights + s->scratch + s->states + s->draft + s->draft_kv + n_blocks * s->block;
}

status cycle_plan_sizes(const cycle_options *o, const load_model *target, const load_model *drafter,
                        const backend *be, cycle_sizes *out, err *e)
{
    cycle_options sized = *o;
    model_options m = cycle_size_model(&sized, &target->target, drafter ? &drafter->draft : NULL);
    model_memory one, two;
    m.n_blocks = 1;
    TRY(model_plan(target, &m, be->act, &one, e));
    m.n_blocks = 2;
    TRY(model_plan(target, &m, be->act, &two, e));
    *out = (cycle_sizes){
        .n_slots = o->n_slots,
        .weights = one.weights,
        .scratch = one.scratch,
        .states = one.states,
        .block = two.kv - one.kv,
        .context_blocks = (sized.max_context + OPS_BLOCK - 1) / OPS_BLOCK,
        .cell = cells_plan_bytes(&target->target, be->act, o->has_narrow_states),
        .is_host = be->memory_free == 0 && strncmp(be->name, "cuda", 4) != 0,
        .device_free = be->memory_free,
    };
    out->weights += unpacked_bytes(target, be->name);
    if (o->has_narrow_states && out->is_host) out->scratch += narrow_bytes(&target->target);
    if (!drafter) return ERR_OK;
    draft_options d = {o->n_slots, m.max_rows, out->context_blocks * OPS_BLOCK, o->draft_window};
    draft_sizes sizes;
    TRY(draft_plan(drafter, &d, be, &sizes, e));
    out->draft = sizes.weights;
    out->draft_kv = sizes.kv;
    out->scratch += sizes.scratch;
    if (sized.max_draft == 0) return ERR_OK;
    out->scratch += cycle_pending_plan_bytes(o->n_slots, &drafter->draft, be->act);
    out->window = sizes.window;
    out->window_blocks = (int)(sizes.reach / OPS_BLOCK);
    return ERR_OK;
}

status cycle_settle_options(cycle_options *o, const load_model *target, const load_model *drafter,
                            const backend *be, err *e)
{
    static const int counts[] = {64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1};
    if (o->prefill_rows == 0) o->prefill_rows = backend_prefill_rows(be->name);
    for (size_t i = 0; o->n_slots == 0 && i < sizeof counts / sizeof *counts; i++) {
        cycle_options some = *o;
        cycle_sizes sizes;
        some.n_slots = counts[i];
        TRY(cycle_plan_sizes(&some, target, drafter, be, &sizes, e));
        if (counts[i] == 1 || o->fits(o->fits_ctx, &sizes)) o->n_slots = counts[i];
    }
    return ERR_OK;
}
