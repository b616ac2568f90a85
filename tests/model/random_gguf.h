/* random_gguf: targets and drafts of random weights as GGUF files, in the form of third-party
 * generators: keys and names of model-spec 4.3 in either draft dialect, a tokenizer of bytes.
 *
 * The dial makes a constant-token model. Embedding rows are the same large number in column 0, so
 * that this is where every normalised hidden row points; the head has a weight in that column for
 * one token alone, chosen so that at temperature 1 the token has probability `dial` everywhere. The
 * draft shares the head and points there too, so it always proposes that token. */
#ifndef RIPTIDE_TESTS_RANDOM_GGUF_H
#define RIPTIDE_TESTS_RANDOM_GGUF_H

#include <stdlib.h>

#include "load/gguf_write.h"
#include "support/test.h"

enum {
    RANDOM_V = 2048,
    RANDOM_E = 256,
    RANDOM_F = 512,
    RANDOM_LAYERS = 4,
    RANDOM_KEYS = 256, /* 2 heads of 128 */
    RANDOM_VALUES = 512,
    RANDOM_EXPERTS = 8,
    RANDOM_EXPERT_F = 256,
    RANDOM_DRAFT_LAYERS = 2,
    RANDOM_TOKEN = 1000, /* the constant one */
    RANDOM_TENSORS = 128
};

typedef struct {
    const char *draft; /* NULL for a target, else "dflash" or "dflash-draft" */
    bool is_moe;       /* the target, or what the draft is for */
    dtype type;        /* of matrices; embedding and head of a constant-token model are F16 */
    double dial;       /* probability of the constant token; 0 for a plain random model */
    uint64_t seed;
} random_spec;

typedef enum {
    RANDOM_AROUND_ZERO,
    RANDOM_AROUND_ONE,
    RANDOM_DECAY,
    RANDOM_EMBED,
    RANDOM_HEAD
} random_kind;

typedef struct {
    random_spec spec;
    gguf_out_tensor list[RANDOM_TENSORS];
    struct {
        char name[48];
        random_kind kind;
        double scale;
    } rows[RANDOM_TENSORS];
    int n;
} random_plan;

static inline void random_add(random_plan *p, random_kind kind, double scale, dtype type,
                              const char *name, int n_dims, const int64_t *shape)
{
    assert_true(p->n < RANDOM_TENSORS);
    snprintf(p->rows[p->n].name, sizeof p->rows[0].name, "%s", name);
    p->rows[p->n].kind = kind;
    p->rows[p->n].scale = scale;
    gguf_out_tensor *t = &p->list[p->n];
    *t = (gguf_out_tensor){p->rows[p->n].name, type, n_dims, {0}};
    memcpy(t->shape, shape, (size_t)n_dims * sizeof *shape);
    p->n++;
}

static inline void random_layer_name(char out[48], int layer, const char *part)
{
    if (layer < 0)
        snprintf(out, 48, "%s", part);
    else
        snprintf(out, 48, "blk.%d.%s", layer, part);
}

/* A matrix whose outputs have about `gain` times the deviation of its inputs. */
static inline void random_matrix(random_plan *p, int layer, const char *part, int64_t n, int64_t k,
                                 double gain)
{
    char name[48];
    random_layer_name(name, layer, part);
    random_add(p, RANDOM_AROUND_ZERO, gain / sqrt((double)k), p->spec.type, name, 2,
               (int64_t[]){n, k});
}

static inline void random_experts(random_plan *p, int layer, const char *part, int64_t n, int64_t k,
                                  double gain)
{
    char name[48];
    random_layer_name(name, layer, part);
    random_add(p, RANDOM_AROUND_ZERO, gain / sqrt((double)k), p->spec.type, name, 3,
               (int64_t[]){RANDOM_EXPERTS, n, k});
}

static inline void random_vector(random_plan *p, int layer, const char *part, random_kind kind,
                                 double scale, int64_t n)
{
    char name[48];
    random_layer_name(name, layer, part);
    random_add(p, kind, scale, DTYPE_F32, name, 1, &n);
}

static inline void random_norm(random_plan *p, int layer, const char *part, int64_t n)
{
    random_vector(p, layer, part, RANDOM_AROUND_ONE, 0.05, n);
}

/* What a block adds to the residual stream: little where one column must stay the largest. */
static inline double random_block_gain(const random_plan *p)
{
    return p->spec.dial > 0 ? 0.02 : 0.35;
}

