#include "decode/cycle.h"

#include "backend/dev_arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "decode/cycle_priv.h"

dev_buf cycle_view(dev_buf mem, int64_t offset, int64_t n)
{
    return (dev_buf){(char *)mem.ptr + offset, n * 4};
}

static int64_t field(int64_t *total, int64_t n)
{
    int64_t at = *total;
    *total += (n * 4 + 15) / 16 * 16;
    return at;
}

static void plan_regions(cycle *c)
{
    int64_t S = c->opt.n_slots, T = S * (c->max_draft + 1), M1 = S * (c->B - 1);
    cycle_inputs *in = &c->in;
    in->n_bytes = 0;
    in->anchor = field(&in->n_bytes, S);
    in->anchor_pos = field(&in->n_bytes, S);
    in->ctx_begin = field(&in->n_bytes, S);
    in->n_draft = field(&in->n_bytes, S);
    in->max_new = field(&in->n_bytes, S);
    in->lane_row = field(&in->n_bytes, S + 1);
    in->lane_slot = field(&in->n_bytes, S);
    in->block_ids = field(&in->n_bytes, S * c->B);
    in->block_pos = field(&in->n_bytes, S * c->B);
    in->row_index = field(&in->n_bytes, M1);
    cycle_outputs *out = &c->out;
    out->n_bytes = 0;
    out->n_commit = field(&out->n_bytes, S);
    out->emitted = field(&out->n_bytes, S * OPS_ROWS_MAX);
    out->proposals = field(&out->n_bytes, M1);
    out->token = field(&out->n_bytes, T);
    out->logprob = field(&out->n_bytes, T);
    out->n_small = out->n_bytes;
    out->top_ids = field(&out->n_bytes, T * OPS_TOP_LOGPROBS);
    out->top_logprobs = field(&out->n_bytes, T * OPS_TOP_LOGPROBS);
}

static void plan_memory(cycle *c)
{
    int64_t S = c->opt.n_slots;
    c->lanes.policy = dev_arena_take(&c->mem, S * (int64_t)sizeof(sample_policy));
    c->lanes.bias = dev_arena_take(&c->mem, S * OPS_BIAS_MAX * (int64_t)sizeof(sample_bias));
    c->in.mem = dev_arena_take(&c->mem, c->in.n_bytes);
    c->out.mem = dev_arena_take(&c->mem, c->out.n_bytes);
    c->marks = dev_arena_take(&c->mem, CYCLE_MARKS * (int64_t)sizeof(uint64_t));
    cycle_pending_plan(c);
    cycle_masks_plan(c);
}

static status open_host(cycle *c, err *e)
{
    size_t T = (size_t)c->max_rows;
    c->in.host = mem_new((size_t)c->in.n_bytes);
    c->out.host = mem_new((size_t)c->out.n_bytes);
    c->rows.ids = mem_new_array(4 * T, sizeof(int32_t));
    if (!c->in.host || !c->out.host || !c->rows.ids)
        return err_set(e, ERR_NOMEM, "cycle", -1, "host arrays of %zu rows", T);
    c->rows.row_lane = c->rows.ids + T;
    c->rows.row_pos = c->rows.ids + 2 * T;
    c->rows.logit_row = c->rows.ids + 3 * T;
    TRY(cycle_pending_open(c, e));
    return cycle_masks_open(c, e);
}

