#include "load/arch_tensors_priv.h"
#include "load/gguf_names_priv.h"
#include "support/test.h"

static status check_name(void *ctx, const arch_tensor *t, err *e)
{
    gguf_spellings s = gguf_names_find(t->name);
    (void)e;
    ++*(int *)ctx;
    if (s.n == 0 || !s.name[0][0]) fail_msg("no name for %s", t->name);
    return ERR_OK;
}

TEST(every_tensor_of_every_architecture_has_a_name)
{
    int n = 0;
    arch_target t = {.n_layers = 4, .E = 8, .V = 8, .X = 2, .shared_F = 4};
    arch_draft d = {.n_layers = 2, .is_v2 = true, .conv_group = 16, .n_taps = 1};
    t.layer_type[3] = ARCH_LAYER_ATTN;
    for (int i = 0; i < 2; i++) {
        t.family = i ? ARCH_QWEN35_MOE : ARCH_QWEN35;
        arch_tensors_target(&t, check_name, &n, NULL);
    }
    arch_tensors_draft(&d, check_name, &n, NULL);
    assert_int_equal(n, 56 + 76 + 36);
}

TEST(names_are_those_of_the_format)
{
    gguf_spellings s = gguf_names_find("layers.12.linear_attn.dt_bias");
    assert_int_equal(s.n, 2);
    assert_string_equal(s.name[0], "blk.12.ssm_dt.bias");
    assert_string_equal(s.name[1], "blk.12.ssm_dt");
    assert_string_equal(gguf_names_find("lm_head.weight").name[0], "output.weight");
    assert_string_equal(gguf_names_find("fc.weight").name[1], "dflash_fc.weight");
    static const char *const unknown[] = {"",           "layers.",        "layers.1",
                                          "layers.x.A", "layers.1.A_log", "visual.x"};
    for (int i = 0; i < 6; i++) assert_int_equal(gguf_names_find(unknown[i]).n, 0);
}