static inline void random_attention(random_plan *p, int i, int64_t q, int64_t kv, int64_t head,
                                    bool has_gate)
{
    random_matrix(p, i, "attn_q.weight", has_gate ? 2 * q : q, RANDOM_E, 1);
    random_matrix(p, i, "attn_k.weight", kv, RANDOM_E, 1);
    random_matrix(p, i, "attn_v.weight", kv, RANDOM_E, 1);
    random_matrix(p, i, "attn_output.weight", RANDOM_E, q, random_block_gain(p));
    random_norm(p, i, "attn_q_norm.weight", head);
    random_norm(p, i, "attn_k_norm.weight", head);
}

static inline void random_delta(random_plan *p, int i)
{
    char name[48];
    int64_t conv[] = {2 * RANDOM_KEYS + RANDOM_VALUES, 4}, gates[] = {4, RANDOM_E};
    random_matrix(p, i, "attn_qkv.weight", conv[0], RANDOM_E, 1);
    random_matrix(p, i, "attn_gate.weight", RANDOM_VALUES, RANDOM_E, 1);
    random_layer_name(name, i, "ssm_conv1d.weight");
    random_add(p, RANDOM_AROUND_ZERO, 0.5, DTYPE_F32, name, 2, conv);
    random_layer_name(name, i, "ssm_beta.weight");
    random_add(p, RANDOM_AROUND_ZERO, 0.06, DTYPE_F32, name, 2, gates);
    random_layer_name(name, i, "ssm_alpha.weight");
    random_add(p, RANDOM_AROUND_ZERO, 0.06, DTYPE_F32, name, 2, gates);
    random_vector(p, i, "ssm_dt.bias", RANDOM_AROUND_ZERO, 1, 4);
    random_vector(p, i, "ssm_a", RANDOM_DECAY, 1, 4);
    random_norm(p, i, "ssm_norm.weight", 128);
    random_matrix(p, i, "ssm_out.weight", RANDOM_E, RANDOM_VALUES, random_block_gain(p));
}

static inline void random_ffn(random_plan *p, int i, bool is_moe)
{
    double block = random_block_gain(p);
    int64_t router[] = {RANDOM_EXPERTS, RANDOM_E};
    char name[48];
    if (!is_moe) {
        random_matrix(p, i, "ffn_gate.weight", RANDOM_F, RANDOM_E, 1);
        random_matrix(p, i, "ffn_up.weight", RANDOM_F, RANDOM_E, 1);
        random_matrix(p, i, "ffn_down.weight", RANDOM_E, RANDOM_F, block);
        return;
    }
    random_layer_name(name, i, "ffn_gate_inp.weight");
    random_add(p, RANDOM_AROUND_ZERO, 0.2, DTYPE_F32, name, 2, router);
    random_experts(p, i, "ffn_gate_exps.weight", RANDOM_EXPERT_F, RANDOM_E, 1);
    random_experts(p, i, "ffn_up_exps.weight", RANDOM_EXPERT_F, RANDOM_E, 1);
    random_experts(p, i, "ffn_down_exps.weight", RANDOM_E, RANDOM_EXPERT_F, block);
    random_vector(p, i, "ffn_gate_inp_shexp.weight", RANDOM_AROUND_ZERO, 0.06, RANDOM_E);
    random_matrix(p, i, "ffn_gate_shexp.weight", RANDOM_EXPERT_F, RANDOM_E, 1);
    random_matrix(p, i, "ffn_up_shexp.weight", RANDOM_EXPERT_F, RANDOM_E, 1);
    random_matrix(p, i, "ffn_down_shexp.weight", RANDOM_E, RANDOM_EXPERT_F, block);
}

static inline void random_target_tensors(random_plan *p)
{
    bool is_constant = p->spec.dial > 0;
    int64_t table[] = {RANDOM_V, RANDOM_E};
    random_add(p, is_constant ? RANDOM_EMBED : RANDOM_AROUND_ZERO, is_constant ? 0.02 : 0.5,
               is_constant ? DTYPE_F16 : p->spec.type, "token_embd.weight", 2, table);
    for (int i = 0; i < RANDOM_LAYERS; i++) {
        random_norm(p, i, "attn_norm.weight", RANDOM_E);
        random_norm(p, i, "post_attention_norm.weight", RANDOM_E);
        if (i == 3)
            random_attention(p, i, 512, 256, 256, true);
        else
            random_delta(p, i);
        random_ffn(p, i, p->spec.is_moe);
    }
    random_vector(p, -1, "output_norm.weight", RANDOM_AROUND_ONE, 0, RANDOM_E);
    random_add(p, is_constant ? RANDOM_HEAD : RANDOM_AROUND_ZERO, is_constant ? 0.02 : 0.2,
               is_constant ? DTYPE_F16 : p->spec.type, "output.weight", 2, table);
}