static status open_files(cycle *c, err *e)
{
    const cycle_options *o = &c->opt;
    TRY(load_model_open(&c->files, o->model, e));
    if (c->files.is_draft)
        return err_set(e, ERR_INVALID, o->model, -1, "is a draft, not a target model");
    if (!o->draft) return ERR_OK;
    TRY(load_model_open(&c->draft_files, o->draft, e));
    if (!c->draft_files.is_draft)
        return err_set(e, ERR_INVALID, o->draft, -1, "is not a DFlash draft");
    c->has_draft = true;
    TRY(load_check_pair(&c->files.target, &c->draft_files.draft, e));
    return load_check_vocabulary(&c->files, &c->draft_files, e);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static status reserve(cycle *c, err *e)
{
    backend_limits a = model_limits(c->target);
    if (c->has_draft) {
        backend_limits b = draft_limits(c->drafter);
        a.T = (int)larger(a.T, b.T);
        a.E = larger(a.E, b.E);
        a.K = larger(a.K, b.K);
        a.N = larger(a.N, b.N);
        a.F = larger(a.F, b.F);
        a.M = (int)larger(a.M, b.M);
        a.H = (int)larger(a.H, b.H);
        a.G = (int)larger(a.G, b.G);
        a.D = (int)larger(a.D, b.D);
    }
    return c->be->ops->reserve(c->be, &a, e);
}

/* How many blocks of KV there are to be; on a device, the memory for all but what is kept of them.
 */
static status choose_blocks(cycle *c, model_options *mo, err *e)
{
    const cycle_options *o = &c->opt;
    cycle_sizes sizes;
    if (!o->on_sizes && c->be->memory_free == 0) return ERR_OK;
    TRY(cycle_plan_sizes(o, &c->files, c->has_draft ? &c->draft_files : NULL, c->be, &sizes, e));
    if (mo->n_blocks == 0) mo->n_blocks = o->n_slots * sizes.context_blocks;
    if (o->on_sizes) TRY(o->on_sizes(o->sizes_ctx, &sizes, &mo->n_blocks, e));
    if (c->be->memory_free == 0) return ERR_OK;
    return c->be->ops->open_arena(c->be, cycle_sizes_total(&sizes, mo->n_blocks), e);
}

static status open_parts(cycle *c, err *e)
{
    cycle_options *o = &c->opt;
    int64_t from_ns = clock_ns();
    TRY(open_files(c, e));
    c->load_ms = clock_ms_since(from_ns);
    backend_options as = {
        .name = o->backend, .n_threads = o->n_threads, .pins_threads = o->pins_threads};
    TRY(backend_open(&c->be, &as, e));
    TRY(cycle_settle_options(o, &c->files, c->has_draft ? &c->draft_files : NULL, c->be, e));
    model_options mo = cycle_size_model(o, &c->files.target,
                                        c->has_draft ? &c->draft_files.draft : NULL);
    c->B = c->has_draft ? c->draft_files.draft.block : 1;
    c->max_draft = o->max_draft;
    c->max_rows = mo.max_rows;
    TRY(choose_blocks(c, &mo, e));
    from_ns = clock_ns();
    TRY(model_open(&c->target, c->be, &c->files, &mo, e));
    o->n_blocks = model_settings(c->target)->n_blocks;
    if (o->has_narrow_states) TRY(narrow_open(&c->narrow, c->target, e));
    if (c->has_draft) {
        draft_options d = {o->n_slots, c->max_rows, model_settings(c->target)->max_context,
                           o->draft_window};
        TRY(draft_open(&c->drafter, c->be, &c->draft_files, &d, e));
    }
    c->load_ms += clock_ms_since(from_ns);
    plan_regions(c);
    plan_memory(c);
    TRY(dev_arena_open(&c->mem, c->be, e));
    plan_memory(c);
    c->lanes.counts = model_counts(c->target);
    TRY(open_host(c, e));
    return reserve(c, e);
}

status cycle_open(cycle **out, const cycle_options *o, err *e)
{
    if (o->n_slots < !o->fits || o->n_slots > 64)
        return err_set(e, ERR_INVALID, "lanes", -1, "%d, want %d to 64", o->n_slots, !o->fits);
    if (o->prefill_rows < 0)
        return err_set(e, ERR_INVALID, "prefill-rows", -1, "%d, want >= 0", o->prefill_rows);
    cycle *c = mem_new(sizeof *c);
    if (!c) return err_set(e, ERR_NOMEM, "cycle", -1, "cycle");
    c->opt = *o;
    status s = open_parts(c, e);
    if (s != ERR_OK) {
        cycle_close(c);
        return s;
    }
    *out = c;
    return ERR_OK;
}

void cycle_close(cycle *c)
{
    if (!c) return;
    cycle_masks_close(c);
    draft_close(c->drafter);
    narrow_close(c->narrow);
    model_close(c->target);
    if (c->be) {
        dev_arena_close(&c->mem, c->be);
        c->be->ops->close(c->be);
    }
    load_model_close(&c->draft_files);
    load_model_close(&c->files);
    mem_free(c->in.host);
    mem_free(c->out.host);
    mem_free(c->rows.ids);
    mem_free(c->pending.host);
    mem_free(c);
}

const load_model *cycle_files(const cycle *c)
{
    return &c->files;
}

const backend *cycle_backend(const cycle *c)
{
    return c->be;
}

model *cycle_model(const cycle *c)
{
    return c->target;
}

cycle_memory cycle_bytes(const cycle *c)
{
    cycle_memory m = {.target = model_bytes(c->target),
                      .load_bytes = weights_bytes(c->files.weights),
                      .load_ms = c->load_ms};
    if (!c->has_draft) return m;
    m.load_bytes += weights_bytes(c->draft_files.weights);
    m.draft_weights = draft_weight_bytes(c->drafter);
    m.draft_kv = draft_kv_bytes(c->drafter);
    m.draft_scratch = draft_scratch_bytes(c->drafter) + cycle_pending_bytes(c);
    return m;
}

bool cycle_has_draft(const cycle *c)
{
    return c->has_draft;
}

int cycle_max_draft(const cycle *c)
{
    return c->max_draft;
}

int64_t cycle_max_context(const cycle *c)
{
    return c->opt.max_context;
}

int cycle_prefill_rows(const cycle *c)
{
    return c->opt.prefill_rows;
}

int64_t cycle_n_blocks(const cycle *c)
{
    return c->opt.n_blocks;
}

int cycle_block(const cycle *c)
{
    return c->has_draft ? c->B : 0;
}
