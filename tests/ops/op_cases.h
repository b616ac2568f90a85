/* op_cases: one table of cases for each op. Lanes are written as op_lanes_parse reads them:
 * "rows@start,…+padding". */
#ifndef RIPTIDE_TESTS_OP_CASES_H
#define RIPTIDE_TESTS_OP_CASES_H

#include "ops/op_call.h"

#define N_CASES(table) ((int)(sizeof(table) / sizeof *(table)))

/* ---- weights' formats --------------------------------------------------------------------- */

#define Q(bits, group)                        \
    {                                         \
        DTYPE_AFFINE, bits, group, DTYPE_BF16 \
    }
#define Q_F16(bits, group)                   \
    {                                        \
        DTYPE_AFFINE, bits, group, DTYPE_F16 \
    }
#define Q_F32(bits, group)                   \
    {                                        \
        DTYPE_AFFINE, bits, group, DTYPE_F32 \
    }
#define W_BF16                       \
    {                                \
        DTYPE_BF16, 0, 0, DTYPE_NONE \
    }
#define W_F16                       \
    {                               \
        DTYPE_F16, 0, 0, DTYPE_NONE \
    }
#define W_F32                       \
    {                               \
        DTYPE_F32, 0, 0, DTYPE_NONE \
    }

/* ---- dense -------------------------------------------------------------------------------- */

typedef struct {
    op_format format;
    int T, V, E;
    float scale;
} embed_case;
static const embed_case embed_cases[] = {
    {Q(4, 64), 1, 50, 384, 1},    {Q(4, 64), 17, 333, 256, 1}, {Q(8, 32), 5, 20, 96, 1},
    {Q(3, 32), 4, 20, 160, 1.5f}, {W_BF16, 9, 77, 72, 1},      {W_F16, 3, 10, 40, 0.5f},
    {W_F32, 2, 10, 128, 1},       {Q(6, 128), 7, 30, 256, 1},
};

typedef struct {
    int T, E;
    double size; /* of the values */
    float eps;
} rmsnorm_case;
static const rmsnorm_case rmsnorm_cases[] = {
    {1, 384, 1, 1e-6f},     {5, 5120 / 8, 30, 1e-6f}, {33, 72, 1e-3, 1e-6f},
    {3, 1000, 1e-4, 1e-6f}, {7, 1, 1, 1e-5f},         {2, 2047, 4, 1e-6f},
};

typedef struct {
    op_format format, other; /* of parts 0 and 2, of parts 1 and 3 */
    int T, K, n_parts, N[OPS_PARTS_MAX];
    linear_out out[OPS_PARTS_MAX];
    bool is_odd;
} linear_case;
#define ACT LINEAR_ACT
#define F32 LINEAR_F32
#define ADD LINEAR_ADD
static const linear_case linear_cases[] = {
    {Q(4, 64), Q(4, 64), 1, 384, 3, {768, 6, 6}, {ACT, ACT, ACT}, false},
    {Q(4, 64), Q(8, 64), 5, 1024, 4, {384, 37, 16, 1}, {ADD, ACT, F32, ACT}, false},
    {Q(4, 64), Q(4, 32), 64, 256, 2, {260, 31}, {ACT, ADD}, false},
    {Q(4, 64), Q(4, 64), 33, 2048, 1, {129}, {F32}, false},
    {Q(4, 64), Q(4, 64), 16, 1984, 1, {40}, {ACT}, true},
    {Q(2, 32), Q(2, 64), 3, 256, 2, {33, 9}, {ACT, F32}, false},
    {Q(2, 128), Q(3, 32), 8, 384, 2, {40, 17}, {ACT, ADD}, true},
    {Q(3, 64), Q(3, 128), 2, 640, 2, {25, 64}, {ACT, F32}, false},
    {Q(4, 128), Q(4, 32), 9, 1280, 2, {48, 50}, {ADD, ACT}, true},
    {Q(5, 32), Q(5, 64), 4, 192, 2, {21, 32}, {ACT, ADD}, false},
    {Q(5, 128), Q(6, 32), 17, 512, 2, {36, 7}, {F32, ACT}, false},
    {Q(6, 64), Q(6, 128), 6, 768, 2, {10, 90}, {ACT, ACT}, true},
    {Q(8, 32), Q(8, 128), 1, 896, 2, {53, 64}, {ACT, F32}, false},
    {Q(8, 64), Q_F16(4, 64), 24, 320, 2, {16, 130}, {ACT, ACT}, false},
    {Q_F32(4, 64), Q_F16(8, 32), 3, 448, 2, {24, 19}, {F32, ADD}, false},
    {W_BF16, W_F16, 1, 384, 2, {100, 33}, {ACT, ACT}, false},
    {W_BF16, W_F32, 31, 1040, 2, {65, 12}, {F32, ADD}, false},
    {W_F32, W_BF16, 2, 40, 2, {8, 3}, {ACT, ACT}, true},
    {W_F16, W_F16, 64, 136, 1, {47}, {ADD}, false},
};

