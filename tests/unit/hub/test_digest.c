/* Digests against known ones. */
#include "hub/digest_priv.h"
#include "support/test.h"

static void check(bool is_sha256, const char *text, const char *want)
{
    digest d;
    err e = {0};
    char has[DIGEST_TEXT];
    size_t n = strlen(text);
    CHECK_OK(digest_open(&d, is_sha256, (int64_t)n, &e), &e);
    for (size_t i = 0; i < n; i++) digest_add(&d, text + i, 1);
    digest_close_to(&d, has);
    digest_close(&d);
    assert_string_equal(has, want);
}

TEST(large_files_go_by_sha256)
{
    /* FIPS 180-4's examples */
    check(true, "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check(true, "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(small_files_go_by_the_digest_that_git_gives_a_blob)
{
    /* git hash-object --stdin */
    check(false, "", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
    check(false, "hello\n", "ce013625030ba8dba906f756967f9e9ca394464a");
}
