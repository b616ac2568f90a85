#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "fixture_checkpoint.h"
#include "load/load.h"

static const char *const bundled[] = {"mini-dense", "mini-moe", "mini-dense-dflash2",
                                      "mini-moe-dflash2"};

static const char *bundled_path(int i)
{
    static char path[100];
    snprintf(path, sizeof path, "models/%s", bundled[i]);
    return path;
}

static load_model must_open(const char *path)
{
    load_model m;
    err e;
    CHECK_OK(load_model_open(&m, path, &e), &e);
    return m;
}

static void check_zeroed(const load_model *m)
{
    static const load_model zero;
    assert_memory_equal(m, &zero, sizeof zero);
}

static void check_fails(const char *path, status want, const char *where, const char *words)
{
    load_model m;
    err e = {0};
    int64_t live = mem_count().n_live;
    memset(&m, 0x5a, sizeof m);
    status s = load_model_open(&m, path, &e);
    if (s != want || !strstr(e.msg, words) || !strstr(e.where, where))
        fail_msg("%s: %s: \"%s\", want %s: \"%s\"", status_name(s), e.where, e.msg, where, words);
    check_zeroed(&m);
    assert_int_equal(mem_count().n_live, live);
}

TEST(the_bundled_targets_open_whole)
{
    for (int i = 0; i < 2; i++) {
        load_model m = must_open(bundled_path(i));
        assert_string_equal(m.path, bundled_path(i));
        assert_string_equal(m.name, bundled[i]);
        assert_string_equal(m.format, "mlx");
        assert_false(m.is_draft);
        assert_false(m.target.has_norm_offset);
        assert_false(m.target.is_tied);
        assert_true(m.target.n_layers == 8 && m.target.V == 3072 && m.target.D == 256);
        assert_true(m.target.n_eos == 2 && m.target.eos[0] == 2069 && m.target.eos[1] == 2067);
        assert_true(m.sampling.has_temperature && m.sampling.temperature == 0.7);
        assert_true(m.sampling.has_top_k && m.sampling.top_k == 20 && !m.sampling.has_min_p);
        assert_true(m.tokenizer_json.len == 126567 && m.chat_template.len == 3012);
        assert_true(str_is(m.eos_token, "<|im_end|>") && m.bos_token.len == 0);
        assert_int_equal(weights_count(m.weights), i == 0 ? 109 : 149);
        const tensor *t = weights_find(m.weights, "layers.0.linear_attn.conv1d.weight");
        assert_true(t && t->n_dims == 2 && t->shape[1] == 4);
        t = weights_find(m.weights, i == 0 ? "embed_tokens.weight" : "layers.3.mlp.gate.weight");
        assert_true(t && t->type == DTYPE_AFFINE && t->bits == (i == 0 ? 4 : 8) && t->group == 64);
        load_model_close(&m);
        check_zeroed(&m);
        load_model_close(&m);
    }
    load_model_close(NULL);
}

TEST(the_bundled_drafts_open_whole_and_fit_their_targets)
{
    for (int i = 0; i < 2; i++) {
        load_model t = must_open(bundled_path(i)), d = must_open(bundled_path(i + 2));
        err e;
        assert_true(d.is_draft && d.draft.is_v2 && d.draft.n_layers == 3 && d.draft.block == 8);
        assert_true(d.draft.n_taps == 3 && d.draft.taps[2] == 5 && d.draft.mask_id == 2080);
        assert_true(d.draft.window == 2048 && !d.draft.layer_is_causal[0]);
        assert_string_equal(d.format, "hf");
        assert_int_equal(weights_count(d.weights), 15 * 3 + 6);
        assert_true(d.tokenizer_json.len == 0 && d.chat_template.len == 0);
        CHECK_OK(load_check_pair(&t.target, &d.draft, &e), &e);
        load_model_close(&t);
        load_model_close(&d);
    }
}

TEST(a_draft_of_another_target_does_not_fit)
{
    load_model t = must_open(bundled_path(0)), d = must_open(bundled_path(2));
    static const struct {
        int which;
        const char *words;
    } rows[] = {{0, "hidden_size is 128, the target's is 384"},
                {1, "vocab_size is 100, the target's is 3072"},
                {2, "num_target_layers is 40, the target has 8"},
                {3, "target_layer_ids names layer 8"},
                {4, "mask_token_id is 3072"},
                {5, "names no rope base, and the target's is"}};
    for (int i = 0; i < 6; i++) {
        arch_draft x = d.draft;
        err e;
        if (i == 0) x.E = 128;
        if (i == 1) x.V = 100;
        if (i == 2) x.n_target_layers = 40;
        if (i == 3) x.taps[2] = 8;
        if (i == 4) x.mask_id = 3072;
        if (i == 5) x.lacks_rope = true, x.rope_theta = t.target.rope_theta * 2;
        CHECK_STATUS(load_check_pair(&t.target, &x, &e), ERR_INVALID);
        if (!strstr(e.msg, rows[i].words)) fail_msg("%s", e.msg);
    }
    load_model_close(&t);
    load_model_close(&d);
}

