/* tags: one-thread, timeout=600
 *
 * Bundled models, and random ones where only sums count, converted to GGUF: the same logits as the
 * checkpoint where nothing is rounded, those of the de-quantised file where something is, and the
 * Identity rule on them. */
#include <stdlib.h>
#include <unistd.h>

#include "decode/cycle.h"
#include "load/convert.h"
#include "model/engine_fixture.h"
#include "model/random_gguf.h"

enum { PATH_CAP = 4400, N_IDS = 16, NEW_TOKENS = 12 };

static char folder[] = "/tmp/riptide-gguf-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[4][PATH_CAP];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, PATH_CAP, "%s/%s", folder, name);
    return p;
}

static void open_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/riptide-gguf-XXXXXX");
    assert_non_null(mkdtemp(folder));
}

static void close_folder(const char *const *names, int n)
{
    for (int i = 0; i < n; i++) unlink(in_folder(names[i]));
    assert_int_equal(rmdir(folder), 0);
}

static const char *bundled(const char *model)
{
    static char path[2][PATH_CAP];
    static int turn;
    char *p = path[turn++ % 2];
    snprintf(p, PATH_CAP, "%s/models/%s", test_root(), model);
    return p;
}

static void convert(const char *from, const char *to, dtype type)
{
    load_model m;
    err e = {0};
    CHECK_OK(load_model_open(&m, from, &e), &e);
    CHECK_OK(load_convert(&m, to, type, 2, &e), &e);
    load_model_close(&m);
}

typedef struct {
    float *at; /* owned [N_IDS, V] */
    int n;
} logits;

/* Of a fixed text's ids on ref with f32 KV. */
static logits logits_of(const char *model)
{
    int32_t ids[N_IDS];
    cycle *c = NULL;
    err e = {0};
    cycle_options o = {.model = model,
                       .backend = "ref",
                       .n_slots = 1,
                       .prefill_rows = N_IDS,
                       .max_context = 64,
                       .kv = KV_F32,
                       .logit_rows = N_IDS};
    for (int i = 0; i < N_IDS; i++) ids[i] = (i * 37 + 11) % 2000;
    CHECK_OK(cycle_open(&c, &o, &e), &e);
    logits out = {.n = N_IDS * cycle_files(c)->target.V};
    out.at = malloc(sizeof(float) * (size_t)out.n);
    cycle_probe_args a = {.ids = ids, .n = N_IDS, .rows = N_IDS, .logits = out.at};
    CHECK_OK(cycle_probe(c, &a, &e), &e);
    cycle_close(c);
    return out;
}

static double distance(logits got, logits want)
{
    double diff = 0, norm = 0;
    for (int i = 0; i < want.n; i++) {
        double d = (double)got.at[i] - (double)want.at[i];
        diff += d * d;
        norm += (double)want.at[i] * (double)want.at[i];
    }
    return sqrt(diff / norm);
}

static void check_equal(const char *model)
{
    static const char *const names[] = {"m.gguf"};
    open_folder();
    convert(bundled(model), in_folder("m.gguf"), DTYPE_F32);
    logits want = logits_of(bundled(model)), got = logits_of(in_folder("m.gguf"));
    assert_int_equal(got.n, want.n);
    assert_memory_equal(got.at, want.at, sizeof(float) * (size_t)want.n);
    free(got.at);
    free(want.at);
    close_folder(names, 1);
}

TEST(an_f32_file_has_the_checkpoints_logits_bit_for_bit_dense)
{
    check_equal("mini-dense");
}
TEST(an_f32_file_has_the_checkpoints_logits_bit_for_bit_moe)
{
    check_equal("mini-moe");
}

typedef struct {
    dtype type;
    double near_enough; /* of the checkpoint: only tells a wrong model from a rounded one */
} type_row;

/* A model of a type against its own values in f32, and not far from what it was made of. */
static void check_type(const char *model, const type_row *row, logits checkpoint)
{
    convert(model, in_folder("q.gguf"), row->type);
    convert(in_folder("q.gguf"), in_folder("f.gguf"), DTYPE_F32);
    logits got = logits_of(in_folder("q.gguf")), want = logits_of(in_folder("f.gguf"));
    double off = distance(got, want), from_checkpoint = distance(got, checkpoint);
    const char *name = dtype_name(row->type);
    if (!(off <= 1e-5)) fail_msg("%s: %g from its de-quantised values", name, off);
    if (!(from_checkpoint <= row->near_enough))
        fail_msg("%s: %g from the checkpoint", name, from_checkpoint);
    free(got.at);
    free(want.at);
}

