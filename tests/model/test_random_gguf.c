/* GGUF files of random weights in both draft dialects: the same ids with the draft and without, and
 * proposals that are right as often as the dial says. */
#include <stdlib.h>
#include <unistd.h>

#include "model/engine_fixture.h"
#include "model/random_gguf.h"

static const char *const dialects[] = {"dflash", "dflash-draft"};

/* A target and a draft of each dialect. */
typedef struct {
    char dir[40], target[64], draft[2][64];
} files;

static files make_files(const random_spec *of)
{
    files f = {.dir = "/tmp/riptide-random-XXXXXX"};
    random_spec s = *of;
    assert_non_null(mkdtemp(f.dir));
    snprintf(f.target, sizeof f.target, "%s/m.gguf", f.dir);
    random_write(f.target, &s);
    for (int i = 0; i < 2; i++) {
        snprintf(f.draft[i], sizeof f.draft[i], "%s/d%d.gguf", f.dir, i);
        s.draft = dialects[i];
        random_write(f.draft[i], &s);
    }
    return f;
}

static void remove_files(const files *f)
{
    unlink(f->target);
    for (int i = 0; i < 2; i++) unlink(f->draft[i]);
    assert_int_equal(rmdir(f->dir), 0);
}

/* n tokens behind a fixed prompt at temperature 1, or greedy, with `rows` proposals a cycle. */
static void generate(const files *f, const char *draft, int rows, double temperature, int n,
                     run_result *out)
{
    int32_t ids[40];
    engine *en = run_open(&(engine_options){.model = f->target,
                                            .draft = draft,
                                            .backend = "cpu",
                                            .n_threads = 1,
                                            .n_lanes = 1,
                                            .max_context = 2048,
                                            .draft_rows = rows});
    for (int i = 0; i < 40; i++) ids[i] = (i * 37 + 11) % 2000;
    engine_request r = run_request(ids, 40, n, temperature, 3);
    r.policy.ignore_eos = true;
    run_submit(en, r, out);
    run_all(en);
    assert_int_equal(out->n_done, 1);
    assert_int_equal(out->choice[0].n, n);
    engine_close(en);
}

/* Cycles of `width` proposals of the constant token that emit these ids, and how many are right. */
static void count_right(const int32_t *ids, int n, int width, int *cycles, int *right)
{
    *cycles = *right = 0;
    for (int at = 0; at < n; ++*cycles) {
        int most = n - at - 1 < width ? n - at - 1 : width, run = 0;
        while (run < most && ids[at + run] == RANDOM_TOKEN) run++;
        *right += run;
        at += run + 1;
    }
}

static void check_dial(bool is_moe, double dial)
{
    static run_result want, got;
    enum { N = 200, WIDTH = 5 };
    files f = make_files(
        &(random_spec){.is_moe = is_moe, .type = DTYPE_Q8_0, .dial = dial, .seed = 5});
    generate(&f, NULL, -1, 1, N, &want);
    int n_constant = 0, cycles, right;
    for (int i = 0; i < N; i++) n_constant += want.choice[0].ids[i] == RANDOM_TOKEN;
    double share = (double)n_constant / N, off = 4 * sqrt(dial * (1 - dial) / N);
    if (!(fabs(share - dial) < off)) fail_msg("token %d: %g, want %g", RANDOM_TOKEN, share, dial);
    count_right(want.choice[0].ids, N, WIDTH, &cycles, &right);
    for (int i = 0; i < 2; i++) {
        generate(&f, f.draft[i], WIDTH, 1, N, &got);
        run_expect_same(&got.choice[0], &want.choice[0], dialects[i]);
        /* The noise may make the draft choose another of its 16 candidates, rarely. */
        const engine_usage *u = &got.choice[0].usage;
        if (llabs(u->accepted - right) > 3 || llabs(u->cycles - cycles) > 3)
            fail_msg("%s: %lld right in %lld cycles, want %d in %d", dialects[i],
                     (long long)u->accepted, (long long)u->cycles, right, cycles);
    }
    remove_files(&f);
}

TEST(proposals_are_right_as_often_as_the_dial_says)
{
    check_dial(false, 0.8);
    check_dial(true, 0.5);
}

TEST(at_a_dial_of_one_greedy_proposals_are_all_right)
{
    static run_result want, got;
    enum { N = 113 };
    files f = make_files(&(random_spec){.type = DTYPE_F16, .dial = 1, .seed = 9});
    generate(&f, NULL, -1, 0, N, &want);
    assert_int_equal(want.choice[0].ids[N - 1], RANDOM_TOKEN);
    for (int i = 0; i < 2; i++) {
        generate(&f, f.draft[i], 15, 0, N, &got);
        run_expect_same(&got.choice[0], &want.choice[0], dialects[i]);
        const engine_usage *u = &got.choice[0].usage;
        assert_true(u->drafted > 0 && u->accepted == u->drafted);
        assert_true(u->cycles <= N / 16 + 2);
    }
    remove_files(&f);
}

/* Without the dial text is noise and hardly a proposal is right; the ids are the same still. */
TEST(a_plain_random_pair_emits_the_same_ids_with_its_draft)
{
    static run_result want, got;
    files f = make_files(&(random_spec){.is_moe = true, .type = DTYPE_Q4_K, .seed = 2});
    for (int hot = 0; hot < 2; hot++) {
        generate(&f, NULL, -1, hot, 60, &want);
        for (int i = 0; i < 2; i++) {
            generate(&f, f.draft[i], 7, hot, 60, &got);
            run_expect_same(&got.choice[0], &want.choice[0], dialects[i]);
            assert_true(got.choice[0].usage.drafted > 0);
        }
    }
    remove_files(&f);
}
