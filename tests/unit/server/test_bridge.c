/* tags: threads */
#include "server/bridge_priv.h"

#include "base/mem.h"
#include "support/test.h"

enum { N = 2000 };

typedef struct {
    bridge b;
    uv_loop_t loop;
    thread worker;
    int n_taken, next;
} fixture;

static void on_events(uv_async_t *wake)
{
    fixture *f = wake->data;
    for (bridge_event *ev = bridge_take(&f->b), *next; ev; ev = next) {
        next = ev->next;
        assert_ptr_equal(ev->target, f);
        assert_int_equal(ev->ev.n_ids, 2);
        assert_int_equal(ev->ev.ids[0], f->next);
        assert_int_equal(ev->ev.ids[1], -f->next);
        char want[32];
        snprintf(want, sizeof want, "text %d", f->next);
        assert_true(str_is(ev->ev.text, want));
        assert_true(ev->ev.logprobs[1].logprob == (float)f->next);
        f->next++;
        bridge_free(ev);
    }
    if (f->next == N) bridge_close(&f->b);
}

/* Everything an event borrows is overwritten as soon as it was pushed. */
static void *push_all(void *arg)
{
    fixture *f = arg;
    for (int i = 0; i < N; i++) {
        int32_t ids[] = {i, -i};
        engine_logprob logprobs[2] = {{.logprob = 0}, {.logprob = (float)i}};
        char text[32];
        snprintf(text, sizeof text, "text %d", i);
        engine_event ev = {.kind = ENGINE_TOKENS,
                           .ids = ids,
                           .n_ids = 2,
                           .logprobs = logprobs,
                           .text = str_from(text)};
        assert_true(bridge_push(&f->b, f, &ev, NULL) > 0);
        memset(ids, 0x55, sizeof ids);
        memset(logprobs, 0x55, sizeof logprobs);
        memset(text, 0x55, sizeof text);
    }
    return NULL;
}

TEST(events_cross_in_order_with_all_they_borrow)
{
    fixture f = {.next = 0};
    err e = {0};
    uv_loop_init(&f.loop);
    CHECK_OK(bridge_open(&f.b, &f.loop, on_events, &f, &e), &e);
    CHECK_OK(thread_start(&f.worker, "engine", push_all, &f, &e), &e);
    uv_run(&f.loop, UV_RUN_DEFAULT);
    thread_join(&f.worker);
    assert_int_equal(f.next, N);
    bridge_fini(&f.b);
    assert_int_equal(uv_loop_close(&f.loop), 0);
}

static void ignore(uv_async_t *wake)
{
    (void)wake;
}

TEST(an_error_is_copied_too)
{
    fixture f = {.next = 0};
    err e = {0}, error = {.code = ERR_DEVICE, .where = "op", .msg = "fault"};
    uv_loop_init(&f.loop);
    CHECK_OK(bridge_open(&f.b, &f.loop, ignore, &f, &e), &e);
    engine_event ev = {.kind = ENGINE_FINISH, .reason = ENGINE_FAILED, .error = &error};
    bridge_push(&f.b, &f, &ev, NULL);
    error = (err){0};
    bridge_event *got = bridge_take(&f.b);
    assert_int_equal(got->ev.error->code, ERR_DEVICE);
    assert_string_equal(got->ev.error->msg, "fault");
    assert_null(got->next);
    bridge_free(got);
    assert_null(bridge_take(&f.b));
    bridge_close(&f.b);
    uv_run(&f.loop, UV_RUN_DEFAULT);
    bridge_fini(&f.b);
    uv_loop_close(&f.loop);
}

TEST(without_memory_a_reserved_event_goes_and_says_so)
{
    fixture f = {.next = 0};
    err e = {0};
    bridge_reserve reserved = {0};
    int32_t id = 5;
    uv_loop_init(&f.loop);
    CHECK_OK(bridge_open(&f.b, &f.loop, ignore, &f, &e), &e);
    engine_event ev = {.kind = ENGINE_FINISH,
                       .choice = 3,
                       .reason = ENGINE_LENGTH,
                       .text = STR("held"),
                       .ids = &id,
                       .n_ids = 1,
                       .usage = {.completion_tokens = 9}};
    mem_fail_at(1);
    assert_int_equal(bridge_push(&f.b, &f, &ev, NULL), -1);
    assert_int_equal(bridge_push(&f.b, &f, &ev, &reserved), -1);
    mem_fail_at(0);
    bridge_event *got = bridge_take(&f.b);
    assert_ptr_equal(got, &reserved.event);
    assert_null(got->next);
    assert_int_equal(got->n_bytes, 0);
    assert_int_equal(got->ev.choice, 3);
    assert_int_equal(got->ev.reason, ENGINE_LENGTH);
    assert_int_equal(got->ev.usage.completion_tokens, 9);
    assert_int_equal(got->ev.text.len + (size_t)got->ev.n_ids, 0);
    bridge_free(got);
    bridge_close(&f.b);
    uv_run(&f.loop, UV_RUN_DEFAULT);
    bridge_fini(&f.b);
    uv_loop_close(&f.loop);
}

TEST(what_nobody_took_is_freed)
{
    fixture f = {.next = 0};
    err e = {0};
    int64_t before = mem_count().n_live;
    uv_loop_init(&f.loop);
    CHECK_OK(bridge_open(&f.b, &f.loop, ignore, &f, &e), &e);
    engine_event ev = {.kind = ENGINE_TOKENS, .text = STR("lost")};
    for (int i = 0; i < 3; i++) bridge_push(&f.b, &f, &ev, NULL);
    bridge_close(&f.b);
    uv_run(&f.loop, UV_RUN_DEFAULT);
    bridge_fini(&f.b);
    bridge_fini(&f.b);
    uv_loop_close(&f.loop);
    assert_int_equal(mem_count().n_live, before);
}