static void check_types(const char *model, const type_row *rows, int n)
{
    logits checkpoint = logits_of(model);
    for (int i = 0; i < n; i++) check_type(model, &rows[i], checkpoint);
    free(checkpoint.at);
}

static void check_bundled(const char *model, const type_row *rows, int n)
{
    static const char *const names[] = {"q.gguf", "f.gguf"};
    open_folder();
    check_types(bundled(model), rows, n);
    close_folder(names, 2);
}

TEST(logits_of_the_usual_types_are_those_of_their_values_dense)
{
    static const type_row rows[] = {{DTYPE_Q8_0, 0.05}, {DTYPE_Q4_K, 0.5}, {DTYPE_Q6_K, 0.2}};
    check_bundled("mini-dense", rows, 3);
}

/* A rounded router may choose another expert, so that nothing bounds the way from the checkpoint.
 */
TEST(logits_of_the_usual_types_are_those_of_their_values_moe)
{
    static const type_row rows[] = {{DTYPE_Q8_0, INFINITY}, {DTYPE_Q4_K, INFINITY}};
    check_bundled("mini-moe", rows, 2);
}

/* Small models of random weights, whose rows are whole blocks of all types. */
static void check_random(bool is_moe, const type_row *rows, int n)
{
    static const char *const names[] = {"r.gguf", "q.gguf", "f.gguf"};
    char model[PATH_CAP];
    open_folder();
    snprintf(model, sizeof model, "%s", in_folder("r.gguf"));
    random_write(model, &(random_spec){.is_moe = is_moe, .type = DTYPE_F32, .seed = 8});
    check_types(model, rows, n);
    close_folder(names, 3);
}

TEST(logits_of_each_type_are_those_of_its_values_dense)
{
    static const type_row rows[] = {
        {DTYPE_BF16, 0.02},  {DTYPE_F16, 0.01},   {DTYPE_Q8_0, 0.05}, {DTYPE_Q4_0, 0.5},
        {DTYPE_Q4_1, 0.5},   {DTYPE_Q5_0, 0.3},   {DTYPE_Q5_1, 0.3},  {DTYPE_Q2_K, 0.9},
        {DTYPE_Q3_K, 0.7},   {DTYPE_Q4_K, 0.5},   {DTYPE_Q5_K, 0.3},  {DTYPE_Q6_K, 0.2},
        {DTYPE_IQ4_NL, 0.5}, {DTYPE_IQ4_XS, 0.5}, {DTYPE_MXFP4, 0.7}, {DTYPE_NVFP4, 0.5}};
    check_random(false, rows, 16);
}
TEST(logits_of_each_kind_of_block_are_those_of_its_values_moe)
{
    static const type_row rows[] = {{DTYPE_Q4_1, INFINITY},
                                    {DTYPE_Q3_K, INFINITY},
                                    {DTYPE_Q5_K, INFINITY},
                                    {DTYPE_IQ4_XS, INFINITY},
                                    {DTYPE_NVFP4, INFINITY}};
    check_random(true, rows, 5);
}

/* ---- identity ------------------------------------------------------------------------------- */

static const char prompt_text[] =
    "<|im_start|>user\nWrite a Python function smallest that returns the smallest item of a list, "
    "and then sort these words: temple, anchor, needle, kernel, socket, amber.<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n";

typedef struct {
    const char *draft; /* path or NULL */
    int draft_rows, n_threads, prefill_rows;
} setting;

static void generate(const char *model, const char *backend, const setting *v, double temperature,
                     run_result *out)
{
    engine *en = run_open(&(engine_options){.model = model,
                                            .draft = v->draft,
                                            .backend = backend,
                                            .n_threads = v->n_threads,
                                            .n_lanes = 1,
                                            .prefill_rows = v->prefill_rows,
                                            .max_context = 256,
                                            .draft_rows = v->draft_rows,
                                            .guards_steps = true});
    token_ids ids = run_encode(en, prompt_text);
    run_submit(en, run_request(ids.ptr, ids.n, NEW_TOKENS, temperature, 7), out);
    run_all(en);
    assert_int_equal(out->n_done, 1);
    token_ids_fini(&ids);
    engine_close(en);
}

