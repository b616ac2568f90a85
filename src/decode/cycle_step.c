/* Stepping: what is enqueued for a prompt slice and for a cycle. */
#include <math.h>
#include <string.h>

#include "base/asserts.h"
#include "decode/cycle_priv.h"

status cycle_reset(cycle *c, int slot)
{
    TRY(cycle_pending_leave(c, slot));
    c->ctx_begin[slot] = 0;
    return model_reset_slot(c->target, slot);
}

status cycle_set_policy(cycle *c, int slot, const sample_policy *p, const sample_bias *bias)
{
    const backend_ops *op = c->be->ops;
    int64_t size = (int64_t)sizeof(sample_policy), bias_row = OPS_BIAS_MAX * (int64_t)sizeof *bias;
    DASSERT(p->n_bias >= 0 && p->n_bias <= OPS_BIAS_MAX);
    TRY(op->upload(c->be, dev_buf_at(c->lanes.policy, slot * size), p, size));
    if (p->n_bias == 0) return ERR_OK;
    return op->upload(c->be, dev_buf_at(c->lanes.bias, slot * bias_row), bias,
                      p->n_bias * (int64_t)sizeof *bias);
}

status cycle_set_blocks(cycle *c, int slot, int from, const int32_t *blocks, int n)
{
    return model_set_table(c->target, slot, from, blocks, n);
}

/* Rows of one lane appended at T; returns the new T. */
static int append_rows(cycle_rows *r, int T, int lane, int slot, int64_t pos, int n)
{
    for (int i = 0; i < n; i++) {
        r->row_lane[T + i] = lane;
        r->row_pos[T + i] = (int32_t)(pos + i);
    }
    r->lane_row[lane] = T;
    r->lane_slot[lane] = slot;
    return T + n;
}

static batch batch_of(const cycle_rows *r, int T, int L, int M, bool advance)
{
    return (batch){.T = T,
                   .L = L,
                   .ids = r->ids,
                   .row_lane = r->row_lane,
                   .row_pos = r->row_pos,
                   .lane_row = r->lane_row,
                   .lane_slot = r->lane_slot,
                   .M = M,
                   .logit_row = r->logit_row,
                   .advance = advance};
}

status cycle_mark_prompt(cycle *c, int slot, const int32_t *ids, int n)
{
    for (int at = 0; at < n; at += c->max_rows) {
        int rows = n - at < c->max_rows ? n - at : c->max_rows;
        memcpy(c->rows.ids, ids + at, (size_t)rows * 4);
        append_rows(&c->rows, 0, 0, slot, 0, rows);
        c->rows.lane_row[1] = rows;
        batch b = batch_of(&c->rows, rows, 1, 0, true);
        TRY(model_upload(c->target, &b));
        TRY(c->be->ops->count_prompt(c->be, &(count_prompt_args){.rows = *model_rows(c->target),
                                                                 .counts = c->lanes.counts,
                                                                 .V = model_arch(c->target)->V}));
    }
    return ERR_OK;
}

status cycle_set_counts(cycle *c, int slot, const uint32_t *words)
{
    int64_t n = model_arch(c->target)->V * 4;
    return c->be->ops->upload(c->be, dev_buf_at(c->lanes.counts, slot * n), words, n);
}

status cycle_forward_slices(cycle *c, const cycle_slice *slices, int n)
{
    cycle_rows *r = &c->rows;
    int T = 0, M = 0;
    for (int l = 0; l < n; l++) {
        const cycle_slice *s = &slices[l];
        DASSERT(s->n >= 1 && T + s->n <= c->max_rows);
        memcpy(r->ids + T, s->ids, (size_t)s->n * 4);
        T = append_rows(r, T, l, s->slot, s->pos, s->n);
        for (int i = T - s->n_logits; i < T; i++) r->logit_row[M++] = i;
    }
    r->lane_row[n] = T;
    batch b = batch_of(r, T, n, M, true);
    TRY(model_upload(c->target, &b));
    return model_forward(c->target);
}

/* Whether any slice holds a position that a later block can still see. A slice that is left out
 * moves the lane's ctx_begin past it. */
