/* tags: slow */
/* A small replay of the bundled model: what each request takes over, and that it does not show. */
#include "bench/replay_priv.h"

#include "support/test.h"

static int n_seen;

static void count_row(const replay_row *row)
{
    assert_true(row->n_new > 0 && row->first_ms > 0);
    n_seen++;
}

TEST(a_session_is_taken_over_request_after_request)
{
    static replay_record rec;
    replay_request r = {.engine = {.model = "models/mini-dense",
                                   .draft = "models/mini-dense-dflash2",
                                   .backend = "cpu",
                                   .n_threads = 2,
                                   .n_lanes = 1,
                                   .prefill_rows = 128,
                                   .max_context = 512,
                                   .draft_rows = -1},
                        .scale = 0.012,
                        .n_new = 3};
    err e = {0};
    CHECK_OK(replay_run(&r, &rec, count_row, &e), &e);
    assert_int_equal(rec.n, REPLAY_APPENDS + 11);
    assert_int_equal(n_seen, rec.n);
    assert_true(rec.is_same);
    assert_int_equal(rec.rows[0].n_cached, 0);
    for (int i = 1; i <= REPLAY_APPENDS; i++) {
        const replay_row *row = &rec.rows[i], *before = row - 1;
        assert_true(row->n_prompt > before->n_prompt);
        /* Its new tokens and less than a block more are computed. */
        assert_true(row->n_cached > before->n_prompt + before->n_new - 1 - 64);
        assert_true(row->cost > 0 && row->cost <= rec.append_worst);
    }
    const replay_row *again = &rec.rows[REPLAY_APPENDS + 1], *cold = &rec.rows[rec.n - 2];
    assert_string_equal(again->name, "repeat");
    assert_int_equal(again->n_cached, (again->n_prompt - 1) / 64 * 64);
    assert_true(again->output == rec.rows[REPLAY_APPENDS].output);
    assert_string_equal(cold->name, "cold");
    assert_int_equal(cold->n_cached, 0);
    assert_true(cold->output == again->output);
    assert_true(rec.repeat_share > 0 && rec.append_worst > 0);
    /* The answer of the tool loop is taken over as it was generated. */
    const replay_row *loop = &rec.rows[REPLAY_APPENDS + 6];
    assert_string_equal(loop->name, "tool loop");
    for (int i = 1; i <= 2; i++)
        assert_int_equal(loop[i].n_cached, (loop->n_prompt + loop->n_new - 1) / 64 * 64);
    assert_true(loop[1].output == loop[2].output);
    assert_int_equal(rec.turns.used, 2);
}

TEST(a_prompts_progress_is_straight_between_what_was_told)
{
    static const replay_curve c = {.points = {{10, 100}, {30, 200}, {40, 400}}, .n = 3};
    static const double pos[] = {0, 50, 100, 150, 200, 300, 400, 500},
                        want[] = {0, 5, 10, 20, 30, 35, 40, 40};
    for (int i = 0; i < 8; i++) assert_true(fabs(replay_curve_at(&c, pos[i]) - want[i]) < 1e-9);
}
