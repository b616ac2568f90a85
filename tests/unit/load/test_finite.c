/* Weights that are no numbers. */
#include "fixture_weights.h"
#include "load/finite_priv.h"
#include "load/load.h"

/* Element `at` of a tensor of 16-bit floats as `bits`; then what opening the model says. */
static void check_spoiled(fixture_spec spec, const char *name, int64_t at, uint16_t bits,
                          const char *words)
{
    bench b;
    load_model m;
    err e = {0};
    begin(&b, spec, false);
    fixture_tensor *t = fixture_find(&b.f, name);
    assert_true(2 * at + 2 <= t->n_bytes);
    memcpy((char *)t->bytes + 2 * at, &bits, 2);
    fixture_write(&b.f);
    int64_t live = mem_count().n_live;
    CHECK_STATUS(load_model_open(&m, b.f.dir, &e), ERR_FORMAT);
    if (!strstr(e.msg, words)) fail_msg("\"%s\", want \"%s\"", e.msg, words);
    assert_non_null(strstr(e.where, "model.safetensors"));
    assert_int_equal(mem_count().n_live, live);
    fixture_fini(&b.f);
}

TEST(a_weight_that_is_no_number_is_named_with_its_row)
{
    fixture_spec hf = {.is_moe = true, .experts = FIXTURE_FUSED},
                 mlx = {.is_mlx = true, .bits = 4, .group = 32};
    check_spoiled(hf, "model.language_model.layers.1.linear_attn.dt_bias", 2, 0x7fc0,
                  "'layers.1.linear_attn.dt_bias' holds nan in row 0");
    check_spoiled(hf, "lm_head.weight", (FX_V - 1) * FX_E + 5, 0x7f80,
                  "'lm_head.weight' holds inf in row 95");
    /* The last row of the last expert, whose up half comes second. */
    check_spoiled(hf, "model.language_model.layers.0.mlp.experts.gate_up_proj",
                  (int64_t)FX_X * 2 * FX_MOE_F * FX_E - 1, 0xff80,
                  "'layers.0.mlp.experts.up_proj.weight' holds -inf in row 511");
    check_spoiled(mlx, "language_model.model.embed_tokens.scales", 1, 0x7fc0,
                  "'embed_tokens.weight' holds nan in row 0");
}

TEST(the_bundled_models_hold_numbers)
{
    static const char *const paths[] = {"models/mini-dense", "models/mini-moe",
                                        "models/mini-dense-dflash2"};
    for (int i = 0; i < 3; i++) {
        load_model m;
        err e = {0};
        CHECK_OK(load_model_open(&m, paths[i], &e), &e);
        CHECK_OK(finite_check(m.weights, &e), &e);
        load_model_close(&m);
    }
}
