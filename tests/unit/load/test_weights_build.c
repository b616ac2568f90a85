/* Every form in which a checkpoint stores a tensor. */
#include "fixture_weights.h"

TEST(mlx_affine_of_all_widths_groups_and_scale_types)
{
    static const int bits[] = {2, 3, 4, 5, 6, 8}, groups[] = {32, 64, 128};
    static const dtype scales[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 3; j++)
            check_target((fixture_spec){.is_mlx = true,
                                        .bits = bits[i],
                                        .group = groups[j],
                                        .scale_type = scales[(i + j) % 3]});
}

TEST(mlx_experts_are_switch_mlp)
{
    check_target((fixture_spec){.is_mlx = true, .is_moe = true, .bits = 4, .group = 64});
    check_target((fixture_spec){.is_mlx = true, .is_moe = true});
}

TEST(hugging_face_files_of_all_float_types)
{
    static const dtype types[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32};
    for (int i = 0; i < 3; i++) {
        check_target((fixture_spec){.type = types[i]});
        check_target((fixture_spec){.type = types[i], .is_flat = true, .is_tied = true});
        check_target((fixture_spec){.type = types[i], .is_moe = true, .experts = FIXTURE_FUSED});
    }
}

TEST(experts_of_every_form_give_the_same_tensors)
{
    static const fixture_experts forms[] = {FIXTURE_SWITCH, FIXTURE_FUSED, FIXTURE_FUSED_WEIGHT,
                                            FIXTURE_EACH};
    for (int i = 0; i < 4; i++) {
        check_target((fixture_spec){.is_moe = true, .experts = forms[i]});
        check_target((fixture_spec){.is_mlx = true,
                                    .is_moe = true,
                                    .experts = forms[i],
                                    .bits = 5,
                                    .group = 32,
                                    .scale_type = DTYPE_F16});
    }
}

TEST(any_known_prefix_will_do)
{
    static const char *const prefixes[] = {"", "model.", "language_model.model.",
                                           "model.language_model.", "language_model."};
    for (int i = 0; i < 5; i++) check_target((fixture_spec){.prefix = prefixes[i]});
}

TEST(drafts_of_both_versions)
{
    static const dtype types[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32};
    for (int v2 = 0; v2 < 2; v2++)
        for (int i = 0; i < 3; i++) {
            bench b;
            begin(&b, (fixture_spec){.is_v2 = v2, .prefix = i ? "model." : "", .type = types[i]},
                  true);
            fixture_write(&b.f);
            must_open(&b);
            check_all(&b, v2 ? 15 * FX_D_LAYERS + 6 : 11 * FX_D_LAYERS + 3, true);
            assert_int_equal(b.c.draft.is_v2, v2);
            end(&b);
        }
}

TEST(overrides_set_bits_and_a_module_without_scales_is_plain)
{
    bench b;
    begin(&b,
          (fixture_spec){.is_mlx = true,
                         .bits = 4,
                         .group = 64,
                         .extra = ",\"language_model.model.layers.0.mlp.down_proj\":"
                                  "{\"group_size\":32,\"bits\":8},"
                                  "\"language_model.model.layers.1.mlp.up_proj\":false"},
          false);
    fixture_spec other = {.is_mlx = true, .bits = 8, .group = 32}, plain = {.is_mlx = true};
    fixture_maker m = {&b.f, &other, "language_model.model.", 0};
    fixture_remove(&b.f, "language_model.model.layers.0.mlp.down_proj.weight");
    fixture_remove(&b.f, "language_model.model.layers.0.mlp.down_proj.scales");
    fixture_remove(&b.f, "language_model.model.layers.0.mlp.down_proj.biases");
    fixture_linear(&m, "mlp.down_proj", FX_E, FX_F);
    m.s = &plain;
    m.layer = 1;
    fixture_remove(&b.f, "language_model.model.layers.1.mlp.up_proj.weight");
    fixture_remove(&b.f, "language_model.model.layers.1.mlp.up_proj.scales");
    fixture_remove(&b.f, "language_model.model.layers.1.mlp.up_proj.biases");
    fixture_linear(&m, "mlp.up_proj", FX_F, FX_E);
    fixture_write(&b.f);
    must_open(&b);
    const tensor *t = weights_find(b.w, "layers.0.mlp.down_proj.weight");
    assert_true(t->bits == 8 && t->group == 32);
    check_values(&other, "layers.0.mlp.down_proj.weight", t, false);
    t = weights_find(b.w, "layers.1.mlp.up_proj.weight");
    assert_int_equal(t->type, DTYPE_BF16);
    check_values(&plain, "layers.1.mlp.up_proj.weight", t, false);
    t = weights_find(b.w, "layers.0.mlp.up_proj.weight");
    assert_true(t->bits == 4 && t->group == 64);
    end(&b);
}

