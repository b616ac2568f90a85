#include "fixture_weights.h"

TEST(sharded_files_are_one_model)
{
    for (int n = 1; n < 5; n++) {
        bench b;
        begin(&b, (fixture_spec){.is_mlx = true, .bits = 4, .group = 64}, false);
        fixture_write_shards(&b.f, n);
        must_open(&b);
        check_all(&b, N_DENSE, false);
        assert_non_null(strstr(weights_file(b.w, "embed_tokens.weight"), "model-00001-of"));
        end(&b);
    }
}

TEST(a_disputed_tie_is_settled_by_the_files)
{
    for (int is_tied = 0; is_tied < 2; is_tied++) {
        bench b;
        arena mem;
        str text;
        err e;
        char changed[8000];
        begin(&b, (fixture_spec){.is_tied = is_tied}, false);
        fixture_write(&b.f);
        arena_init(&mem, 0);
        CHECK_OK(file_read(&mem, fixture_path(&b.f, "config.json"), 8000, &text, &e), &e);
        char *at = strstr((char *)(uintptr_t)text.ptr, "\"text_config\":{");
        assert_non_null(at);
        at += strlen("\"text_config\":{");
        snprintf(changed, sizeof changed, "%.*s\"tie_word_embeddings\":%s,%s", (int)(at - text.ptr),
                 text.ptr, is_tied ? "false" : "true", at);
        fixture_text(&b.f, "config.json", changed);
        arena_fini(&mem);
        must_open(&b);
        assert_true(b.c.is_tie_disputed);
        assert_int_equal(b.c.target.is_tied, is_tied);
        check_all(&b, N_DENSE - is_tied, false);
        end(&b);
    }
}

TEST(extra_tensors_are_ignored)
{
    bench b;
    int64_t five[5] = {2, 3, 1, 2, 2}, one = 1;
    begin(&b, (fixture_spec){0}, false);
    int n = b.f.n;
    fixture_add_plain(&b.f, "model.visual.patch_embed.proj.weight", "v", DTYPE_BF16, 5, five, 0);
    fixture_add_plain(&b.f, "mtp.fc.weight", "m", DTYPE_BF16, 1, &one, 0);
    fixture_add_plain(&b.f, "model.language_model.layers.0.rotary.inv_freq", "r", DTYPE_F32, 1,
                      &one, 0);
    fixture_write(&b.f);
    must_open(&b);
    assert_int_equal(weights_count(b.w), N_DENSE);
    assert_null(weights_find(b.w, "mtp.fc.weight"));
    assert_true(b.f.n == n + 3);
    end(&b);
}

TEST(get_checks_the_shape_and_names_file_and_tensor)
{
    bench b;
    tensor t = {0};
    err e;
    begin(&b, (fixture_spec){0}, false);
    fixture_write(&b.f);
    must_open(&b);
    int64_t shape[3] = {FX_V, FX_E, 1};
    CHECK_OK(weights_get(b.w, "lm_head.weight", 2, shape, &t, &e), &e);
    assert_true(t.shape[1] == FX_E && t.type == DTYPE_BF16);
    shape[1] = 64;
    tensor before = t;
    CHECK_STATUS(weights_get(b.w, "lm_head.weight", 2, shape, &t, &e), ERR_FORMAT);
    assert_string_equal(e.msg, "tensor 'lm_head.weight' is [96, 128] BF16, want [96, 64] BF16");
    assert_non_null(strstr(e.where, "model.safetensors"));
    CHECK_STATUS(weights_get(b.w, "lm_head.weight", 3, shape, &t, &e), ERR_FORMAT);
    CHECK_STATUS(weights_get(b.w, "nothing", 1, shape, &t, &e), ERR_FORMAT);
    assert_string_equal(e.msg, "tensor 'nothing' is missing");
    assert_memory_equal(&t, &before, sizeof t);
    end(&b);
}

TEST(expected_and_forgotten_tensors_can_be_read_again)
{
    bench b;
    begin(&b, (fixture_spec){.is_moe = true, .experts = FIXTURE_FUSED}, false);
    fixture_write(&b.f);
    must_open(&b);
    for (int i = 0; i < weights_count(b.w); i++) {
        const tensor *t;
        weights_name(b.w, i, &t);
        weights_expect(t);
        weights_forget(b.w, t);
        weights_expect(t);
    }
    check_all(&b, N_MOE, false);
    end(&b);
}

TEST(every_failed_allocation_is_out_of_memory_and_leaks_nothing)
{
    bench b;
    begin(&b, (fixture_spec){.is_moe = true, .experts = FIXTURE_EACH}, false);
    fixture_write_shards(&b.f, 2);
    int64_t live = mem_count().n_live;
    for (int64_t at = 1;; at++) {
        err e;
        mem_fail_at(at);
        status s = open_it(&b, &e);
        mem_fail_at(0);
        if (s == ERR_OK) close_it(&b);
        assert_int_equal(mem_count().n_live, live);
        if (s == ERR_OK) break;
        CHECK_STATUS(s, ERR_NOMEM);
    }
    fixture_fini(&b.f);
}