static bool wants_context(cycle *c, const cycle_slice *slices, int n)
{
    int window = draft_window(c->drafter);
    bool wanted = window == 0;
    for (int l = 0; l < n; l++)
        if (slices[l].pos + slices[l].n + window > slices[l].prompt_end) wanted = true;
    for (int l = 0; l < n && !wanted; l++)
        c->ctx_begin[slices[l].slot] = slices[l].pos + slices[l].n;
    return wanted;
}

static status prefill_pass(cycle *c, const cycle_slice *slices, int n)
{
    TRY(cycle_forward_slices(c, slices, n));
    if (c->max_draft == 0 || !wants_context(c, slices, n)) return ERR_OK;
    return draft_context(c->drafter, model_taps(c->target), model_rows(c->target), (dev_buf){0});
}

status cycle_round_at(cycle *c, int slot, int64_t pos)
{
    return c->narrow && pos % OPS_BLOCK == 0 ? narrow_round(c->narrow, slot) : ERR_OK;
}

/* Rows of the slice up to its block's end. */
static int rows_of_block(const cycle_slice *s)
{
    int n = OPS_BLOCK - (int)(s->pos % OPS_BLOCK);
    return n < s->n ? n : s->n;
}

/* A block of every slice, then the next. */
static status prefill_blocks(cycle *c, const cycle_slice *slices, int n)
{
    cycle_slice left[64], now[64];
    memcpy(left, slices, (size_t)n * sizeof *slices);
    for (int k = n; k > 0;) {
        for (int l = 0; l < k; l++) {
            now[l] = left[l];
            now[l].n = rows_of_block(&left[l]);
            DASSERT(now[l].n_logits == 0 || now[l].n == left[l].n);
        }
        TRY(prefill_pass(c, now, k));
        int kept = 0;
        for (int l = 0; l < k; l++) {
            cycle_slice *s = &left[l];
            s->ids += now[l].n;
            s->pos += now[l].n;
            s->n -= now[l].n;
            TRY(cycle_round_at(c, s->slot, s->pos));
            if (s->n > 0) left[kept++] = *s;
        }
        k = kept;
    }
    return ERR_OK;
}

status cycle_prefill(cycle *c, const cycle_slice *slices, int n)
{
    return c->narrow ? prefill_blocks(c, slices, n) : prefill_pass(c, slices, n);
}

int cycle_most_draft(const cycle *c, int64_t pos)
{
    int room = OPS_BLOCK - 1 - (int)(pos % OPS_BLOCK);
    return c->narrow && room < c->max_draft ? room : c->max_draft;
}

status cycle_sync(cycle *c)
{
    return c->be->ops->sync(c->be);
}

status cycle_upload_inputs(cycle *c, const cycle_lane *lanes, int L)
{
    cycle_inputs *in = &c->in;
    int32_t *anchor = (int32_t *)(void *)(in->host + in->anchor);
    int32_t *anchor_pos = (int32_t *)(void *)(in->host + in->anchor_pos);
    int32_t *ctx_begin = (int32_t *)(void *)(in->host + in->ctx_begin);
    int32_t *n_draft = (int32_t *)(void *)(in->host + in->n_draft);
    int32_t *max_new = (int32_t *)(void *)(in->host + in->max_new);
    int32_t *lane_row = (int32_t *)(void *)(in->host + in->lane_row);
    int32_t *lane_slot = (int32_t *)(void *)(in->host + in->lane_slot);
    int32_t *block_ids = (int32_t *)(void *)(in->host + in->block_ids);
    int32_t *block_pos = (int32_t *)(void *)(in->host + in->block_pos);
    int32_t *row_index = (int32_t *)(void *)(in->host + in->row_index);
    int32_t mask = c->has_draft ? draft_mask_id(c->drafter) : 0;
    int B = c->B, T = 0, d = 0, W = c->shape.W;
    for (int l = 0; l < L; l++) {
        const cycle_lane *a = &lanes[l];
        int row = T;
        max_new[l] = a->max_new;
        T += a->n_draft + 1;
        if (a->n_draft == 0) continue;
        anchor[d] = a->anchor;
        anchor_pos[d] = (int32_t)a->pos;
        ctx_begin[d] = (int32_t)c->ctx_begin[a->slot];
        n_draft[d] = a->n_draft;
        lane_slot[d] = a->slot;
        lane_row[d] = row;
        for (int i = 0; i < B; i++) {
            block_ids[d * B + i] = i == 0 ? a->anchor : mask;
            block_pos[d * B + i] = (int32_t)a->pos + i;
            if (i > 0 && i <= W) row_index[d * W + i - 1] = d * B + i;
        }
        d++;
    }
    lane_row[d] = T;
    for (int l = L; l < c->shape.L; l++) max_new[l] = 1;
    /* Lanes of the proposal that want none: a block at position 0. */
    for (; d < c->shape.D; d++) {
        anchor[d] = anchor_pos[d] = ctx_begin[d] = n_draft[d] = lane_slot[d] = 0;
        lane_row[d + 1] = T;
        for (int i = 0; i < B; i++) {
            block_ids[d * B + i] = mask;
            block_pos[d * B + i] = i;
            if (i > 0 && i <= W) row_index[d * W + i - 1] = d * B + i;
        }
    }
    return c->be->ops->upload(c->be, in->mem, in->host, in->n_bytes);
}