static inline void random_draft_tensors(random_plan *p)
{
    bool is_ik = strcmp(p->spec.draft, "dflash-draft") == 0;
    random_matrix(p, -1, is_ik ? "dflash_fc.weight" : "fc.weight", RANDOM_E, 2 * RANDOM_E, 1);
    random_norm(p, -1, is_ik ? "dflash_hidden_norm.weight" : "enc.output_norm.weight", RANDOM_E);
    for (int i = 0; i < RANDOM_DRAFT_LAYERS; i++) {
        random_norm(p, i, "attn_norm.weight", RANDOM_E);
        random_norm(p, i, is_ik ? "post_attention_norm.weight" : "ffn_norm.weight", RANDOM_E);
        random_attention(p, i, 256, 128, 128, false);
        random_ffn(p, i, false);
    }
    random_vector(p, -1, "output_norm.weight", RANDOM_AROUND_ONE, 0, RANDOM_E);
}

/* ---- values -----------------------------------------------------------------------------------
 */

static inline status random_row(void *ctx, int worker, int i, int64_t row, float *out, err *e)
{
    const random_plan *p = ctx;
    int64_t k = p->list[i].shape[p->list[i].n_dims - 1];
    uint64_t state = p->spec.seed * 1000003 + (uint64_t)i * 8191 + (uint64_t)row;
    double scale = p->rows[i].scale, P = p->spec.dial;
    (void)worker;
    (void)e;
    test_random(&state);
    for (int64_t c = 0; c < k; c++) {
        double v = scale * sqrt(12) * (test_uniform(&state) - 0.5);
        if (p->rows[i].kind == RANDOM_AROUND_ONE) v += 1;
        if (p->rows[i].kind == RANDOM_DECAY) v = -exp(2 * test_uniform(&state));
        out[c] = (float)v;
    }
    if (p->rows[i].kind == RANDOM_EMBED) out[0] = 64;
    if (p->rows[i].kind != RANDOM_HEAD) return ERR_OK;
    out[0] = 0;
    if (row != RANDOM_TOKEN) return ERR_OK;
    /* The last hidden row is the square root of E in column 0 and near 0 elsewhere. */
    double logit = P < 1 ? log(P / (1 - P)) + log(RANDOM_V - 1) : 60;
    memset(out, 0, (size_t)k * sizeof *out);
    out[0] = (float)(logit / sqrt(RANDOM_E));
    return ERR_OK;
}

/* ---- keys -------------------------------------------------------------------------------------
 */

static inline void random_u32(gguf_out_keys *k, const char *arch, const char *key, uint32_t v)
{
    char full[80];
    snprintf(full, sizeof full, "%s.%s", arch, key);
    gguf_out_u32(k, full, v);
}

static inline void random_ints(gguf_out_keys *k, const char *arch, const char *key, int32_t a,
                               int32_t b, int32_t c, int n)
{
    char full[80];
    int32_t v[] = {a, b, c, 0};
    snprintf(full, sizeof full, "%s.%s", arch, key);
    gguf_out_ints(k, full, v, n);
}

/* All bytes, then pieces of letters with their merges, then the special ones. */
static inline void random_tokenizer(gguf_out_keys *k)
{
    static const char *const special[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>",
                                          "<think>",       "</think>",     "<|mask|>"};
    enum { N_SPECIAL = 6, FIRST = RANDOM_V - N_SPECIAL };
    static char text[RANDOM_V][8], rule[RANDOM_V][12];
    static str pieces[RANDOM_V], merges[RANDOM_V];
    static int32_t types[RANDOM_V];
    int n_merges = 0, n_other = 0;
    for (int i = 0; i < RANDOM_V; i++) {
        bool is_plain = (i >= 33 && i < 127) || (i >= 161 && i < 173) || (i >= 174 && i < 256);
        int point = is_plain || i > 255 ? i : 256 + n_other++, letter = i - 256;
        if (i >= FIRST) {
            pieces[i] = str_from(special[i - FIRST]);
        } else if (i >= 256) {
            /* "aa", "ab", … of 42 by 42 letters and signs from '0' on. */
            int n = snprintf(text[i], sizeof text[i], "%c%c", '0' + letter / 43, '0' + letter % 43);
            pieces[i] = (str){text[i], (size_t)n};
            n = snprintf(rule[n_merges], sizeof rule[0], "%c %c", '0' + letter / 43,
                         '0' + letter % 43);
            merges[n_merges] = (str){rule[n_merges], (size_t)n};
            n_merges++;
        } else {
            int n = point < 128 ? 1 : 2;
            if (n == 2) text[i][0] = (char)(0xc0 | point >> 6);
            text[i][n - 1] = (char)(n == 1 ? point : 0x80 | (point & 63));
            pieces[i] = (str){text[i], (size_t)n};
        }
        types[i] = i >= FIRST ? 3 : 1;
    }
    gguf_out_str(k, "tokenizer.ggml.model", STR("gpt2"));
    gguf_out_str(k, "tokenizer.ggml.pre", STR("qwen35"));
    gguf_out_strs(k, "tokenizer.ggml.tokens", pieces, RANDOM_V);
    gguf_out_ints(k, "tokenizer.ggml.token_type", types, RANDOM_V);
    gguf_out_strs(k, "tokenizer.ggml.merges", merges, n_merges);
    gguf_out_u32(k, "tokenizer.ggml.eos_token_id", FIRST + 2);
    gguf_out_u32(k, "tokenizer.ggml.padding_token_id", FIRST);
    gguf_out_bool(k, "tokenizer.ggml.add_bos_token", false);
    gguf_out_str(k, "tokenizer.chat_template", STR("{{ messages }}"));
}

