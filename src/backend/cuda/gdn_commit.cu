/* Moving states by the accepted rows of a verify pass (ops.h:gdn_commit_args): gdn_rule.cuh again,
 * without outputs. */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/gdn_rule.cuh"

extern "C" status cuda_gdn_commit(backend *b, const gdn_commit_args *a)
{
    gdn_params p = {};
    p.qkv = buf_of<bf16>(a->qkv);
    p.p = buf_of<bf16>(a->p);
    p.g = buf_of<float>(a->g);
    p.beta = buf_of<float>(a->beta);
    p.state = buf_of<float>(a->state);
    p.conv_state = buf_of<bf16>(a->conv_state);
    p.lane_row = buf_of<int32_t>(a->rows.lane_row);
    p.lane_slot = buf_of<int32_t>(a->rows.lane_slot);
    p.n_commit = buf_of<int32_t>(a->n_commit);
    p.C = 2 * static_cast<int64_t>(a->Hk) * a->dk + static_cast<int64_t>(a->Hv) * a->dv;
    p.Hk = a->Hk, p.Hv = a->Hv, p.dk = a->dk, p.dv = a->dv;
    p.advance = true;
    return gdn_launch<false>(cuda_of(b), p, a->rows.L, "gdn_commit");
}
