/* The hub's list of files, as it is and as it should not be. */
#include "hub/listing_priv.h"
#include "support/test.h"

#define SHA "0123456789abcdef0123456789abcdef01234567"
#define HEAD "{\"sha\":\"" SHA "\",\"siblings\":["
#define BLOB "\"blobId\":\"" SHA "\""

static status parse(listing *l, arena *a, const char *text, err *e)
{
    *e = (err){0};
    arena_init(a, 0);
    return listing_parse(l, a, str_from(text), "o/r", e);
}

TEST(files_have_their_size_and_digest)
{
    listing l;
    arena a;
    err e;
    CHECK_OK(parse(&l, &a,
                   HEAD "{\"rfilename\":\"a\",\"size\":3," BLOB
                        "},{\"rfilename\":\"b/c\",\"size\":9,"
                        "\"blobId\":\"x\",\"lfs\":{\"size\":5000000000,\"sha256\":\"" SHA
                        "000000000000000000000000\"}}],\"id\":\"o/r\"}",
                   &e),
             &e);
    assert_int_equal(l.n, 2);
    assert_string_equal(l.commit, SHA);
    assert_true(l.files[0].n_bytes == 3 && !l.files[0].is_sha256);
    assert_true(l.files[1].n_bytes == 5000000000 && l.files[1].is_sha256);
    assert_int_equal(strlen(l.files[1].digest), 64);
    assert_int_equal(listing_find(&l, "b/c"), 1);
    assert_int_equal(listing_find(&l, "b"), -1);
    arena_fini(&a);
}

TEST(what_is_no_list_is_refused)
{
    static const char *const texts[] = {
        "",
        "<html></html>",
        "[]",
        "{}",
        "{\"sha\":\"main\",\"siblings\":[]}",
        "{\"sha\":\"" SHA "\"}",
        "{\"sha\":\"" SHA "\",\"siblings\":{}}",
        HEAD "7]}",
        HEAD "{}]}",
        HEAD "{\"rfilename\":\"a\"}]}",
        HEAD "{\"rfilename\":\"a\",\"size\":-1," BLOB "}]}",
        HEAD "{\"rfilename\":\"a\",\"size\":1e30," BLOB "}]}",
        HEAD "{\"rfilename\":\"a\",\"size\":1,\"blobId\":\"../../x\"}]}",
        HEAD "{\"rfilename\":\"../a\",\"size\":1," BLOB "}]}",
        HEAD "{\"rfilename\":\"a\",\"size\":1," BLOB ",\"lfs\":{\"sha256\":\"0\"}}]}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        listing l = {.n = -7};
        arena a;
        err e;
        if (parse(&l, &a, texts[i], &e) != ERR_FORMAT || l.n != -7)
            fail_msg("\"%s\" is taken", texts[i]);
        assert_non_null(strstr(e.msg, "list of files"));
        arena_fini(&a);
    }
}
