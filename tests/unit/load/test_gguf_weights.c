#include "base/mem.h"
#include "fixture_checkpoint.h"
#include "fixture_gguf_model.h"
#include "load/load.h"

static load_model must_open(const fixture *f, made_gguf g)
{
    load_model m;
    err e = {0};
    made_write(&g, fixture_path(f, "m.gguf"));
    CHECK_OK(load_model_open(&m, fixture_path(f, "m.gguf"), &e), &e);
    return m;
}

static void check_fails(const fixture *f, made_gguf g, status want, const char *words)
{
    load_model m;
    err e = {0};
    int64_t live = mem_count().n_live;
    made_write(&g, fixture_path(f, "m.gguf"));
    CHECK_STATUS(load_model_open(&m, fixture_path(f, "m.gguf"), &e), want);
    if (!strstr(e.msg, words) || !strstr(e.where, "m.gguf"))
        fail_msg("%s: \"%s\", want \"%s\"", e.where, e.msg, words);
    assert_int_equal(mem_count().n_live, live);
}

static float value_at(const load_model *m, const char *name, int64_t row, int64_t column)
{
    const tensor *t = weights_find(m->weights, name);
    float values[512];
    assert_non_null(t);
    tensor_row_f32(t, row, values);
    return values[column];
}

/* model-spec: HF head k * r + j is the file's head j * Hk + k; r = 3, Hk = 2. */
static int file_head(int h)
{
    static const int heads[] = {0, 2, 4, 1, 3, 5};
    return heads[h];
}

/* Every place that value heads have, in both kinds of storage. */
TEST(value_heads_are_brought_into_the_order_of_hugging_face)
{
    fixture f;
    fixture_init(&f);
    for (int is_q8 = 0; is_q8 < 2; is_q8++) {
        load_model m = must_open(&f, model_target(false, is_q8));
        const char *layer = "layers.1.linear_attn.";
        char name[64];
        for (int h = 0; h < T_HV; h++) {
            int at = file_head(h);
            for (int d = 0; d < T_DV; d += 7) {
                snprintf(name, sizeof name, "%sin_proj_qkv.weight", layer);
                int row = T_KEYS + at * T_DV + d;
                assert_int_equal((int)value_at(&m, name, T_KEYS + h * T_DV + d, 0),
                                 is_q8 ? row % 100 : row);
                snprintf(name, sizeof name, "%sin_proj_z.weight", layer);
                assert_int_equal((int)value_at(&m, name, h * T_DV + d, 0),
                                 is_q8 ? (at * T_DV + d) % 100 : at * T_DV + d);
                snprintf(name, sizeof name, "%sconv1d.weight", layer);
                assert_int_equal((int)value_at(&m, name, T_KEYS + h * T_DV + d, 0), row);
            }
            snprintf(name, sizeof name, "%sin_proj_a.weight", layer);
            assert_int_equal((int)value_at(&m, name, h, 0), at);
            snprintf(name, sizeof name, "%sin_proj_b.weight", layer);
            assert_int_equal((int)value_at(&m, name, h, 0), at);
            snprintf(name, sizeof name, "%sA_log", layer);
            assert_int_equal((int)value_at(&m, name, 0, h), -1 - at);
            snprintf(name, sizeof name, "%sdt_bias", layer);
            assert_true(value_at(&m, name, 0, h) == (float)at / 1000);
            snprintf(name, sizeof name, "%sout_proj.weight", layer);
            if (!is_q8)
                assert_true(value_at(&m, name, 3, h * T_DV + 5) ==
                            3 + (float)(at * T_DV + 5) / 1000);
        }
        for (int row = 0; row < T_KEYS; row++) { /* q and k stay */
            snprintf(name, sizeof name, "%sin_proj_qkv.weight", layer);
            assert_int_equal((int)value_at(&m, name, row, 0), row);
        }
        load_model_close(&m);
    }
    fixture_fini(&f);
}

TEST(a_target_has_its_architecture_and_all_tensors)
{
    fixture f;
    fixture_init(&f);
    for (int is_moe = 0; is_moe < 2; is_moe++) {
        load_model m = must_open(&f, model_target(is_moe, true));
        const arch_target *a = &m.target;
        assert_string_equal(m.name, "m");
        assert_string_equal(m.format, "gguf");
        assert_false(m.is_draft);
        assert_int_equal(a->family, is_moe ? ARCH_QWEN35_MOE : ARCH_QWEN35);
        assert_true(a->n_layers == 4 && a->E == T_E && a->V == T_V && a->H == 2 && a->G == 1);
        assert_true(a->D == 32 && a->n_rot == 16 && a->mrope_section[2] == 2 && a->is_tied);
        assert_true(a->gdn_Hk == 2 && a->gdn_Hv == 6 && a->gdn_dk == 16 && a->gdn_dv == 32);
        assert_true(a->layer_type[2] == ARCH_LAYER_GDN && a->layer_type[3] == ARCH_LAYER_ATTN);
        assert_true(a->has_neg_decay && !a->has_norm_offset && a->has_output_gate);
        assert_true(a->n_eos == 2 && a->eos[0] == 3 && a->eos[1] == 4 && a->pad_id == 4);
        assert_true(m.sampling.has_temperature && m.sampling.temperature == 0.5);
        assert_true(m.sampling.has_top_k && m.sampling.top_k == 20 && !m.sampling.has_top_p);
        assert_int_equal(weights_count(m.weights), is_moe ? 3 * 19 + 16 + 2 : 3 * 14 + 11 + 2);
        if (is_moe) {
            const tensor *t = weights_find(m.weights, "layers.0.mlp.experts.up_proj.weight");
            tensor x = tensor_slice(t, 2);
            float row[32];
            tensor_row_f32(&x, 9, row);
            assert_true(t->n_dims == 3 && row[31] == 2 * 32 + 9);
            t = weights_find(m.weights, "layers.0.mlp.shared_expert_gate.weight");
            assert_true(t->n_dims == 2 && t->shape[0] == 1 && t->shape[1] == T_E);
        }
        weights_forget(m.weights, weights_find(m.weights, "embed_tokens.weight"));
        load_model_close(&m);
    }
    fixture_fini(&f);
}