draft_request cycle_draft_request(const cycle *c)
{
    const cycle_inputs *in = &c->in;
    int B = c->B, L = c->shape.D;
    int64_t n = (int64_t)L * c->shape.W;
    return (draft_request){
        .L = L,
        .n_most = c->shape.W,
        .anchor = cycle_view(in->mem, in->anchor, L),
        .anchor_pos = cycle_view(in->mem, in->anchor_pos, L),
        .ctx_begin = cycle_view(in->mem, in->ctx_begin, L),
        .n_draft = cycle_view(in->mem, in->n_draft, L),
        .lane_slot = cycle_view(in->mem, in->lane_slot, L),
        .lane_row = cycle_view(in->mem, in->lane_row, L + 1),
        .block_ids = cycle_view(in->mem, in->block_ids, (int64_t)L * B),
        .block_pos = cycle_view(in->mem, in->block_pos, (int64_t)L * B),
        .row_index = cycle_view(in->mem, in->row_index, n),
        .lanes = c->lanes,
        .proposals = cycle_view(c->out.mem, c->out.proposals, n),
        .verify_ids = model_rows(c->target)->ids,
    };
}

/* Rows of no lane, whose logits are those of the last row again, and lanes of no rows. */
static void pad_rows(cycle *c, int T, int L)
{
    cycle_rows *r = &c->rows;
    for (int t = T; t < c->shape.T; t++) {
        r->ids[t] = r->row_pos[t] = 0;
        r->row_lane[t] = -1;
        r->logit_row[t] = T - 1;
    }
    for (int l = L; l < c->shape.L; l++) {
        r->lane_row[l] = T;
        r->lane_slot[l] = 0;
    }
    r->lane_row[c->shape.L] = T;
}

/* The verify rows: an anchor and room for its proposals, a lane after the other. */
static status upload_rows(cycle *c, const cycle_lane *lanes, int L, bool advance)
{
    cycle_rows *r = &c->rows;
    int T = 0, V = model_arch(c->target)->V;
    for (int l = 0; l < L; l++) {
        int n = lanes[l].n_draft + 1;
        for (int i = 0; i < n; i++) {
            /* Rows above 0 are overwritten by the proposals, but when a cycle is measured. */
            r->ids[T + i] = (int32_t)((lanes[l].anchor + (int64_t)i * 7919) % V);
            r->logit_row[T + i] = T + i;
        }
        T = append_rows(r, T, l, lanes[l].slot, lanes[l].pos, n);
    }
    pad_rows(c, T, L);
    batch b = batch_of(r, c->shape.T, c->shape.L, c->shape.T, advance);
    b.max_rows = c->shape.max_rows;
    return model_upload(c->target, &b);
}

/* Both uploads of a cycle. */
static status upload_cycle(cycle *c, const cycle_lane *lanes, int L, bool advance)
{
    c->shape = cycle_shape_of(lanes, L);
    if (c->be->has_graphs) c->shape = cycle_shape_pad(&c->shape, c->opt.n_slots, c->max_draft);
    TRY(upload_rows(c, lanes, L, advance));
    return cycle_upload_inputs(c, lanes, L);
}

typedef struct {
    bool has_proposals, wants_logprobs, has_masks;
} cycle_kind;

/* What a cycle is enqueued in: the proposal's shape has nothing to do with that of the rest, and
 * with masks proposals have to come to the host and masks back between forward pass and judgment.
 */
typedef enum { PART_PROPOSE, PART_VERIFY, PART_FORWARD, PART_JUDGE } cycle_part;

