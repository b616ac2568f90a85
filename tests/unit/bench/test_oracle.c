/* tags: slow */
/* That the oracle notices: what it compares, and that wrong answers are told. */
#include "bench/oracle_priv.h"

#include <math.h>

#include "support/test.h"

static int n_cases, n_told;

static void on_case(void *ctx, const char *name, const char *detail)
{
    (void)ctx;
    n_cases++;
    n_told += detail != NULL;
    assert_true(name[0] != 0);
}

static oracle_request mini(void)
{
    return (oracle_request){.engine = {.model = "models/mini-dense",
                                       .draft = "models/mini-dense-dflash2",
                                       .backend = "cpu",
                                       .n_threads = 2},
                            .n_new = 8,
                            .n_prompt = 130,
                            .on_case = on_case};
}

TEST(an_answer_that_differs_in_a_bit_is_told)
{
    static oracle o;
    static oracle_answer got;
    oracle_request r = mini();
    err e = {0};
    CHECK_OK(oracle_open(&o, &r, &e), &e);
    for (int change = 0; change < 6; change++) {
        got = o.want[ORACLE_SAMPLED];
        if (change == 1) got.ids[5] ^= 1;
        if (change == 2) got.logprob[7] = nextafterf(got.logprob[7], 1);
        if (change == 3) got.n--;
        if (change == 4) got.is_done = false;
        if (change == 5) err_set(&got.failure, ERR_DEVICE, "x", -1, "y");
        n_cases = n_told = 0;
        assert_int_equal(oracle_same(&o, &got, &o.want[ORACLE_SAMPLED], 0, "it"), change == 0);
        oracle_end(&o, "a case");
        assert_int_equal(n_cases, 1);
        assert_int_equal(n_told, change != 0);
    }
    assert_int_equal(o.n_failed, 5);
    oracle_close(&o);
}

/* An engine that answers otherwise: another KV format. */
TEST(an_engine_that_computes_otherwise_is_told)
{
    static oracle o;
    oracle_request r = mini();
    err e = {0};
    r.n_new = 24;
    CHECK_OK(oracle_open(&o, &r, &e), &e);
    engine_options v = oracle_usual(&o);
    oracle_ask a = oracle_prompt(&o, ORACLE_SAMPLED);
    assert_true(oracle_engine(&o, &v));
    assert_true(oracle_answer_to(&o, &a, &o.got[0]));
    assert_true(oracle_same(&o, &o.got[0], &o.want[ORACLE_SAMPLED], 0, "the same format"));
    v.kv = ENGINE_KV_F32;
    assert_true(oracle_engine(&o, &v));
    assert_true(oracle_answer_to(&o, &a, &o.got[0]));
    assert_false(oracle_same(&o, &o.got[0], &o.want[ORACLE_SAMPLED], 0, "another format"));
    oracle_close(&o);
}