typedef struct {
    op_format gate, up;
    int T, K, F;
    bool is_odd;
} swiglu_case;
static const swiglu_case swiglu_cases[] = {
    {Q(4, 64), Q(4, 64), 1, 384, 1024, false}, {Q(4, 64), Q(4, 64), 37, 256, 96, false},
    {Q(4, 32), Q(4, 32), 8, 1024, 130, false}, {Q(8, 64), Q(4, 64), 5, 512, 33, true},
    {Q(3, 64), Q(6, 64), 2, 320, 17, false},   {W_BF16, W_BF16, 16, 264, 70, false},
    {W_F32, W_F16, 3, 96, 11, false},          {Q(2, 128), Q(5, 128), 64, 256, 8, false},
};
#undef ACT
#undef F32
#undef ADD

typedef struct {
    int T, M, E;
} gather_case;
static const gather_case gather_cases[] = {{1, 1, 384}, {40, 7, 72}, {9, 33, 250}};

typedef struct {
    int T, E, col, n_cols;
} tap_case;
static const tap_case tap_cases[] = {{1, 384, 0, 1152}, {13, 128, 256, 384}, {6, 72, 72, 216}};

typedef struct {
    int T, n_pairs, section[3];
    double theta;
    bool f32_angles;
} rope_case;
static const rope_case rope_cases[] = {
    {1, 32, {11, 11, 10}, 1e7, false}, {50, 32, {11, 11, 10}, 1e7, false},
    {7, 32, {32, 0, 0}, 1e7, false},   {5, 64, {64, 0, 0}, 1e7, false},
    {9, 4, {2, 1, 1}, 1e4, false},     {3, 36, {12, 12, 12}, 1e4, false},
    {1, 64, {64, 0, 0}, 1e7, true},    {37, 64, {64, 0, 0}, 1e7, true},
};

/* ---- attention ---------------------------------------------------------------------------- */

typedef struct {
    const char *lanes;
    int H, G, D, n_pairs;
    kv_format kv;
    bool has_gate;
} attn_case;
static const attn_case attn_cases[] = {
    {"1@0", 6, 1, 256, 32, KV_BF16, true},
    {"1@130", 6, 1, 256, 32, KV_INT8, true},
    {"8@57,1@64,3@0,5@191+3", 6, 1, 256, 32, KV_INT8, true},
    {"1@63,1@64,1@65,1@0,1@127,1@128,1@300", 16, 2, 256, 32, KV_BF16, true},
    {"4@700,2@30", 16, 2, 256, 32, KV_INT8, true},
    {"70@0,37@100", 6, 1, 256, 32, KV_BF16, true},
    {"129@0", 8, 2, 64, 8, KV_INT8, true},
    {"16@500", 6, 1, 256, 32, KV_BF16, true},
    {"3@5,2@66+1", 4, 2, 32, 4, KV_F32, true},
    {"9@120,1@1", 8, 2, 128, 64, KV_F32, false},
    {"2@61,0@5,6@62", 12, 4, 128, 16, KV_INT8, false},
    {"5@90", 5, 1, 96, 24, KV_BF16, false},
    {"7@1020", 12, 2, 256, 32, KV_INT8, true},
};