static status sample_and_accept(cycle *c, cycle_kind kind)
{
    const backend_ops *op = c->be->ops;
    const ops_rows *rows = model_rows(c->target);
    const cycle_outputs *o = &c->out;
    int V = model_arch(c->target)->V, L = rows->L;
    int64_t T = rows->T;
    sample_args a = {.logits = model_logits(c->target),
                     .row = model_logit_row(c->target),
                     .rows = *rows,
                     .lanes = c->lanes,
                     .token = cycle_view(o->mem, o->token, T),
                     .M = rows->T,
                     .V = V};
    if (kind.has_masks) a.mask = cycle_view(c->masks.mem, 0, T * c->masks.n_words);
    if (kind.wants_logprobs) {
        a.logprob = cycle_view(o->mem, o->logprob, T);
        a.top_ids = cycle_view(o->mem, o->top_ids, T * OPS_TOP_LOGPROBS);
        a.top_logprobs = cycle_view(o->mem, o->top_logprobs, T * OPS_TOP_LOGPROBS);
    }
    TRY(op->sample(c->be, &a));
    return op->accept(
        c->be, &(accept_args){.rows = *rows,
                              .token = a.token,
                              .max_new = cycle_view(c->in.mem, c->in.max_new, L),
                              .lanes = c->lanes,
                              .n_commit = cycle_view(o->mem, o->n_commit, L),
                              .emitted = cycle_view(o->mem, o->emitted, (int64_t)L * OPS_ROWS_MAX),
                              .V = V});
}

static status mark(cycle *c, cycle_mark_at at)
{
    if (!c->has_marks) return ERR_OK;
    return c->be->ops->mark(c->be, &(mark_args){dev_buf_at(c->marks, at * 8)});
}

static status propose(cycle *c)
{
    draft_request r = cycle_draft_request(c);
    TRY(mark(c, CYCLE_MARK_DRAFT));
    TRY(draft_propose(c->drafter, c->target, &r));
    return mark(c, CYCLE_MARK_DRAFTED);
}

static status forward(cycle *c)
{
    TRY(mark(c, CYCLE_MARK_TARGET));
    TRY(model_forward(c->target));
    return mark(c, CYCLE_MARK_SAMPLE);
}

/* From the target's logits to the end of the cycle. */
static status judge(cycle *c, cycle_kind kind)
{
    dev_buf n_commit = cycle_view(c->out.mem, c->out.n_commit, c->shape.L);
    TRY(sample_and_accept(c, kind));
    if (kind.has_proposals) TRY(model_commit(c->target, n_commit));
    TRY(mark(c, CYCLE_MARK_CONTEXT));
    if (kind.has_proposals) /* else the draft's context waits: cycle_pending.c */
        TRY(draft_context(c->drafter, model_taps(c->target), model_rows(c->target), n_commit));
    return mark(c, CYCLE_MARK_END);
}

/* Proposals become token 0: in the rows to verify, and where they are told. */
static status spoil(cycle *c, int L)
{
    const backend_ops *op = c->be->ops;
    const cycle_rows *r = &c->rows;
    dev_buf ids = model_rows(c->target)->ids;
    for (int l = 0; l < L; l++) {
        int64_t n = r->lane_row[l + 1] - r->lane_row[l] - 1;
        if (n > 0) TRY(op->fill(c->be, dev_buf_at(ids, (r->lane_row[l] + 1) * 4), 0, n * 4));
    }
    int64_t n = (int64_t)c->shape.D * c->shape.W;
    return op->fill(c->be, cycle_view(c->out.mem, c->out.proposals, n), 0, n * 4);
}

static status enqueue(cycle *c, cycle_kind kind, cycle_part part)
{
    if (part == PART_PROPOSE) return propose(c);
    if (part != PART_JUDGE) TRY(forward(c));
    return part == PART_FORWARD ? ERR_OK : judge(c, kind);
}

