#include "base/file.h"
#include "base/mem.h"
#include "fixture_checkpoint.h"
#include "load/norm_offset_priv.h"

/* The layer norms' mean as made; `has` says what must be found, -1 that it must be refused. */
static void check(fixture_spec spec, double mean, int has)
{
    fixture f;
    hf_config c;
    weights *w = NULL;
    arena mem;
    str text;
    err e = {0};
    spec.has_norm_mean = true;
    spec.norm_mean = mean;
    fixture_init(&f);
    fixture_target(&f, &spec);
    fixture_write(&f);
    arena_init(&mem, 0);
    CHECK_OK(file_read(&mem, fixture_path(&f, "config.json"), 1 << 20, &text, &e), &e);
    CHECK_OK(hf_config_parse(&c, &mem, text, "config.json", &e), &e);
    CHECK_OK(weights_open(&w, f.dir, &c, &e), &e);
    bool found = !has;
    status s = norm_offset_find(w, &c.target, &found, &e);
    if (has >= 0) {
        CHECK_OK(s, &e);
        assert_int_equal(found, has);
    } else {
        CHECK_STATUS(s, ERR_FORMAT);
        assert_non_null(strstr(e.msg, "disagree"));
        assert_non_null(
            strstr(e.msg, spec.is_mlx ? "as MLX writes it" : "as Hugging Face writes it"));
        assert_string_equal(e.where, f.dir);
    }
    weights_close(w);
    arena_fini(&mem);
    fixture_fini(&f);
}

TEST(layout_and_mean_agree_or_the_file_is_refused)
{
    fixture_spec hf = {0}, mlx = {.is_mlx = true};
    static const double near_zero[] = {-0.6, -0.2, 0, 0.1, 0.6};
    for (int i = 0; i < 5; i++) check(hf, near_zero[i], 1);
    static const double near_one[] = {0.4, 0.8, 1, 1.3, 2};
    for (int i = 0; i < 5; i++) check(mlx, near_one[i], 0);
    check(hf, 1, -1);
    check(hf, 0.85, -1);
    check(mlx, 0, -1);
    check(mlx, 0.15, -1);
    check(mlx, -0.3, -1);
    check(hf, NAN, -1);
    check(mlx, NAN, -1);
}

static void change_norm(fixture *f, const char *name, float value)
{
    fixture_tensor *t = fixture_find(f, name);
    uint16_t h = half_to_bf16(value);
    for (int64_t i = 0; i < t->n_bytes / 2; i++) memcpy((char *)t->bytes + 2 * i, &h, 2);
}

TEST(gated_norms_around_zero_are_refused)
{
    fixture f;
    hf_config c;
    weights *w = NULL;
    arena mem;
    str text;
    err e;
    bool found;
    fixture_spec spec = {.is_mlx = true};
    fixture_init(&f);
    fixture_target(&f, &spec);
    for (int i = 0; i < 3; i++) {
        char name[100];
        snprintf(name, sizeof name, "language_model.model.layers.%d.linear_attn.norm.weight", i);
        change_norm(&f, name, 0.01f);
    }
    fixture_write(&f);
    arena_init(&mem, 0);
    CHECK_OK(file_read(&mem, fixture_path(&f, "config.json"), 1 << 20, &text, &e), &e);
    CHECK_OK(hf_config_parse(&c, &mem, text, "config.json", &e), &e);
    CHECK_OK(weights_open(&w, f.dir, &c, &e), &e);
    CHECK_STATUS(norm_offset_find(w, &c.target, &found, &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "gated norms"));
    weights_close(w);
    arena_fini(&mem);
    fixture_fini(&f);
}

TEST(draft_norms_around_zero_are_refused)
{
    static const double means[] = {0, 1, 0.4};
    for (int i = 0; i < 3; i++) {
        fixture f;
        hf_config c;
        weights *w = NULL;
        arena mem;
        str text;
        err e;
        fixture_spec spec = {.is_v2 = true, .has_norm_mean = true, .norm_mean = means[i]};
        fixture_init(&f);
        fixture_draft(&f, &spec);
        fixture_write(&f);
        arena_init(&mem, 0);
        CHECK_OK(file_read(&mem, fixture_path(&f, "config.json"), 1 << 20, &text, &e), &e);
        CHECK_OK(hf_config_parse(&c, &mem, text, "config.json", &e), &e);
        CHECK_OK(weights_open(&w, f.dir, &c, &e), &e);
        status s = norm_offset_check_draft(w, &c.draft, &e);
        CHECK_STATUS(s, i == 0 ? ERR_FORMAT : ERR_OK);
        if (i == 0) assert_non_null(strstr(e.msg, "a draft's norms"));
        weights_close(w);
        arena_fini(&mem);
        fixture_fini(&f);
    }
}
