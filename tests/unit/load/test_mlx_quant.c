#include "base/mem.h"
#include "load/mlx_quant_priv.h"
#include "support/test.h"

static status parse(const char *text, mlx_quant *q, arena *mem, err *e)
{
    const json *root;
    arena_init(mem, 0);
    *e = (err){0};
    status s = json_parse(mem, str_from(text), "config.json", 8, 0, &root, e);
    return s == ERR_OK ? mlx_quant_parse(q, mem, root, "config.json", e) : s;
}

static void check_fails(const char *text, status want, const char *words)
{
    mlx_quant q = {0};
    arena mem;
    err e;
    status s = parse(text, &q, &mem, &e);
    if (s != want || !strstr(e.msg, words)) fail_msg("%s: %s: %s", text, status_name(s), e.msg);
    assert_false(q.is_present);
    arena_fini(&mem);
}

TEST(a_config_without_quantization_has_none)
{
    mlx_quant q = {0};
    arena mem;
    err e;
    CHECK_OK(parse("{\"quantization\":null}", &q, &mem, &e), &e);
    assert_false(q.is_present);
    arena_fini(&mem);
}

TEST(overrides_are_found_by_module_whatever_their_prefix)
{
    mlx_quant q = {0};
    arena mem;
    err e;
    CHECK_OK(parse("{\"quantization\":{\"group_size\":64,\"bits\":4,\"mode\":\"affine\","
                   "\"language_model.model.layers.0.mlp.gate\":{\"group_size\":32,\"bits\":8},"
                   "\"model.layers.1.mlp.gate\":{\"bits\":6},"
                   "\"lm_head\":false,\"model.embed_tokens\":true,"
                   "\"layers.2.x\":{\"mode\":\"mxfp4\",\"group_size\":32,\"bits\":4}}}",
                   &q, &mem, &e),
             &e);
    const mlx_quant_row *r = mlx_quant_find(&q, "layers.7.mlp.gate");
    assert_true(q.is_present && r->bits == 4 && r->group == 64 && !r->is_off && !r->has_mode);
    r = mlx_quant_find(&q, "layers.0.mlp.gate");
    assert_true(r->bits == 8 && r->group == 32);
    r = mlx_quant_find(&q, "layers.1.mlp.gate");
    assert_true(r->bits == 6 && r->group == 64);
    assert_true(mlx_quant_find(&q, "lm_head")->is_off);
    r = mlx_quant_find(&q, "embed_tokens");
    assert_true(!r->is_off && r->bits == 4);
    r = mlx_quant_find(&q, "layers.2.x");
    assert_true(r->has_mode);
    assert_string_equal(r->mode, "mxfp4");
    arena_fini(&mem);
}

TEST(quantization_config_stands_in_when_quantization_is_absent)
{
    mlx_quant q = {0};
    arena mem;
    err e;
    CHECK_OK(parse("{\"quantization_config\":{\"group_size\":128,\"bits\":3}}", &q, &mem, &e), &e);
    assert_true(q.is_present && q.usual.bits == 3 && q.usual.group == 128);
    arena_fini(&mem);
    CHECK_OK(parse("{\"quantization_config\":{\"quant_method\":\"fp8\"},"
                   "\"quantization\":{\"group_size\":32,\"bits\":2}}",
                   &q, &mem, &e),
             &e);
    assert_true(q.usual.bits == 2 && q.usual.group == 32);
    arena_fini(&mem);
}

TEST(every_width_and_group_of_affine_is_taken_and_no_other)
{
    for (int bits = 0; bits <= 9; bits++)
        for (int group = 16; group <= 256; group *= 2) {
            char text[100];
            mlx_quant q = {0};
            arena mem;
            err e;
            snprintf(text, sizeof text, "{\"quantization\":{\"group_size\":%d,\"bits\":%d}}", group,
                     bits);
            bool is_ok = ((bits >= 2 && bits <= 6) || bits == 8) && group >= 32 && group <= 128;
            status s = parse(text, &q, &mem, &e);
            assert_int_equal(s == ERR_OK, is_ok);
            if (!is_ok && bits > 0) CHECK_STATUS(s, ERR_UNSUPPORTED);
            arena_fini(&mem);
        }
}

TEST(other_methods_and_broken_tables_are_refused)
{
    check_fails("{\"quantization\":4}", ERR_FORMAT, "must be an object");
    check_fails("{\"quantization\":{\"bits\":4}}", ERR_FORMAT, "group_size is missing");
    check_fails("{\"quantization\":{\"group_size\":64}}", ERR_FORMAT, "bits is missing");
    check_fails("{\"quantization\":{\"group_size\":64,\"bits\":\"4\"}}", ERR_FORMAT,
                "whole number");
    check_fails(
        "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":128}}",
        ERR_UNSUPPORTED, "is 'gptq'");
    check_fails("{\"quantization_config\":{\"quant_method\":\"fp8\"}}", ERR_UNSUPPORTED,
                "weight_block_size must be two counts");
    check_fails("{\"quantization_config\":{\"quant_method\":\"fp8\",\"fmt\":\"e5m2\","
                "\"weight_block_size\":[1,2]}}",
                ERR_UNSUPPORTED, "fmt is not e4m3");
    check_fails("{\"quantization\":{\"group_size\":64,\"bits\":4,\"layers.0.x\":{\"bits\":7}}}",
                ERR_UNSUPPORTED, "quantization.layers.0.x.bits 7 in groups of 64");
    check_fails("{\"quantization\":{\"group_size\":64,\"bits\":4,\"model.a.b\":{\"bits\":8},"
                "\"language_model.a.b\":false}}",
                ERR_FORMAT, "two overrides for 'a.b'");
}

TEST(every_failed_allocation_is_out_of_memory)
{
    int64_t live = mem_count().n_live;
    for (int64_t at = 1;; at++) {
        mlx_quant q = {0};
        arena mem;
        err e;
        mem_fail_at(at);
        status s = parse("{\"quantization\":{\"group_size\":64,\"bits\":4,\"a.b\":false}}", &q,
                         &mem, &e);
        mem_fail_at(0);
        arena_fini(&mem);
        assert_int_equal(mem_count().n_live, live);
        if (s == ERR_OK) break;
        CHECK_STATUS(s, ERR_NOMEM);
    }
}
