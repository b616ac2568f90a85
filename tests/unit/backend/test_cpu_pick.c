#include "cpu_tables.h"

TEST(takes_the_best_that_the_machine_allows)
{
    const cpu_kernels *k;
    CHECK_STATUS(cpu_pick(NULL, (cpu_features){false}, &k, NULL), ERR_OK);
    assert_string_equal(k->isa, "scalar");
#if defined(__x86_64__)
    CHECK_STATUS(cpu_pick(NULL, (cpu_features){.has_avx2 = true}, &k, NULL), ERR_OK);
    assert_string_equal(k->isa, "avx2");
    CHECK_STATUS(cpu_pick(NULL, (cpu_features){.has_avx2 = true, .has_avx512 = true}, &k, NULL),
                 ERR_OK);
    assert_string_equal(k->isa, "avx512");
    CHECK_STATUS(cpu_pick(NULL, (cpu_features){true, true, true, false}, &k, NULL), ERR_OK);
    assert_string_equal(k->isa, "avx512vnni");
    CHECK_STATUS(cpu_pick(NULL, (cpu_features){true, true, true, true}, &k, NULL), ERR_OK);
    assert_string_equal(k->isa, "amx");
    CHECK_STATUS(cpu_pick("avx2", (cpu_features){true, true, true, false}, &k, NULL), ERR_OK);
    assert_string_equal(k->isa, "avx2");
#endif
}

TEST(refuses_what_the_machine_lacks_and_what_never_was)
{
    const cpu_kernels *k = NULL;
    err e;
    CHECK_STATUS(cpu_pick("avx512", (cpu_features){.has_avx2 = true}, &k, &e), ERR_UNSUPPORTED);
    CHECK_STATUS(cpu_pick("sse9", (cpu_features){true, true, true, false}, &k, &e), ERR_INVALID);
    CHECK_STATUS(cpu_pick("", (cpu_features){true, true, true, false}, &k, &e), ERR_INVALID);
    assert_null(k);
}
