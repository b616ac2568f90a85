/* cost: bytes that an op must move and operations it must do, from its arguments.
 *
 * A floor, not an estimate of any kernel: each input is read once from memory and each output
 * written once, however often a kernel comes back to it; a weight counts as it lies in the
 * backend's memory. An operation is a multiply or an add; a transcendental counts as one. Divide
 * by measured bandwidth and rate to get the time below which no kernel can go.
 *
 * Lengths that live on the device (positions, lane rows, expert ids) are not read: where they
 * matter the caller says them in cost_rows. */
#ifndef RIPTIDE_BACKEND_COST_H
#define RIPTIDE_BACKEND_COST_H

#include "backend/backend.h"

typedef struct {
    int64_t n_bytes;
    int64_t n_ops;
} cost;

/* What the call's device data say, in sums over its rows. */
typedef struct {
    int64_t n_seen;    /* positions that the rows attend to: sum of row_pos + 1 */
    int64_t n_read;    /* positions that lie in some lane's context: sum of its longest row's */
    int64_t n_experts; /* different experts that the rows chose; 0 = as many as can be */
} cost_rows;

cost cost_add(cost a, cost b);

cost cost_embed(const backend *b, const embed_args *a);
cost cost_rmsnorm(const backend *b, const rmsnorm_args *a);
cost cost_linear(const backend *b, const linear_args *a);
cost cost_linear_swiglu(const backend *b, const linear_swiglu_args *a);
cost cost_gather_rows(const backend *b, const gather_rows_args *a);
cost cost_tap_store(const backend *b, const tap_store_args *a);
cost cost_rope_table(const backend *b, const rope_table_args *a);
cost cost_attn_prep(const backend *b, const attn_prep_args *a);
cost cost_attn(const backend *b, const attn_args *a, const cost_rows *r);
cost cost_gdn_prep(const backend *b, const gdn_prep_args *a);
cost cost_gdn_scan(const backend *b, const gdn_scan_args *a);
cost cost_gdn_commit(const backend *b, const gdn_commit_args *a);
cost cost_moe_route(const backend *b, const moe_route_args *a);
cost cost_moe_ffn(const backend *b, const moe_ffn_args *a, const cost_rows *r);
cost cost_draft_kv_write(const backend *b, const draft_kv_write_args *a);
cost cost_draft_attn_prep(const backend *b, const draft_attn_prep_args *a);
cost cost_draft_attn(const backend *b, const draft_attn_args *a, const cost_rows *r);
cost cost_draft_attend(const backend *b, const draft_attend_args *a, const cost_rows *r);
cost cost_draft_conv(const backend *b, const draft_conv_args *a);
cost cost_draft_enter(const backend *b, const draft_enter_args *a);
cost cost_draft_leave(const backend *b, const draft_leave_args *a);
cost cost_topk(const backend *b, const topk_args *a);
cost cost_draft_select(const backend *b, const draft_select_args *a);
cost cost_sample(const backend *b, const sample_args *a);
cost cost_accept(const backend *b, const accept_args *a);
cost cost_count_prompt(const backend *b, const count_prompt_args *a);

#endif