/* ---- gated delta rule --------------------------------------------------------------------- */

typedef struct {
    const char *lanes;
    int Hk, Hv, dk, dv;
} gdn_case;
static const gdn_case gdn_cases[] = {
    {"1@9", 2, 6, 128, 128},
    {"8@3,1@7,3@5,2@8+3", 2, 6, 128, 128},
    {"1@3,1@4,1@5,1@6,1@7,1@8", 2, 4, 128, 128},
    {"100@64,31@9", 2, 6, 128, 128},
    {"40@1,33@2,34@0,35@4,36@5,32@6", 2, 6, 128, 128},
    {"2@3,3@3", 1, 1, 64, 64},
    {"5@7,0@4,16@6+1", 2, 4, 16, 16},
    {"9@4", 4, 8, 32, 32},
};

/* ---- experts ------------------------------------------------------------------------------ */

typedef struct {
    int T, X, K;
} route_case;
static const route_case route_cases[] = {{1, 16, 4}, {40, 64, 8}, {7, 8, 2}, {3, 5, 5}, {9, 33, 1}};

typedef struct {
    int T, E, X, K, F, shared_F;
    op_format format, shared;
    bool is_fused; /* gate and up are halves of one [X, 2F, E] */
    bool is_odd;
} moe_case;
static const moe_case moe_cases[] = {
    {1, 256, 16, 4, 128, 128, Q(4, 64), Q(4, 64), false, false},
    {9, 256, 16, 4, 128, 128, Q(4, 64), Q(8, 64), true, false},
    {64, 256, 8, 2, 64, 192, Q(4, 64), Q(4, 64), true, false},
    {5, 320, 33, 8, 96, 32, Q(4, 32), Q(4, 32), false, true},
    {17, 128, 6, 3, 128, 0, Q(8, 64), Q(8, 64), true, false},
    {6, 128, 4, 4, 64, 64, W_BF16, W_BF16, true, false},
    {3, 96, 5, 2, 40, 24, W_F32, W_F16, false, false},
    {12, 192, 7, 2, 64, 64, Q(3, 64), Q(6, 64), true, false},
};

/* ---- draft -------------------------------------------------------------------------------- */

typedef struct {
    const char *lanes;
    int G, D, R;
    bool has_commit;
} ring_case;
static const ring_case ring_cases[] = {
    {"1@0", 2, 128, 32, false},           {"8@29,1@31,3@60,0@4+2", 2, 128, 32, true},
    {"100@5", 1, 64, 32, false},          {"40@30,7@9", 2, 32, 33, false},
    {"8@63,8@100,8@7", 8, 128, 64, true},
};

typedef struct {
    int M, H, G, D;
} draft_prep_case;
static const draft_prep_case draft_prep_cases[] = {{8, 4, 2, 128}, {33, 32, 8, 128}, {1, 3, 1, 32}};

typedef struct {
    int L, B, H, G, D, window, R;
    bool is_causal;
    int anchor[5], begin[5];
} block_case;
static const block_case block_cases[] = {
    {1, 8, 4, 2, 128, 32, 64, false, {40}, {0}},
    {3, 8, 4, 2, 128, 32, 64, false, {0, 31, 200}, {0, 10, 150}},
    {5, 8, 32, 2, 128, 16, 40, false, {1, 15, 16, 17, 90}, {0, 0, 0, 2, 60}},
    {2, 8, 4, 2, 128, 0, 128, true, {100, 5}, {0, 5}},
    {2, 16, 6, 2, 64, 8, 24, true, {64, 7}, {50, 3}},
    {3, 1, 4, 1, 32, 16, 16, false, {33, 1, 0}, {20, 0, 0}},
    {1, 7, 12, 2, 128, 256, 300, false, {777}, {500}},
};

