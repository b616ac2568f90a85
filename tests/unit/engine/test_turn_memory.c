#include "base/mem.h"
#include "engine/turn_memory.h"
#include "support/test.h"

static turn_memory *open_memory(int64_t max_bytes)
{
    turn_memory *m = NULL;
    err e = {0};
    CHECK_OK(turn_memory_open(&m, max_bytes, &e), &e);
    return m;
}

static void put(turn_memory *m, const char *prompt, int32_t id, int n_ids, const char *call)
{
    static int32_t ids[1024];
    str calls[1] = {str_from(call)};
    turn_prompt p = turn_prompt_of(str_from(prompt));
    for (int i = 0; i < n_ids; i++) ids[i] = id;
    turn t = {.n_messages = id, .n_ids = n_ids, .n_calls = call != NULL, ids, calls};
    turn_memory_put(m, &p, &t);
}

static int find(turn_memory *m, const char *text, arena *a, turn_found **found)
{
    int n = -1;
    err e = {0};
    CHECK_OK(turn_memory_find(m, str_from(text), a, found, &n, &e), &e);
    return n;
}

#define HEAD "a system message and a question, assistant: "

TEST(turns_are_found_by_the_prompts_that_a_text_begins_with)
{
    arena a;
    turn_found *f;
    turn_memory *m = open_memory(1 << 16);
    arena_init(&a, 0);
    put(m, HEAD "one, next, assistant: ", 2, 5, "call_2");
    put(m, HEAD, 1, 3, NULL);
    put(m, "another " HEAD, 3, 3, NULL);
    put(m, "short", 4, 3, NULL);
    assert_int_equal(turn_memory_stats(m).n_turns, 3);
    assert_int_equal(find(m, HEAD "one, next, assistant: two", &a, &f), 2);
    assert_int_equal(f[0].prompt.n_bytes, strlen(HEAD));
    assert_int_equal(f[0].turn.n_messages, 1);
    assert_int_equal(f[0].turn.n_calls, 0);
    assert_int_equal(f[1].turn.n_ids, 5);
    assert_int_equal(f[1].turn.ids[4], 2);
    assert_true(str_is(f[1].turn.call_ids[0], "call_2"));
    assert_int_equal(find(m, "nothing of all that, assistant: ", &a, &f), 0);
    /* As long and with the same end, but another text. */
    assert_int_equal(find(m, "A" HEAD, &a, &f), 0);
    char other[] = HEAD;
    other[0] = 'b';
    assert_int_equal(find(m, other, &a, &f), 0);
    arena_fini(&a);
    turn_memory_close(m);
}

TEST(of_one_prompt_the_newest_comes_first_and_what_is_put_again_is_kept_once)
{
    arena a;
    turn_found *f;
    turn_memory *m = open_memory(1 << 16);
    arena_init(&a, 0);
    put(m, HEAD, 1, 3, "call_a");
    put(m, HEAD, 2, 3, "call_b");
    put(m, HEAD, 1, 3, "call_c");
    assert_int_equal(find(m, HEAD "said", &a, &f), 2);
    assert_int_equal(f[0].turn.ids[0], 1);
    assert_true(str_is(f[0].turn.call_ids[0], "call_c"));
    assert_int_equal(f[1].turn.ids[0], 2);
    assert_int_equal(turn_memory_stats(m).kept, 2);
    arena_fini(&a);
    turn_memory_close(m);
}

TEST(what_was_not_used_for_longest_goes_when_the_bytes_are_full)
{
    arena a;
    turn_found *f;
    turn_memory *m = open_memory(2300);
    arena_init(&a, 0);
    put(m, HEAD "1", 1, 200, NULL);
    put(m, HEAD "2", 2, 200, NULL);
    assert_int_equal(find(m, HEAD "1 said", &a, &f), 1);
    turn_memory_use(m, f);
    put(m, HEAD "3", 3, 200, NULL);
    put(m, HEAD "4", 4, 1000, NULL); /* more than all that there is */
    turn_counters c = turn_memory_stats(m);
    assert_int_equal(c.n_turns, 2);
    assert_int_equal(c.evicted, 1);
    assert_int_equal(c.used, 1);
    assert_int_equal(c.used_tokens, 200);
    assert_true(c.n_bytes <= c.max_bytes && c.n_bytes >= 2 * 800);
    assert_int_equal(find(m, HEAD "1 said", &a, &f), 1);
    assert_int_equal(find(m, HEAD "2 said", &a, &f), 0);
    assert_int_equal(find(m, HEAD "3 said", &a, &f), 1);
    arena_fini(&a);
    turn_memory_close(m);
}

TEST(without_memory_nothing_is_kept_and_looking_says_so)
{
    arena a;
    turn_found *f;
    int n, n_failed = 0;
    err e = {0};
    turn_memory *m = open_memory(1 << 16);
    mem_fail_at(1);
    put(m, HEAD, 1, 3, NULL);
    mem_fail_at(0);
    assert_int_equal(turn_memory_stats(m).n_turns, 0);
    put(m, HEAD, 1, 3, NULL);
    for (int64_t at = 1;; at++) {
        arena_init(&a, 0);
        mem_fail_at(at);
        status s = turn_memory_find(m, STR(HEAD "said"), &a, &f, &n, &e);
        mem_fail_at(0);
        arena_fini(&a);
        if (s == ERR_OK) break;
        CHECK_STATUS(s, ERR_NOMEM);
        n_failed++;
    }
    assert_true(n_failed > 0);
    turn_memory_close(m);
}