TEST(each_missing_tensor_is_named)
{
    bench b;
    begin(&b, (fixture_spec){.is_mlx = true, .bits = 4, .group = 64}, false);
    for (int i = 0; i < b.f.n; i++) {
        fixture_tensor kept = b.f.list[i];
        if (strstr(kept.name, "layers.1.") || strstr(kept.name, "layers.2.")) continue; /* as 0 */
        char words[200];
        const char *canonical = strstr(kept.name, "lm_head");
        if (!canonical) canonical = kept.name + strlen("language_model.model.");
        if (ends_with(kept.name, ".scales"))
            snprintf(words, sizeof words, "unless .scales stand beside it");
        else if (ends_with(kept.name, ".biases"))
            snprintf(words, sizeof words, "has .scales, but no .biases");
        else if (kept.n_dims == 2)
            snprintf(words, sizeof words, "has .scales, but no .weight");
        else
            snprintf(words, sizeof words, "tensor '%.150s' is missing", canonical);
        b.f.list[i] = b.f.list[b.f.n - 1];
        b.f.n--;
        fixture_write(&b.f);
        check_fails(&b, ERR_FORMAT, "model.safetensors", words);
        b.f.n++;
        b.f.list[i] = kept;
    }
    fixture_fini(&b.f);
}

/* Change the shape or type of one tensor, keeping its size right for the file. */
static void check_changed(fixture_spec spec, bool is_draft, const char *name, const char *type,
                          int n_dims, int64_t d0, int64_t d1, int64_t d2, status want,
                          const char *words)
{
    bench b;
    begin(&b, spec, is_draft);
    fixture_tensor *t = fixture_find(&b.f, name);
    int64_t shape[3] = {d0, d1, d2}, n = dtype_bits(dtype_find(type, strlen(type))) / 8;
    for (int i = 0; i < n_dims; i++) n *= shape[i];
    snprintf(t->type, sizeof t->type, "%s", type);
    t->n_dims = n_dims;
    memcpy(t->shape, shape, sizeof shape);
    t->bytes = realloc(t->bytes, (size_t)n + 1);
    if (n > t->n_bytes) memset((char *)t->bytes + t->n_bytes, 0, (size_t)(n - t->n_bytes));
    t->n_bytes = n;
    fixture_write(&b.f);
    check_fails(&b, want, "model.safetensors", words);
    fixture_fini(&b.f);
}

TEST(a_wrong_shape_or_type_is_refused_with_both)
{
    fixture_spec hf = {0}, mlx = {.is_mlx = true, .bits = 4, .group = 64},
                 moe = {.is_moe = true, .experts = FIXTURE_FUSED}, v2 = {.is_v2 = true};
    check_changed(hf, false, "lm_head.weight", "BF16", 2, FX_E, FX_V, 0, ERR_FORMAT,
                  "tensor 'lm_head.weight' is [128, 96] BF16, want [96, 128] BF16");
    check_changed(hf, false, "lm_head.weight", "BF16", 1, FX_E * FX_V, 0, 0, ERR_FORMAT,
                  "is [12288]");
    check_changed(hf, false, "lm_head.weight", "F8_E4M3", 2, FX_V, FX_E, 0, ERR_FORMAT,
                  "of 8-bit floats, but has no weight_scale_inv");
    check_changed(hf, false, "lm_head.weight", "I32", 2, FX_V, FX_E, 0, ERR_FORMAT, "dtype I32");
    check_changed(hf, false, "model.language_model.norm.weight", "BF16", 2, 1, FX_E, 0, ERR_FORMAT,
                  "want [128] BF16");
    check_changed(hf, false, "model.language_model.layers.0.linear_attn.conv1d.weight", "BF16", 2,
                  FX_C, FX_CONV, 0, ERR_FORMAT, "want [256, 1, 4] BF16");
    check_changed(hf, false, "model.language_model.layers.1.linear_attn.conv1d.weight", "BF16", 3,
                  FX_C, FX_CONV, 1, ERR_FORMAT, "is laid out otherwise");
    check_changed(hf, false, "model.language_model.layers.0.linear_attn.A_log", "BF16", 1,
                  FX_HV + 1, 0, 0, ERR_FORMAT, "want [4] BF16");
    check_changed(moe, false, "model.language_model.layers.0.mlp.experts.gate_up_proj", "BF16", 3,
                  FX_X, FX_E, 2 * FX_MOE_F + 1, ERR_FORMAT, "want [4, 256, 128] BF16");
    check_changed(v2, true, "candidate_selector.successor_codebook", "BF16", 2, FX_V, FX_RANK + 1,
                  0, ERR_FORMAT, "want [96, 32] BF16");
    check_changed(v2, true, "layers.1.mlp_conv.base_kernel", "BF16", 3, 2, 3, FX_E, ERR_FORMAT,
                  "want [2, 2, 128] BF16");

    check_changed(mlx, false, "language_model.lm_head.weight", "U32", 2, FX_V, 8, 0, ERR_FORMAT,
                  "is [96, 8] U32, want [96, 16] U32");
    check_changed(mlx, false, "language_model.lm_head.weight", "I32", 2, FX_V, 16, 0, ERR_FORMAT,
                  "is [96, 16] I32, want [96, 16] U32");
    check_changed(mlx, false, "language_model.lm_head.scales", "BF16", 2, FX_V, 4, 0, ERR_FORMAT,
                  "'language_model.lm_head.scales' is [96, 4] BF16, want [96, 2] BF16");
    check_changed(mlx, false, "language_model.lm_head.scales", "U8", 2, FX_V, 2, 0, ERR_FORMAT,
                  "is [96, 2] U8, want [96, 2] BF16");
    check_changed(mlx, false, "language_model.lm_head.biases", "F32", 2, FX_V, 2, 0, ERR_FORMAT,
                  "'language_model.lm_head.biases' is [96, 2] F32, want [96, 2] BF16");
}

