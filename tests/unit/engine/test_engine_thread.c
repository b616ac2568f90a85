/* tags: threads */
/* The engine on its own thread, with other threads asking: quick, so that the thread sanitizer sees
 * it. */
#include <time.h>

#include "base/thread.h"
#include "model/engine_fixture.h"

static engine *open_started(void)
{
    engine *en = run_open(&(engine_options){.model = "models/mini-dense",
                                            .draft = "models/mini-dense-dflash2",
                                            .backend = "ref",
                                            .n_threads = 2,
                                            .n_lanes = 2,
                                            .max_context = 64,
                                            .draft_rows = -1,
                                            .guards_steps = true});
    err e = {0};
    CHECK_OK(engine_start(en, &e), &e);
    return en;
}

static void wait_finished(engine *en, int64_t n)
{
    for (int i = 0; i < 60000 && engine_stats(en).finished < n; i++) {
        struct timespec nap = {0, 1000000};
        nanosleep(&nap, NULL);
    }
    assert_int_equal(engine_stats(en).finished, n);
}

TEST(a_started_engine_serves_from_its_own_thread)
{
    static run_result r;
    engine *en = open_started();
    int32_t id = 406;
    run_submit(en, run_request(&id, 1, 6, 0, 1), &r);
    wait_finished(en, 1);
    engine_stop(en);
    assert_int_equal(r.n_done, 1);
    assert_int_equal(r.choice[0].n, 6);
    engine_close(en);
}

typedef struct {
    engine *en;
    run_result result;
    bool cancels;
} client;

static void *ask(void *arg)
{
    client *c = arg;
    err e = {0};
    uint64_t id;
    int32_t ids[] = {406, 300};
    engine_request q = run_request(ids, 2, c->cancels ? 50 : 4, 0.8, 3);
    q.policy.ignore_eos = true;
    q.on_event = run_on_event;
    q.ctx = &c->result;
    if (engine_submit(c->en, &q, &id, &e) == ERR_OK && c->cancels) engine_cancel(c->en, id);
    return NULL;
}

TEST(threads_submit_and_cancel_while_it_runs)
{
    static client clients[4];
    thread threads[4];
    err e = {0};
    engine *en = open_started();
    for (int i = 0; i < 4; i++) {
        clients[i] = (client){.en = en, .cancels = i & 1};
        CHECK_OK(thread_start(&threads[i], "client", ask, &clients[i], &e), &e);
    }
    for (int i = 0; i < 4; i++) thread_join(&threads[i]);
    wait_finished(en, 4);
    engine_stop(en);
    for (int i = 0; i < 4; i += 2) {
        assert_int_equal(clients[i].result.choice[0].reason, ENGINE_LENGTH);
        assert_int_equal(clients[i].result.choice[0].n, 4);
    }
    for (int i = 1; i < 4; i += 2)
        assert_int_equal(clients[i].result.choice[0].reason, ENGINE_CANCELED);
    engine_close(en);
}
