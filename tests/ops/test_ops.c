/* Every op on every backend over its case table: see op_check.h for what is asked. */
#include "ops/op_attn.h"
#include "ops/op_dense.h"
#include "ops/op_draft.h"
#include "ops/op_gdn.h"
#include "ops/op_moe.h"
#include "ops/op_sample.h"

TEST(embed) { op_check(&op_dense[0]); }
TEST(rmsnorm) { op_check(&op_dense[1]); }
TEST(linear) { op_check(&op_dense[2]); }
TEST(linear_swiglu) { op_check(&op_dense[3]); }
TEST(gather_rows) { op_check(&op_dense[4]); }
TEST(tap_store) { op_check(&op_dense[5]); }
TEST(rope_table) { op_check(&op_dense[6]); }
TEST(attn_prep) { op_check(&op_attn[0]); }
TEST(attn) { op_check(&op_attn[1]); }
TEST(gdn_prep) { op_check(&op_gdn[0]); }
TEST(gdn_scan) { op_check(&op_gdn[1]); }
TEST(gdn_commit) { op_check(&op_gdn[2]); }
TEST(moe_route) { op_check(&op_moe[0]); }
TEST(moe_ffn) { op_check(&op_moe[1]); }
TEST(draft_kv_write) { op_check(&op_draft[0]); }
TEST(draft_attn_prep) { op_check(&op_draft[1]); }
TEST(draft_attn) { op_check(&op_draft[2]); }
TEST(draft_conv) { op_check(&op_draft[3]); }
TEST(topk) { op_check(&op_draft[4]); }
TEST(sample) { op_check(&op_sample[0]); }
TEST(draft_select) { op_check(&op_sample[1]); }
TEST(accept) { op_check(&op_sample[2]); }
TEST(count_prompt) { op_check(&op_sample[3]); }