TEST(a_draft_of_another_vocabulary_does_not_fit)
{
    static const str pieces[] = {{"a", 1}, {"b", 1}, {"ab", 2}, {"<mask>", 6}};
    static const str others[] = {{"a", 1}, {"b", 1}, {"ba", 2}, {"[PAD3]", 6}};
    static const int32_t types[] = {1, 1, 1, 5}, unused[] = {1, 1, 5, 5};
    load_model t = {.tokenizer = {.pieces = pieces, .types = types, .n_pieces = 4}}, d = t, none;
    err e = {0};
    none = (load_model){0};
    CHECK_OK(load_check_vocabulary(&t, &d, &e), &e);
    CHECK_OK(load_check_vocabulary(&t, &none, &e), &e);
    d.tokenizer.pieces = others; /* token 3 is not in use */
    CHECK_STATUS(load_check_vocabulary(&t, &d, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "token 2 is 'ba', the target's is 'ab'"));
    d.tokenizer.types = unused;
    CHECK_OK(load_check_vocabulary(&t, &d, &e), &e);
}

TEST(peek_reads_everything_but_the_weights)
{
    load_model m;
    err e;
    fixture f;
    fixture_spec hf = {.is_tied = true, .is_flat = true};
    fixture_init(&f);
    fixture_target(&f, &hf);
    CHECK_OK(load_model_peek(&m, f.dir, &e), &e);
    assert_null(m.weights);
    assert_string_equal(m.format, "hf");
    assert_true(m.target.E == FX_E && m.target.is_tied && m.target.has_norm_offset);
    load_model_close(&m);
    check_fails(f.dir, ERR_IO, "model.safetensors", "cannot open");
    fixture_fini(&f);
}

TEST(format_and_offset_come_from_the_files)
{
    static const struct {
        fixture_spec spec;
        const char *format;
        bool has_offset;
    } rows[] = {
        {{0}, "hf", true},
        {{.type = DTYPE_F32, .is_moe = true, .experts = FIXTURE_FUSED}, "hf", true},
        {{.is_mlx = true}, "mlx", false},
        {{.is_mlx = true, .bits = 3, .group = 128}, "mlx", false},
        {{.is_mlx = true, .is_moe = true, .bits = 6, .group = 64}, "mlx", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fixture f;
        fixture_init(&f);
        fixture_target(&f, &rows[i].spec);
        fixture_write(&f);
        load_model m = must_open(f.dir);
        assert_string_equal(m.format, rows[i].format);
        assert_int_equal(m.target.has_norm_offset, rows[i].has_offset);
        load_model_close(&m);
        fixture_fini(&f);
    }
}

TEST(norms_of_the_other_convention_refuse_the_model)
{
    fixture f;
    fixture_spec s = {.is_mlx = true, .bits = 4, .group = 64, .has_norm_mean = true};
    fixture_init(&f);
    fixture_target(&f, &s);
    fixture_write(&f);
    check_fails(f.dir, ERR_FORMAT, f.dir, "norms and convolutions disagree");
    fixture_fini(&f);
}

TEST(drafts_of_version_1_open)
{
    fixture f;
    fixture_spec s = {0};
    fixture_init(&f);
    fixture_draft(&f, &s);
    fixture_write(&f);
    load_model m = must_open(f.dir);
    assert_true(m.is_draft && !m.draft.is_v2 && m.draft.block == 16);
    assert_true(m.draft.layer_is_causal[0] && !m.draft.layer_is_causal[1]);
    load_model_close(&m);
    fixture_fini(&f);
}

TEST(paths_that_are_no_model_are_named)
{
    check_fails("/nowhere/model", ERR_IO, "/nowhere/model", "there is no such model");
    check_fails("models/mini-dense/config.json", ERR_UNSUPPORTED, "config.json", "is a file");
    check_fails("models", ERR_IO, "models/config.json", "cannot open");
}

TEST(the_name_is_the_last_component_that_says_something)
{
    static const char *const rows[][2] = {
        {"models/mini-dense/", "mini-dense"},
        {"models//mini-dense//", "mini-dense"},
        {"models/mini-dense/.", "mini-dense"},
        {"./models/mini-moe/../mini-dense", "mini-dense"},
        {"models/mini-dense/../mini-dense/..//mini-dense/.", "mini-dense"},
    };
    for (int i = 0; i < 5; i++) {
        load_model m;
        err e;
        CHECK_OK(load_model_peek(&m, rows[i][0], &e), &e);
        assert_string_equal(m.name, rows[i][1]);
        load_model_close(&m);
    }
}

TEST(a_snapshot_of_the_hubs_cache_has_the_name_of_its_repository)
{
    static const struct {
        const char *folder, *want;
    } rows[] = {
        {"models--own--Q-3.6_x/snapshots/0123456789abcdef0123456789abcdef01234567", "own/Q-3.6_x"},
        {"models--own/snapshots/0123456789abcdef0123456789abcdef01234567",
         "0123456789abcdef0123456789abcdef01234567"},
        {"x/snapshots/0123456789abcdef0123456789abcdef01234567",
         "0123456789abcdef0123456789abcdef01234567"},
        {"models--own--q/snapshots/main", "main"},
    };
    char here[] = "/tmp/riptide-name-XXXXXX", command[600], path[400];
    assert_non_null(mkdtemp(here));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        load_model m;
        err e;
        snprintf(path, sizeof path, "%s/%s/", here, rows[i].folder);
        snprintf(command, sizeof command, "mkdir -p %s && cp models/mini-dense/*.json %s", path,
                 path);
        assert_int_equal(system(command), 0);
        CHECK_OK(load_model_peek(&m, path, &e), &e);
        assert_string_equal(m.name, rows[i].want);
        load_model_close(&m);
    }
    snprintf(command, sizeof command, "rm -rf %s", here);
    assert_int_equal(system(command), 0);
}