static void check_config(const char *extra, int bits, int group, status want, const char *words)
{
    bench b;
    fixture_spec files = {.is_mlx = true, .bits = 4, .group = 32};
    begin(&b, files, false);
    fixture_write(&b.f);
    fixture_spec told = {.is_mlx = true, .bits = bits, .group = group, .extra = extra};
    fixture_target_config(&b.f, &told);
    check_fails(&b, want, "model.safetensors", words);
    fixture_fini(&b.f);
}

TEST(a_table_that_does_not_fit_the_files_is_refused)
{
    check_config(NULL, 0, 0, ERR_FORMAT, "config.json has no quantization");
    check_config(NULL, 8, 32, ERR_FORMAT, "is [96, 16] U32, want [96, 32] U32");
    check_config(NULL, 4, 64, ERR_FORMAT, "is [96, 4] BF16, want [96, 2] BF16");
    check_config(",\"lm_head\":false", 4, 32, ERR_FORMAT,
                 "module 'lm_head' has .scales, but its override is false");
    check_config(",\"language_model.lm_head\":{\"mode\":\"nvfp9\",\"group_size\":16,\"bits\":4}", 4,
                 32, ERR_UNSUPPORTED,
                 "module 'lm_head' has .scales, but mode 'nvfp9' is not known");
}

TEST(groups_that_do_not_divide_the_columns_are_refused)
{
    bench b;
    begin(&b, (fixture_spec){.bits = 4, .group = 64}, true); /* a draft's down_proj has 192 */
    fixture_write(&b.f);
    arena mem;
    str text;
    err e;
    char changed[4000];
    arena_init(&mem, 0);
    CHECK_OK(file_read(&mem, fixture_path(&b.f, "config.json"), 4000, &text, &e), &e);
    snprintf(changed, sizeof changed, "{\"quantization\":{\"bits\":4,\"group_size\":%d},%s", 128,
             text.ptr + 1);
    fixture_text(&b.f, "config.json", changed);
    check_fails(&b, ERR_FORMAT, "model.safetensors", "want ");
    snprintf(changed, sizeof changed,
             "{\"quantization\":{\"bits\":4,\"group_size\":64,\"layers.0.mlp.down_proj\":"
             "{\"group_size\":128}},%s",
             text.ptr + 1);
    fixture_text(&b.f, "config.json", changed);
    check_fails(&b, ERR_FORMAT, "model.safetensors",
                "module 'layers.0.mlp.down_proj' has .scales, but groups of 128 do not divide its "
                "192 columns");
    snprintf(changed, sizeof changed, "{\"quantization\":{\"bits\":4,\"group_size\":64},%s",
             text.ptr + 1);
    fixture_text(&b.f, "config.json", changed);
    arena_fini(&mem);
    must_open(&b);
    check_all(&b, 11 * FX_D_LAYERS + 3, true);
    end(&b);
}

TEST(two_forms_of_the_same_experts_are_refused)
{
    bench b;
    begin(&b, (fixture_spec){.is_moe = true, .experts = FIXTURE_FUSED}, false);
    fixture_spec other = {.is_moe = true, .experts = FIXTURE_SWITCH};
    fixture_maker m = {&b.f, &other, "model.language_model.", 2};
    fixture_experts_of(&m);
    fixture_write(&b.f);
    check_fails(&b, ERR_FORMAT, "model.safetensors", "hold the same experts");
    fixture_fini(&b.f);
}

TEST(single_experts_must_be_complete_and_alike)
{
    bench b;
    begin(&b, (fixture_spec){.is_moe = true, .experts = FIXTURE_EACH}, false);
    fixture_tensor *t = fixture_find(&b.f,
                                     "model.language_model.layers.0.mlp.experts.3.up_proj.weight");
    snprintf(t->type, sizeof t->type, "F16");
    fixture_write(&b.f);
    check_fails(&b, ERR_FORMAT, "model.safetensors", "has another type than expert 0");
    fixture_remove(&b.f, "model.language_model.layers.0.mlp.experts.3.up_proj.weight");
    fixture_write(&b.f);
    check_fails(&b, ERR_FORMAT, "model.safetensors", "'layers.0.mlp.experts.3.up_proj' is missing");
    fixture_fini(&b.f);
}