/* Everything a captured graph depends on beside device data. */
static uint64_t graph_key(const cycle *c, cycle_kind kind, cycle_part part)
{
    const cycle_shape *s = &c->shape;
    uint64_t key = 1u | (uint64_t)part << 1 | (uint64_t)c->has_marks << 6, length = 0;
    if (part == PART_PROPOSE) return key | (uint64_t)s->D << 8 | (uint64_t)s->W << 16;
    key |= (uint64_t)kind.has_proposals << 3 | (uint64_t)kind.wants_logprobs << 4 |
           (uint64_t)kind.has_masks << 5;
    for (int64_t n = model_rows(c->target)->max_len; n > OPS_BLOCK; n /= 2) length++;
    return key | (uint64_t)s->L << 8 | (uint64_t)s->T << 16 | (uint64_t)s->max_rows << 32 |
           length << 40;
}

static status run_part(cycle *c, cycle_kind kind, cycle_part part)
{
    const backend_ops *op = c->be->ops;
    uint64_t key = graph_key(c, kind, part);
    if (op->graph_replay(c->be, key)) return ERR_OK;
    TRY(op->graph_begin(c->be, key));
    status st = enqueue(c, kind, part);
    if (st == ERR_OK) return op->graph_end(c->be);
    op->graph_drop(c->be);
    return st;
}

static status run_proposal(cycle *c, int L, cycle_kind kind)
{
    TRY(run_part(c, kind, PART_PROPOSE));
    return c->opt.spoils_drafts ? spoil(c, L) : ERR_OK;
}

const int32_t *cycle_proposals(const cycle *c, int d)
{
    return (const int32_t *)(const void *)(c->out.host + c->out.proposals) + d * c->shape.W;
}

/* Let those who know what can follow correct the proposals that came to the host; where they do,
 * the rows get them too. */
static status correct_proposals(cycle *c, const cycle_lane *lanes, int L)
{
    const backend_ops *op = c->be->ops;
    const cycle_outputs *o = &c->out;
    int32_t *all = (int32_t *)(void *)(o->host + o->proposals);
    int64_t n = (int64_t)c->shape.D * c->shape.W;
    bool is_changed = false;
    for (int l = 0, d = 0; l < L; l++) {
        int32_t *own = all + (int64_t)d * c->shape.W;
        int width = lanes[l].n_draft, row = c->rows.lane_row[l] + 1;
        if (width == 0) continue;
        if (lanes[l].mask.guess) is_changed |= lanes[l].mask.guess(lanes[l].mask.ctx, own, width);
        memcpy(c->rows.ids + row, own, (size_t)width * sizeof *own);
        d++;
    }
    if (!is_changed) return ERR_OK;
    const ops_rows *rows = model_rows(c->target);
    TRY(op->upload(c->be, rows->ids, c->rows.ids, (int64_t)rows->T * 4));
    return op->upload(c->be, cycle_view(o->mem, o->proposals, n), all, n * 4);
}

/* The masks are made while the target runs; who makes them must be done before anyone returns. */
static status run_masked(cycle *c, const cycle_lane *lanes, int L, cycle_kind kind)
{
    const backend_ops *op = c->be->ops;
    const cycle_outputs *o = &c->out;
    int64_t n = (int64_t)c->shape.D * c->shape.W;
    if (kind.has_proposals) {
        TRY(run_proposal(c, L, kind));
        TRY(op->download(c->be, o->host + o->proposals, cycle_view(o->mem, o->proposals, n),
                         n * 4));
        TRY(correct_proposals(c, lanes, L));
    }
    cycle_masks_begin(c, lanes, L);
    status st = run_part(c, kind, PART_FORWARD);
    cycle_masks_wait(c);
    TRY(st);
    int64_t n_bytes = (int64_t)c->rows.lane_row[L] * c->masks.n_words * 4;
    TRY(op->upload(c->be, c->masks.mem, c->masks.host, n_bytes));
    return run_part(c, kind, PART_JUDGE);
}

static status run_free(cycle *c, int L, cycle_kind kind)
{
    if (kind.has_proposals) TRY(run_proposal(c, L, kind));
    return run_part(c, kind, PART_VERIFY);
}