/* Copy a bundled model's file into the fixture, cut to n bytes (-1: whole). */
static void copy_file(const fixture *f, const char *model, const char *name, int64_t n)
{
    arena a;
    str text;
    err e;
    char path[200];
    snprintf(path, sizeof path, "models/%s/%s", model, name);
    arena_init(&a, 0);
    CHECK_OK(file_read(&a, path, 64 << 20, &text, &e), &e);
    if (n >= 0 && (size_t)n < text.len) text.len = (size_t)n;
    fixture_bytes(f, name, text.ptr, text.len);
    arena_fini(&a);
}

TEST(a_model_cut_at_every_kilobyte_of_its_header_is_refused)
{
    fixture f;
    fixture_init(&f);
    copy_file(&f, "mini-dense", "config.json", -1);
    copy_file(&f, "mini-dense", "model.safetensors", -1);
    load_model m = must_open(f.dir);
    load_model_close(&m);
    const char *path = fixture_path(&f, "model.safetensors");
    /* From the end, so that the file need not be written again: the last byte, some cuts of the
     * data, then every kilobyte down to an empty file. */
    static const int64_t cuts[] = {12620023, 12000000, 1 << 20, 65536};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(truncate(path, cuts[i]), 0);
        check_fails(f.dir, ERR_FORMAT, "model.safetensors", "is it truncated?");
    }
    for (int64_t n = 30 << 10; n >= 0; n -= 1024) {
        assert_int_equal(truncate(path, n), 0);
        check_fails(f.dir, ERR_FORMAT, "model.safetensors", "is it truncated?");
    }
    fixture_fini(&f);
}

TEST(every_failed_allocation_is_out_of_memory_and_leaks_nothing)
{
    for (int i = 0; i < 4; i++) {
        int64_t live = mem_count().n_live, at = 1;
        for (;; at++) {
            load_model m;
            err e;
            memset(&m, 0x5a, sizeof m);
            mem_fail_at(at);
            status s = load_model_open(&m, bundled_path(i), &e);
            mem_fail_at(0);
            if (s != ERR_OK) {
                CHECK_STATUS(s, ERR_NOMEM);
                check_zeroed(&m);
            }
            load_model_close(&m);
            assert_int_equal(mem_count().n_live, live);
            if (s == ERR_OK) break;
        }
        assert_true(at > 10);
    }
}

/* Files are mapped: what an open model keeps on the heap is names and shapes. */
TEST(an_open_model_keeps_few_allocations)
{
    int64_t before = mem_count().n_live;
    load_model m = must_open(bundled_path(0));
    int64_t kept = mem_count().n_live - before;
    load_model_close(&m);
    print_message("open: %lld allocations kept\n", (long long)kept);
    assert_true(kept > 0 && kept < 64);
    assert_int_equal(mem_count().n_live, before);
}
