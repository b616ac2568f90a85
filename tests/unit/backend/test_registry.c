#include "backend/backend.h"
#include "support/test.h"

static status try_name(const char *name, const char *want_name)
{
    err e = {0};
    backend *b = NULL;
    backend_options o = {.name = name, .n_threads = 1};
    status s = backend_open(&b, &o, &e);
    if (s != ERR_OK) {
        assert_null(b);
        assert_true(e.msg[0] != 0);
        return s;
    }
    assert_string_equal(b->name, want_name);
    assert_true(b->isa[0] != 0);
    assert_int_equal(b->n_threads, 1);
    b->ops->close(b);
    return s;
}

TEST(a_name_opens_its_backend)
{
    CHECK_STATUS(try_name("ref", "ref"), ERR_OK);
    CHECK_STATUS(try_name("ref:scalar", "ref"), ERR_OK);
    CHECK_STATUS(try_name("cpu", "cpu"), ERR_OK);
    CHECK_STATUS(try_name("cpu:scalar", "cpu"), ERR_OK);
}

TEST(without_a_name_the_best_there_is_opens)
{
    bool has_cuda = try_name("cuda", "cuda") == ERR_OK;
    CHECK_STATUS(try_name(NULL, has_cuda ? "cuda" : "cpu"), ERR_OK);
    CHECK_STATUS(try_name("", has_cuda ? "cuda" : "cpu"), ERR_OK);
}

TEST(other_names_are_refused_with_the_list)
{
    static const char *const names[] = {
        "re", "reff", "gpu", ":scalar", "ref:", "ref:avx2", "REF", "cpu:", "cpu:avx9"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK_STATUS(try_name(names[i], ""), ERR_INVALID);
    }
    err e = {0};
    backend *b;
    backend_options o = {.name = "metal", .n_threads = 1};
    CHECK_STATUS(backend_open(&b, &o, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, backend_names()));
    assert_non_null(strstr(e.msg, "metal"));
}

TEST(names_are_those_of_the_build)
{
    assert_non_null(strstr(backend_names(), "cpu"));
    assert_non_null(strstr(backend_names(), "ref"));
    if (strstr(backend_names(), "cuda") == NULL) {
        CHECK_STATUS(try_name("cuda", ""), ERR_UNSUPPORTED);
        CHECK_STATUS(try_name("cuda:sm_90", ""), ERR_UNSUPPORTED);
    }
}
