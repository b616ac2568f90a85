#include "base/json.h"
#include "load/load.h"
#include "support/test.h"

static const json *put(arena *a, const char *path, bool wants_weights)
{
    load_model m;
    err e;
    buf out;
    const json *root;
    if (wants_weights)
        CHECK_OK(load_model_open(&m, path, &e), &e);
    else
        CHECK_OK(load_model_peek(&m, path, &e), &e);
    buf_init(&out);
    load_put_arch_json(&m, &out);
    assert_false(out.failed);
    char *text = arena_copy(a, out.ptr, out.len);
    CHECK_OK(json_parse(a, (str){text, out.len}, "out", 8, JSON_UNIQUE_KEYS, &root, &e), &e);
    buf_fini(&out);
    load_model_close(&m);
    return root;
}

static int64_t int_of(const json *root, const char *key)
{
    int64_t v = -1;
    if (!json_to_int64(json_get(root, key), &v)) fail_msg("no number %s", key);
    return v;
}

TEST(a_target_is_described_with_its_types)
{
    arena a;
    arena_init(&a, 0);
    const json *root = put(&a, "models/mini-moe", true);
    assert_true(str_is(json_get(root, "family")->text, "qwen3_5_moe"));
    assert_true(str_is(json_get(root, "role")->text, "target"));
    assert_true(str_is(json_get(root, "rms_eps")->text, "1e-6") ||
                str_is(json_get(root, "rms_eps")->text, "1e-06"));
    assert_int_equal(int_of(root, "layers"), 8);
    assert_int_equal(int_of(root, "attention_layers"), 2);
    assert_int_equal(int_of(root, "experts"), 16);
    assert_int_equal(int_of(root, "width"), 256);
    assert_int_equal(int_of(root, "weight_bytes"), 14113760); /* the file's data section */
    int64_t sum = 0, n;
    const json *types = json_get(root, "bytes_by_type");
    for (const json *v = types->first; v; v = v->next) {
        assert_true(json_to_int64(v, &n));
        sum += n;
    }
    assert_int_equal(sum, 14113760);
    assert_non_null(json_get(types, "AFFINE8/64"));
    assert_null(json_get(root, "ffn_width"));
    arena_fini(&a);
}

TEST(a_draft_and_a_peek_are_described_too)
{
    arena a;
    arena_init(&a, 0);
    const json *root = put(&a, "models/mini-dense-dflash2", false);
    assert_true(str_is(json_get(root, "family")->text, "dflash2"));
    assert_int_equal(int_of(root, "block"), 8);
    assert_int_equal(int_of(root, "sliding_layers"), 3);
    assert_int_equal(int_of(root, "causal_layers"), 0);
    assert_int_equal(json_get(root, "target_layers_read")->n, 3);
    assert_null(json_get(root, "weight_bytes"));
    arena_fini(&a);
}