/* Draft (a GGUF file as well), width, threads and slices do not change the ids. */
static void check_identity(const char *model, dtype type, const char *backend)
{
    static const char *const names[] = {"m.gguf", "d.gguf"};
    static run_result want, got;
    char name[64];
    open_folder();
    snprintf(name, sizeof name, "%s-dflash2", model);
    convert(bundled(model), in_folder("m.gguf"), type);
    convert(bundled(name), in_folder("d.gguf"), DTYPE_Q8_0);
    char target[PATH_CAP], draft[PATH_CAP];
    snprintf(target, sizeof target, "%s", in_folder("m.gguf"));
    snprintf(draft, sizeof draft, "%s", in_folder("d.gguf"));
    const setting settings[] = {{NULL, -1, 2, 512}, {draft, -1, 2, 512}, {draft, 3, 1, 7}};
    for (int hot = 0; hot < 2; hot++) {
        generate(target, backend, &settings[0], hot ? 0.8 : 0, &want);
        assert_true(want.choice[0].n > 4);
        for (int i = 1; i < 3; i++) {
            char what[96];
            snprintf(what, sizeof what, "%s %s on %s, setting %d", model, dtype_name(type), backend,
                     i);
            generate(target, backend, &settings[i], hot ? 0.8 : 0, &got);
            run_expect_same(&got.choice[0], &want.choice[0], what);
            if (settings[i].draft) assert_true(got.choice[0].usage.accepted > 0);
        }
    }
    close_folder(names, 2);
}

TEST(draft_and_slices_do_not_change_the_ids_of_a_q4_k_file_on_cpu)
{
    check_identity("mini-dense", DTYPE_Q4_K, "cpu");
    check_identity("mini-moe", DTYPE_Q4_K, "cpu");
}
TEST(draft_and_slices_do_not_change_the_ids_of_the_other_fast_types_on_cpu)
{
    static const dtype types[] = {DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_Q6_K};
    for (int i = 0; i < 3; i++) check_identity("mini-dense", types[i], "cpu");
}
TEST(draft_and_slices_do_not_change_the_ids_of_a_q4_k_file_on_ref)
{
    check_identity("mini-dense", DTYPE_Q4_K, "ref");
}

/* The file's own tokenizer gives the ids that tokenizer.json gives. */
TEST(texts_become_the_same_ids)
{
    static const char *const names[] = {"m.gguf"};
    static const char *const texts[] = {"Hello there,  World!\n\n\tif (x == 10) { return \"y\"; }",
                                        "na\xc3\xafve caf\xc3\xa9 e\xcc\x81",
                                        "<|im_start|>user\n<think>\n</tool_call><|im_end|>",
                                        "don't WE'LL 12345 \xe4\xb8\xad\xe6\x96\x87"};
    open_folder();
    convert(bundled("mini-dense"), in_folder("m.gguf"), DTYPE_Q8_0);
    engine *a = run_open(&(engine_options){.model = bundled("mini-dense"),
                                           .backend = "ref",
                                           .n_lanes = 1,
                                           .max_context = 64,
                                           .draft_rows = -1});
    engine *b = run_open(&(engine_options){.model = in_folder("m.gguf"),
                                           .backend = "ref",
                                           .n_lanes = 1,
                                           .max_context = 64,
                                           .draft_rows = -1});
    for (int i = 0; i < 4; i++) {
        token_ids x = run_encode(a, texts[i]), y = run_encode(b, texts[i]);
        assert_int_equal(x.n, y.n);
        assert_memory_equal(x.ptr, y.ptr, (size_t)x.n * 4);
        token_ids_fini(&x);
        token_ids_fini(&y);
    }
    assert_true(str_equal(engine_about(a)->chat_template, engine_about(b)->chat_template));
    assert_string_equal(engine_about(b)->format, "gguf");
    engine_close(a);
    engine_close(b);
    close_folder(names, 1);
}