/* The result of lane l, the d-th with proposals when it has any. */
static void read_result(const cycle *c, const cycle_lane *lane, int l, int d, bool logprobs,
                        cycle_result *out)
{
    const cycle_outputs *o = &c->out;
    const int32_t *n_commit = (const int32_t *)(const void *)(o->host + o->n_commit);
    const int32_t *emitted = (const int32_t *)(const void *)(o->host + o->emitted);
    const float *logprob = (const float *)(const void *)(o->host + o->logprob);
    const int32_t *top_ids = (const int32_t *)(const void *)(o->host + o->top_ids);
    const float *top_lp = (const float *)(const void *)(o->host + o->top_logprobs);
    int row = c->rows.lane_row[l];
    out->n = n_commit[l];
    out->n_drafted = lane->n_draft;
    out->n_accepted = 0;
    memcpy(out->ids, emitted + l * OPS_ROWS_MAX, sizeof out->ids);
    for (int i = 0; i < lane->n_draft; i++) {
        out->proposals[i] = cycle_proposals(c, d)[i];
        if (out->n_accepted == i && i < out->n && out->proposals[i] == out->ids[i])
            out->n_accepted++;
    }
    for (int i = 0; logprobs && i < out->n; i++) {
        size_t at = (size_t)(row + i) * OPS_TOP_LOGPROBS;
        out->logprob[i] = logprob[row + i];
        memcpy(out->top_ids[i], top_ids + at, sizeof out->top_ids[i]);
        memcpy(out->top_logprobs[i], top_lp + at, sizeof out->top_logprobs[i]);
    }
}

/* A row of no numbers gives token 0 on every backend (ops.h), which is rare enough else that its
 * logit can be looked at. */
static status look_for_nan(cycle *c, int l, cycle_result *out)
{
    int64_t V = model_arch(c->target)->V;
    out->has_nan = false;
    for (int i = 0; i < out->n && !out->has_nan; i++) {
        float logit;
        if (out->ids[i] != 0) continue;
        dev_buf at = dev_buf_at(model_logits(c->target), (c->rows.lane_row[l] + i) * V * 4);
        TRY(c->be->ops->download(c->be, &logit, at, sizeof logit));
        out->has_nan = isnan(logit);
    }
    return ERR_OK;
}

status cycle_step(cycle *c, const cycle_lane *lanes, int L, cycle_result *out)
{
    cycle_kind kind = {false, false, false};
    for (int l = 0; l < L; l++) {
        DASSERT(lanes[l].n_draft >= 0 && lanes[l].n_draft <= c->max_draft);
        if (lanes[l].n_draft > 0) kind.has_proposals = true;
        if (lanes[l].wants_logprobs) kind.wants_logprobs = true;
        if (lanes[l].mask.fill) kind.has_masks = true;
    }
    /* With one row a lane that row is always right, so states may move at once. */
    if (kind.has_proposals) TRY(cycle_pending_flush(c));
    TRY(upload_cycle(c, lanes, L, !kind.has_proposals));
    TRY(kind.has_masks ? run_masked(c, lanes, L, kind) : run_free(c, L, kind));
    TRY(c->be->ops->download(c->be, c->out.host, c->out.mem,
                             kind.wants_logprobs ? c->out.n_bytes : c->out.n_small));
    for (int l = 0, d = 0; l < L; l++) {
        read_result(c, &lanes[l], l, d, kind.wants_logprobs, &out[l]);
        d += lanes[l].n_draft > 0;
        TRY(look_for_nan(c, l, &out[l]));
        TRY(cycle_round_at(c, lanes[l].slot, lanes[l].pos + out[l].n));
    }
    return kind.has_proposals ? ERR_OK : cycle_pending_add(c, lanes, L);
}

void cycle_set_marks(cycle *c, bool on)
{
    c->has_marks = on;
}

status cycle_read_marks(cycle *c, uint64_t *ns)
{
    return c->be->ops->download(c->be, ns, c->marks, CYCLE_MARKS * (int64_t)sizeof *ns);
}

status cycle_read_logits(cycle *c, int lane, const int32_t *ids, int n, float *out)
{
    int64_t V = model_arch(c->target)->V, row = c->rows.lane_row[lane];
    dev_buf logits = model_logits(c->target);
    for (int i = 0; i < n; i++)
        TRY(c->be->ops->download(c->be, &out[i], cycle_view(logits, (row * V + ids[i]) * 4, 1), 4));
    return ERR_OK;
}

status cycle_run_half(cycle *c, const cycle_lane *lanes, int L, cycle_half half)
{
    cycle_kind kind = {.has_proposals = true};
    TRY(upload_cycle(c, lanes, L, false));
    TRY(run_part(c, kind, half == CYCLE_DRAFT ? PART_PROPOSE : PART_VERIFY));
    return c->be->ops->download(c->be, c->out.host, c->out.mem, c->out.n_small);
}
