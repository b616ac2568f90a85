/* The parity probe behind `riptide logits` and the golden tests. */
#include "base/asserts.h"
#include "base/mem.h"
#include "decode/cycle_priv.h"
#include "tensor/half.h"

/* n act values from the device as f32. */
static status download_act(cycle *c, float *dst, dev_buf src, int64_t n, err *e)
{
    if (c->be->act == DTYPE_F32) return c->be->ops->download(c->be, dst, src, n * 4);
    uint16_t *half = mem_new_array((size_t)n, 2);
    if (!half) return err_set(e, ERR_NOMEM, "probe", -1, "%lld values", (long long)n);
    status s = c->be->ops->download(c->be, half, src, n * 2);
    if (s == ERR_OK) half_row_from_bf16(half, dst, n);
    mem_free(half);
    return s;
}

static status own_blocks(cycle *c, int n_positions)
{
    int32_t ids[64];
    int n = (n_positions + OPS_BLOCK - 1) / OPS_BLOCK;
    for (int from = 0; from < n; from += 64) {
        int count = n - from < 64 ? n - from : 64;
        for (int i = 0; i < count; i++) ids[i] = from + i;
        TRY(cycle_set_blocks(c, 0, from, ids, count));
    }
    return ERR_OK;
}

static status probe_slice(cycle *c, const cycle_probe_args *a, int at, int n, err *e)
{
    int E = c->files.target.E, V = c->files.target.V, anchor = a->n - 1;
    int first_wanted = a->n - a->rows;
    int want = a->logits && at + n > first_wanted ? at + n - (at > first_wanted ? at : first_wanted)
                                                  : 0;
    cycle_slice s = {
        .slot = 0, .ids = a->ids + at, .n = n, .pos = at, .prompt_end = anchor, .n_logits = want};
    TRY(cycle_forward_slices(c, &s, 1));
    if (want > 0)
        TRY(c->be->ops->download(c->be, a->logits + (int64_t)(at + n - want - first_wanted) * V,
                                 model_logits(c->target), (int64_t)want * V * 4));
    for (int i = 0; a->layers && i < c->files.target.n_layers; i++)
        TRY(c->be->ops->download(c->be, a->layers + ((int64_t)i * a->n + at) * E,
                                 model_layer_out(c->target, i), (int64_t)n * E * 4));
    if (!c->has_draft) return ERR_OK;
    TRY(draft_context(c->drafter, model_taps(c->target), model_rows(c->target), (dev_buf){0}));
    if (!a->features) return ERR_OK;
    return download_act(c, a->features + (int64_t)at * E, draft_features(c->drafter),
                        (int64_t)n * E, e);
}

static status probe_draft(cycle *c, const cycle_probe_args *a, err *e)
{
    int M1 = c->B - 1, E = c->files.target.E, V = c->files.target.V;
    cycle_lane lane = {.slot = 0,
                       .anchor = a->ids[a->n - 1],
                       .pos = a->n - 1,
                       .n_draft = c->max_draft,
                       .max_new = c->max_draft + 1};
    sample_policy greedy = {.temperature = 0, .top_p = 1, .repetition = 1};
    TRY(cycle_set_policy(c, 0, &greedy, NULL));
    c->shape = cycle_shape_of(&lane, 1);
    TRY(cycle_upload_inputs(c, &lane, 1));
    draft_request r = cycle_draft_request(c);
    TRY(draft_propose(c->drafter, c->target, &r));
    if (a->draft_logits)
        TRY(c->be->ops->download(c->be, a->draft_logits, draft_logits(c->drafter),
                                 (int64_t)M1 * V * 4));
    if (a->draft_hidden)
        TRY(download_act(c, a->draft_hidden, draft_hidden(c->drafter), (int64_t)M1 * E, e));
    if (a->draft_path)
        TRY(c->be->ops->download(c->be, a->draft_path, r.proposals, (int64_t)M1 * 4));
    return ERR_OK;
}

status cycle_probe(cycle *c, const cycle_probe_args *a, err *e)
{
    int step = c->opt.prefill_rows;
    if (c->opt.logit_rows > 0 && c->opt.logit_rows < step) step = c->opt.logit_rows;
    if (a->n < 1 || a->n > c->opt.max_context)
        return err_set(e, ERR_INVALID, "ids", -1, "%d ids, the context holds 1 to %lld", a->n,
                       (long long)c->opt.max_context);
    TRY(cycle_reset(c, 0));
    TRY(own_blocks(c, a->n));
    for (int at = 0, n; at < a->n; at += n) {
        n = a->n - at < step ? a->n - at : step;
        if (c->narrow && n > OPS_BLOCK - at % OPS_BLOCK) n = OPS_BLOCK - at % OPS_BLOCK;
        TRY(probe_slice(c, a, at, n, e));
        TRY(cycle_round_at(c, 0, at + n));
    }
    bool wants_draft = a->draft_logits || a->draft_path || a->draft_hidden;
    return c->has_draft && wants_draft ? probe_draft(c, a, e) : ERR_OK;
}