typedef struct {
    int L, B, E, group, side;
    bool adds;
} conv_case;
static const conv_case conv_cases[] = {
    {1, 8, 384, 16, 0, false}, {3, 8, 384, 16, 1, true}, {5, 1, 64, 16, 0, false},
    {2, 16, 256, 8, 1, false}, {2, 5, 96, 32, 0, true},
};

typedef struct {
    int L, B, E, group;
    op_format format;
} enter_case;
static const enter_case enter_cases[] = {
    {1, 8, 2048, 16, Q(4, 64)}, {2, 3, 5120, 16, Q(4, 64)}, {1, 5, 384, 16, Q(4, 64)},
    {3, 7, 256, 8, W_BF16},     {1, 8, 96, 32, W_F32},      {2, 8, 2048, 16, Q(4, 64)},
    {1, 3, 5120, 16, Q(4, 64)}, {1, 8, 1792, 16, Q(4, 64)}, {1, 6, 4352, 16, Q(4, 64)},
};

typedef struct {
    int L, B, K, E, group;
    op_format format;
} leave_case;
static const leave_case leave_cases[] = {
    {1, 8, 1024, 512, 16, Q(4, 64)}, {2, 3, 2048, 1024, 16, Q(4, 64)},
    {1, 5, 256, 96, 32, W_BF16},     {3, 7, 96, 256, 8, W_F32},
    {1, 16, 1536, 192, 16, W_BF16},  {5, 8, 1024, 512, 16, Q(4, 64)},
};

typedef struct {
    int M, V, k;
    float scale, softcap;
    bool has_ties;
} topk_case;
static const topk_case topk_cases[] = {
    {1, 3072, 16, 1, 0, false}, {14, 5000, 16, 1, 0, true}, {3, 100, 16, 0.25f, 0, true},
    {7, 16, 16, 1, 0, true},    {5, 1000, 1, 1, 30, false}, {4, 777, 5, 2, 15, true},
};

typedef struct {
    int L, B, k, R, V;
    op_format format;
    bool has_counts;
} select_case;
static const select_case select_cases[] = {
    {1, 8, 16, 64, 300, W_BF16, false}, {5, 8, 16, 64, 300, W_BF16, true},
    {16, 8, 16, 0, 300, W_BF16, true},  {3, 16, 8, 256, 90, Q(4, 64), false},
    {2, 2, 4, 32, 50, W_F32, true},     {9, 5, 16, 128, 2000, W_BF16, true},
};

/* ---- sampling ----------------------------------------------------------------------------- */

typedef struct {
    const char *lanes;
    int V;
    bool has_counts, has_mask, has_ties, is_prompt, wants_tops;
} sample_case;
static const sample_case sample_cases[] = {
    {"1@7", 3072, false, false, false, true, true},
    {"8@57,1@64,3@0,5@191,6@9+3", 3072, true, true, false, false, true},
    {"1@1,1@2,1@3,1@4,1@5,1@6,1@7,1@8,1@9,1@10,1@11,1@12", 4999, true, false, false, false, false},
    {"4@10,4@11,4@12,4@13,4@14,4@15,4@16,4@17,4@18", 257, true, true, true, false, true},
    {"16@100,16@2,16@8,16@31", 64, true, true, true, true, true},
    {"5@70,7@0", 33, false, true, true, false, true},
};

typedef struct {
    const char *lanes;
    bool has_counts;
} accept_case;
static const accept_case accept_cases[] = {
    {"1@5", true},
    {"8@5,1@9,3@100,16@7,0@4,8@33+2", true},
    {"16@0,16@1,16@2,16@3", false},
    {"8@1,8@2,8@3,8@4,8@5,8@6,8@7,8@8,8@9,8@10", true},
};

#endif
