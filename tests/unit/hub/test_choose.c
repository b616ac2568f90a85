/* Which files of a repository make the model. */
#include "hub/choose_priv.h"
#include "support/test.h"

typedef struct {
    arena a;
    listing l;
    choice c;
    err e;
} bench;

/* A repository of the names up to a NULL. */
static status choose(bench *b, const char *variant, const char *const *names)
{
    arena_init(&b->a, 0);
    b->e = (err){0};
    b->l = (listing){.files = arena_new_array(&b->a, 32, sizeof(listing_file))};
    for (; *names; names++) b->l.files[b->l.n++].path = *names;
    return choose_files(&b->c, &b->a, &b->l, variant, "o/r", &b->e);
}
#define CHOOSE(variant, ...) choose(&b, variant, (const char *const[]){__VA_ARGS__, NULL})

static void check_weights(bench *b, const char *names)
{
    char has[512] = "";
    size_t n = 0;
    for (int i = 0; i < b->c.n_weights; i++)
        n += (size_t)snprintf(has + n, sizeof has - n, "%s%s", i ? " " : "",
                              b->l.files[b->c.weights[i]].path);
    assert_string_equal(has, names);
    arena_fini(&b->a);
}

TEST(a_folder_of_safetensors_comes_before_gguf_files_beside_it)
{
    bench b;
    CHECK_OK(CHOOSE("", "m.gguf", "config.json", "model.safetensors", "tokenizer.json"), &b.e);
    assert_false(b.c.is_gguf);
    assert_int_equal(b.c.n_small, 2);
    check_weights(&b, "model.safetensors");
    CHECK_OK(CHOOSE("Q4", "m-Q4.gguf", "config.json", "model.safetensors"), &b.e);
    assert_true(b.c.is_gguf);
    check_weights(&b, "m-Q4.gguf");
}

TEST(of_several_gguf_files_q4_k_m_is_meant)
{
    bench b;
    CHECK_OK(CHOOSE("", "M-Q2_K.gguf", "M-Q4_K_M.gguf", "M-UD-Q4_K_M.gguf"), &b.e);
    check_weights(&b, "M-Q4_K_M.gguf");
    CHECK_OK(CHOOSE("", "mmproj-BF16.gguf", "imatrix.gguf", "only.gguf"), &b.e);
    check_weights(&b, "only.gguf");
    CHECK_STATUS(CHOOSE("", "M-Q2_K.gguf", "M-Q8_0.gguf"), ERR_INVALID);
    assert_non_null(strstr(b.e.msg, "M-Q2_K, M-Q8_0"));
    arena_fini(&b.a);
}

TEST(a_variant_is_the_end_of_a_name_or_a_folder_in_any_case)
{
    bench b;
    CHECK_OK(CHOOSE("ud-q4_k_xl", "M-UD-Q4_K_XL.gguf", "M-Q4_K_XL.gguf"), &b.e);
    check_weights(&b, "M-UD-Q4_K_XL.gguf");
    CHECK_OK(CHOOSE("BF16", "Q8/M.gguf", "BF16/M.gguf", "M-xBF16.gguf"), &b.e);
    check_weights(&b, "BF16/M.gguf");
    CHECK_OK(CHOOSE("Q5", "M.Q5.gguf", "MQ5.gguf"), &b.e);
    check_weights(&b, "M.Q5.gguf");
    CHECK_STATUS(CHOOSE("Q5", "A-Q5.gguf", "B-Q5.gguf"), ERR_INVALID);
    arena_fini(&b.a);
    CHECK_STATUS(CHOOSE("Q5", "config.json", "model.safetensors"), ERR_INVALID);
    assert_non_null(strstr(b.e.msg, "no GGUF files"));
    arena_fini(&b.a);
}

TEST(all_parts_of_a_split_file_belong_to_it)
{
    bench b;
    CHECK_OK(CHOOSE("Q8", "d/M-Q8-00002-of-00002.gguf", "M-Q8-00002-of-00003.gguf",
                    "d/M-Q8-00001-of-00002.gguf", "M-Q4.gguf"),
             &b.e);
    check_weights(&b, "d/M-Q8-00001-of-00002.gguf d/M-Q8-00002-of-00002.gguf");
    CHECK_STATUS(CHOOSE("", "M-00001-of-00003.gguf", "M-00003-of-00003.gguf"), ERR_IO);
    assert_non_null(strstr(b.e.msg, "part 2 of 3"));
    arena_fini(&b.a);
    /* A number that says nothing is part of the name. */
    CHECK_OK(CHOOSE("", "M-00004-of-00003.gguf"), &b.e);
    check_weights(&b, "M-00004-of-00003.gguf");
    CHECK_OK(CHOOSE("", "-00001-of-00001.gguf"), &b.e);
    check_weights(&b, "-00001-of-00001.gguf");
}

TEST(a_repository_without_a_model_is_refused)
{
    bench b;
    CHECK_STATUS(CHOOSE("", "README.md", "config.json", "pytorch_model.bin"), ERR_INVALID);
    arena_fini(&b.a);
    CHECK_STATUS(CHOOSE("", "mmproj.gguf"), ERR_INVALID);
    arena_fini(&b.a);
    CHECK_STATUS(CHOOSE("", ".gguf"), ERR_INVALID);
    arena_fini(&b.a);
}

TEST(shards_are_those_that_the_index_names_each_once)
{
    bench b;
    CHECK_OK(CHOOSE("", "config.json", "model.safetensors.index.json", "b.safetensors",
                    "a.safetensors", "c.safetensors"),
             &b.e);
    CHECK_OK(choose_shards(&b.c, &b.a, &b.l,
                           STR("{\"metadata\":{},\"weight_map\":{\"x\":\"a.safetensors\",\"y\":"
                               "\"b.safetensors\",\"z\":\"a.safetensors\"}}"),
                           "index", &b.e),
             &b.e);
    check_weights(&b, "a.safetensors b.safetensors");
}
