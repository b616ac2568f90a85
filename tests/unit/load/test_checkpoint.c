#include "base/mem.h"
#include "fixture_checkpoint.h"
#include "load/checkpoint_priv.h"

static void add(fixture *f, const char *name, int64_t n)
{
    fixture_add_plain(f, name, name, DTYPE_F32, 1, &n, 0);
}

static void check_fails(const fixture *f, status want, const char *where, const char *words)
{
    checkpoint c;
    err e = {0};
    int64_t live = mem_count().n_live;
    status s = checkpoint_open(&c, f->dir, &e);
    if (s != want || !strstr(e.msg, words) || !strstr(e.where, where))
        fail_msg("%s: %s: \"%s\", want %s: \"%s\"", status_name(s), e.where, e.msg, where, words);
    assert_null(c.items);
    assert_int_equal(mem_count().n_live, live);
}

TEST(shards_make_one_table_without_vision_and_multi_token_head)
{
    for (int n_shards = 0; n_shards <= 3; n_shards++) {
        fixture f;
        checkpoint c;
        err e;
        fixture_init(&f);
        add(&f, "model.language_model.norm.weight", 3);
        add(&f, "model.visual.pos_embed.weight", 5);
        add(&f, "mtp.fc.weight", 5);
        add(&f, "lm_head.weight", 7);
        if (n_shards)
            fixture_write_shards(&f, n_shards);
        else
            fixture_write(&f);
        CHECK_OK(checkpoint_open(&c, f.dir, &e), &e);
        assert_int_equal(c.n_files, n_shards ? n_shards : 1);
        assert_int_equal(c.n, 2);
        const checkpoint_item *it = checkpoint_find(&c, "norm.weight");
        assert_non_null(it);
        assert_string_equal(it->name, "model.language_model.norm.weight");
        assert_int_equal(it->t.shape[0], 3);
        assert_null(checkpoint_find(&c, "model.language_model.norm.weight"));
        assert_null(checkpoint_find(&c, "mtp.fc.weight"));
        checkpoint_close(&c);
        checkpoint_close(&c);
        fixture_fini(&f);
    }
}

TEST(an_index_may_name_the_single_file)
{
    fixture f;
    checkpoint c;
    err e;
    fixture_init(&f);
    add(&f, "a", 1);
    fixture_write(&f);
    fixture_text(&f, "model.safetensors.index.json",
                 "{\"weight_map\":{\"a\":\"model.safetensors\"}}");
    CHECK_OK(checkpoint_open(&c, f.dir, &e), &e);
    assert_int_equal(c.n, 1);
    checkpoint_close(&c);
    fixture_fini(&f);
}

TEST(a_malformed_index_is_refused_with_its_reason)
{
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"", "JSON"},
        {"{}", "weight_map is missing"},
        {"{\"weight_map\":[]}", "weight_map is missing or not an object"},
        {"{\"weight_map\":{}}", "weight_map is empty"},
        {"{\"weight_map\":{\"a\":1}}", "tensor 'a' lies in '1', which is not the name of a shard"},
        {"{\"weight_map\":{\"a\":null}}", "is not the name of a shard"},
        {"{\"weight_map\":{\"a\":\"../model.safetensors\"}}",
         "'../model.safetensors', which is not"},
        {"{\"weight_map\":{\"a\":\"/etc/x.safetensors\"}}", "is not the name of a shard"},
        {"{\"weight_map\":{\"a\":\"x/model.safetensors\"}}", "is not the name of a shard"},
        {"{\"weight_map\":{\"a\":\".safetensors\"}}", "is not the name of a shard"},
        {"{\"weight_map\":{\"a\":\"\"}}", "is not the name of a shard"},
        {"{\"weight_map\":{\"a\":\"model.bin\"}}", "is not the name of a shard"},
        {"{\"weight_map\":{\"a\":\"m\\u0000.safetensors\"}}", "is not the name of a shard"},
        {"{\"weight_map\":{\"a\":\"model-2.safetensors\"}}",
         "shard 'model-2.safetensors' is named here but missing"},
        {"{\"weight_map\":{\"b\":\"model.safetensors\"}}",
         "tensor 'b' is not in shard 'model.safetensors'"},
        {"{\"weight_map\":{\"a\":\"model.safetensors\",\"a\":\"model.safetensors\"}}", "JSON"},
        {"{\"weight_map\":{\"a\":{\"b\":[[]]}}}", "JSON"},
    };
    fixture f;
    fixture_init(&f);
    add(&f, "a", 1);
    fixture_write(&f);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fixture_text(&f, "model.safetensors.index.json", rows[i].text);
        status want = i == 16 ? ERR_LIMIT : ERR_FORMAT;
        check_fails(&f, want, "model.safetensors.index.json", rows[i].words);
    }
    fixture_fini(&f);
}

TEST(a_tensor_in_two_files_or_under_two_prefixes_is_refused)
{
    fixture f;
    fixture_init(&f);
    add(&f, "model.norm.weight", 3);
    add(&f, "norm.weight", 3);
    fixture_write(&f);
    check_fails(&f, ERR_FORMAT, "model.safetensors", "stands twice, also as '");
    fixture_clear(&f);
    add(&f, "a", 3);
    fixture_write_range(&f, "one.safetensors", 0, 1);
    fixture_write_range(&f, "two.safetensors", 0, 1);
    add(&f, "b", 3);
    fixture_write_range(&f, "one.safetensors", 0, 2);
    fixture_text(&f, "model.safetensors.index.json",
                 "{\"weight_map\":{\"a\":\"two.safetensors\",\"b\":\"one.safetensors\"}}");
    check_fails(&f, ERR_FORMAT, ".safetensors", "tensor 'a' stands twice");
    fixture_fini(&f);
}

TEST(a_directory_without_weights_is_an_io_error)
{
    fixture f;
    fixture_init(&f);
    check_fails(&f, ERR_IO, "model.safetensors", "cannot open");
    fixture_fini(&f);
}

TEST(every_failed_allocation_is_out_of_memory_and_leaks_nothing)
{
    fixture f;
    fixture_init(&f);
    add(&f, "a", 1);
    add(&f, "b", 2);
    add(&f, "c", 3);
    fixture_write_shards(&f, 2);
    int64_t live = mem_count().n_live;
    for (int64_t at = 1;; at++) {
        checkpoint c;
        err e;
        mem_fail_at(at);
        status s = checkpoint_open(&c, f.dir, &e);
        mem_fail_at(0);
        checkpoint_close(&c);
        assert_int_equal(mem_count().n_live, live);
        if (s == ERR_OK) break;
        CHECK_STATUS(s, ERR_NOMEM);
    }
    fixture_fini(&f);
}
