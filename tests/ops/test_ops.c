/* Every op on every backend over its case table: see op_check.h for what is asked. */
#include "ops/op_attn.h"
#include "ops/op_dense.h"
#include "ops/op_gdn.h"
#include "ops/op_moe.h"

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
