/* tags: threads, timeout=300 */
/* The oracle's short part with the draft on, small enough for the thread sanitizer: workers, the
 * helper that fills masks, lanes side by side, a restore. */
#include "bench/oracle_priv.h"

#include "support/test.h"

static void on_case(void *ctx, const char *name, const char *detail)
{
    int *n = ctx;
    if (detail) fail_msg("%s: %s", name, detail);
    (*n)++;
}

TEST(restored_and_side_by_side_all_kinds_of_answers_are_the_same)
{
    int n = 0, n_failed;
    err e = {0};
    oracle_request r = {.engine = {.model = "models/mini-dense",
                                   .draft = "models/mini-dense-dflash2",
                                   .backend = "cpu",
                                   .n_threads = 2},
                        .n_new = 10, /* lanes come and go: the last one's has 3 */
                        .n_prompt = 66,
                        .is_short = true,
                        .on_case = on_case,
                        .ctx = &n};
    CHECK_OK(oracle_run(&r, &n_failed, &e), &e);
    assert_int_equal(n, 1);
    assert_int_equal(n_failed, 0);
}