TEST(both_dialects_of_a_draft_give_the_same_model)
{
    fixture f;
    fixture_init(&f);
    for (int kind = 0; kind < 4; kind++) {
        bool is_ik = kind & 1, is_v2 = kind & 2;
        load_model m = must_open(&f, model_draft(is_ik, is_v2));
        const arch_draft *d = &m.draft;
        assert_true(m.is_draft && d->is_v2 == is_v2 && d->n_layers == 2 && d->V == T_V);
        assert_true(d->n_taps == 2 && d->taps[0] == 0 && d->taps[1] == 2 && d->mask_id == 7);
        assert_true(d->block == 8 && d->window == 0 && !d->layer_is_causal[1]);
        assert_int_equal(weights_count(m.weights), is_v2 ? 15 * 2 + 6 : 11 * 2 + 3);
        assert_int_equal((int)value_at(&m, "fc.weight", 9, 40), 9);
        if (is_v2) {
            const tensor *t = weights_find(m.weights, "layers.1.mlp_conv.base_kernel");
            float v;
            memcpy(&v, (const char *)t->data + ((1 * 2 + 0) * T_E + 5) * 4, 4);
            assert_true(t->n_dims == 3 && v == 2 * T_E + 5); /* side 1, tap 0 */
            assert_true(d->select_rank == 32 && d->conv_group == 16);
        }
        load_model_close(&m);
    }
    fixture_fini(&f);
}

TEST(what_a_file_lacks_or_has_wrongly_is_named)
{
    fixture f;
    fixture_init(&f);
    made_gguf g = made_new();
    model_target_keys(&g, false, 4);
    model_matrix(&g, "token_embd.weight", 1, T_V, T_E, false);
    check_fails(&f, g, ERR_FORMAT, "tensor 'blk.0.attn_norm.weight' is missing");
    g = made_new();
    model_target_keys(&g, false, 4);
    model_matrix(&g, "token_embd.weight", 1, T_V, 2 * T_E, false);
    check_fails(&f, g, ERR_FORMAT, "tensor 'token_embd.weight' is [48, 64] F32, want [48, 32] F32");
    g = made_new();
    model_target_keys(&g, false, 4);
    int64_t ne[] = {T_E, T_V};
    made_info(&g, "token_embd.weight", 2, ne, 142, 0);
    check_fails(&f, g, ERR_UNSUPPORTED, "tensor 'token_embd.weight' has ggml type 142");
    g = made_new();
    model_target_keys(&g, false, 4);
    uint8_t ints[T_E * T_V] = {0};
    made_tensor(&g, "token_embd.weight", 2, ne, 24, ints, sizeof ints);
    check_fails(&f, g, ERR_FORMAT, "tensor 'token_embd.weight' is of type I8");
    /* A_log as it was: zeros are no decay. */
    g = model_target(false, true);
    for (size_t i = 0; i + 4 <= g.data.len; i += 4) {
        static const float decay[2] = {-1, -2};
        if (i + 8 <= g.data.len && memcmp(g.data.ptr + i, decay, 8) == 0)
            memset(g.data.ptr + i, 0, 4);
    }
    check_fails(&f, g, ERR_FORMAT, "tensor 'blk.0.ssm_a' holds 0 at head 0");
    fixture_fini(&f);
}

TEST(every_failed_allocation_of_open_is_out_of_memory_and_leaks_nothing)
{
    fixture f;
    fixture_init(&f);
    made_gguf g = model_target(true, true);
    made_write(&g, fixture_path(&f, "m.gguf"));
    int64_t live = mem_count().n_live;
    for (int64_t at = 1;; at++) {
        load_model m;
        err e;
        mem_fail_at(at);
        status s = load_model_open(&m, fixture_path(&f, "m.gguf"), &e);
        mem_fail_at(0);
        if (s != ERR_OK) CHECK_STATUS(s, ERR_NOMEM);
        load_model_close(&m);
        assert_int_equal(mem_count().n_live, live);
        if (s == ERR_OK) break;
    }
    fixture_fini(&f);
}