static inline void random_target_keys(const random_spec *s, gguf_out_keys *k)
{
    static const struct {
        const char *key;
        uint32_t v;
    } all[] = {{"block_count", RANDOM_LAYERS},
               {"context_length", 8192},
               {"embedding_length", RANDOM_E},
               {"attention.head_count", 2},
               {"attention.head_count_kv", 1},
               {"attention.key_length", 256},
               {"attention.value_length", 256},
               {"rope.dimension_count", 64},
               {"ssm.conv_kernel", 4},
               {"ssm.state_size", 128},
               {"ssm.group_count", 2},
               {"ssm.time_step_rank", 4},
               {"ssm.inner_size", RANDOM_VALUES},
               {"full_attention_interval", 4},
               {"vocab_size", RANDOM_V}},
      moe[] = {{"expert_count", RANDOM_EXPERTS},
               {"expert_used_count", 2},
               {"expert_feed_forward_length", RANDOM_EXPERT_F},
               {"expert_shared_feed_forward_length", RANDOM_EXPERT_F}};
    const char *a = s->is_moe ? "qwen35moe" : "qwen35";
    gguf_out_str(k, "general.architecture", str_from(a));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) random_u32(k, a, all[i].key, all[i].v);
    for (int i = 0; i < 4 && s->is_moe; i++) random_u32(k, a, moe[i].key, moe[i].v);
    if (!s->is_moe) random_u32(k, a, "feed_forward_length", RANDOM_F);
    random_ints(k, a, "rope.dimension_sections", 11, 11, 10, 4);
    random_tokenizer(k);
}

/* A draft reads layers 1 and 2. */
static inline void random_draft_keys(const random_spec *s, gguf_out_keys *k)
{
    static const struct {
        const char *key;
        uint32_t v;
    } all[] = {{"block_count", RANDOM_DRAFT_LAYERS}, {"context_length", 8192},
               {"embedding_length", RANDOM_E},       {"feed_forward_length", RANDOM_F},
               {"attention.head_count", 2},          {"attention.head_count_kv", 1},
               {"attention.key_length", 128},        {"attention.value_length", 128},
               {"rope.dimension_count", 128}};
    const char *a = s->draft;
    gguf_out_str(k, "general.architecture", str_from(a));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) random_u32(k, a, all[i].key, all[i].v);
    random_tokenizer(k);
    if (strcmp(a, "dflash") == 0) {
        random_u32(k, a, "block_size", 16);
        random_ints(k, a, "target_layers", 2, 3, 0, 2); /* as the input of the next layer */
        random_ints(k, a, "rope.dimension_sections", 64, 0, 0, 4);
        gguf_out_u32(k, "tokenizer.ggml.mask_token_id", RANDOM_V - 1);
        return;
    }
    random_u32(k, a, "dflash.block_size", 16);
    random_ints(k, a, "dflash.target_layer_ids", 1, 2, 0, 2);
    random_u32(k, a, "dflash.n_target_features", 2 * RANDOM_E);
    random_u32(k, a, "dflash.mask_token_id", RANDOM_V - 1);
    gguf_out_bool(k, "dflash-draft.attention.causal", false);
}

static inline void random_write(const char *path, const random_spec *s)
{
    static random_plan p;
    gguf_out_keys k;
    workers *pool = NULL;
    err e = {0};
    p.n = 0;
    p.spec = *s;
    gguf_out_init(&k);
    if (s->draft) {
        random_draft_keys(s, &k);
        random_draft_tensors(&p);
    } else {
        random_target_keys(s, &k);
        random_target_tensors(&p);
    }
    CHECK_OK(workers_open(&pool, 2, &e), &e);
    CHECK_OK(gguf_write(path, &k, p.list, p.n, pool, random_row, &p, &e), &e);
    workers_close(pool);
    gguf_out_fini(&k);
}

#endif
