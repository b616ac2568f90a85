#include "load/names_priv.h"
#include "support/test.h"

TEST(every_wrapper_prefix_is_dropped_once)
{
    static const char *const rows[][2] = {
        {"language_model.model.layers.0.x", "layers.0.x"},
        {"model.language_model.layers.0.x", "layers.0.x"},
        {"language_model.lm_head.weight", "lm_head.weight"},
        {"model.embed_tokens.weight", "embed_tokens.weight"},
        {"lm_head.weight", "lm_head.weight"},
        {"layers.0.model.x", "layers.0.model.x"},
        {"model.visual.blocks.0.x", "visual.blocks.0.x"},
        {"models.x", "models.x"},
        {"model.", ""},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_string_equal(names_canonical(rows[i][0]), rows[i][1]);
}

TEST(vision_and_the_multi_token_head_are_extra)
{
    assert_true(names_is_extra(names_canonical("model.visual.merger.norm.weight")));
    assert_true(names_is_extra(names_canonical("vision_tower.blocks.0.norm1.weight")));
    assert_true(names_is_extra(names_canonical("mtp.fc.weight")));
    assert_false(names_is_extra(names_canonical("model.layers.0.mlp.gate.weight")));
    assert_false(names_is_extra("mtpx"));
}
