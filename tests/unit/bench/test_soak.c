/* tags: slow timeout=600
 *
 * A soak of a few seconds, and that it notices. */
#include "bench/soak_priv.h"

#include "support/test.h"

TEST(many_clients_in_little_memory_get_right_answers_and_give_all_back)
{
    static soak_record rec;
    soak_request r = {.engine = {.model = "models/mini-dense",
                                 .draft = "models/mini-dense-dflash2",
                                 .backend = "cpu",
                                 .n_threads = 1,
                                 .n_lanes = 6,
                                 .max_context = 512,
                                 .draft_rows = -1,
                                 .decode_share = 0.5,
                                 .guards_steps = true},
                      .n_clients = 32,
                      .n_requests = 150, /* of 60, some 4 are suspended, in some runs none */
                      .longest = 250,
                      .seed = test_seed()};
    err e = {0};
    CHECK_OK(soak_run(&r, &rec, &e), &e);
    if (!soak_passed(&rec))
        fail_msg(
            "%lld wrong, %lld failed, %lld stuck; %s; memory %lld and %lld; live %lld and %lld",
            (long long)rec.n_wrong, (long long)rec.n_failed, (long long)rec.n_stuck,
            rec.first_wrong, (long long)rec.rss_early, (long long)rec.rss_late,
            (long long)rec.n_live_before, (long long)rec.n_live_after);
    assert_true(rec.n_done >= 150);
    assert_true(rec.count.cache.evicted_blocks > 0);
    assert_true(rec.count.suspensions > 0);
}

TEST(each_thing_that_is_wrong_fails_a_soak)
{
    const soak_record good = {.n_done = 5, .blocks_add_up = true};
    assert_true(soak_passed(&good));
    soak_record r[8];
    for (int i = 0; i < 8; i++) r[i] = good;
    r[0].n_done = 0;
    r[1].n_wrong = 1;
    r[2].n_failed = 1;
    r[3].n_stuck = 1;
    r[4].blocks_add_up = false;
    r[5].n_live_after = 1;
    r[6].rss_late = 17 << 20;
    r[7].n_live_before = 1;
    for (int i = 0; i < 8; i++) assert_false(soak_passed(&r[i]));
}
