/* The folders of a repository in the cache. */
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "hub/cache_dir_priv.h"
#include "support/test.h"

#define SHA "0123456789abcdef0123456789abcdef01234567"

typedef struct {
    char root[32];
    arena a;
    cache_dir c;
} place;

static void open_place(place *p)
{
    hub_name n;
    err e = {0};
    snprintf(p->root, sizeof p->root, "/tmp/riptide-cache-XXXXXX");
    assert_non_null(mkdtemp(p->root));
    arena_init(&p->a, 0);
    assert_true(hub_name_parse(STR("o/r"), &n));
    CHECK_OK(cache_dir_init(&p->c, &p->a, p->root, &n, &e), &e);
    CHECK_OK(cache_dir_make(&p->c, &e), &e);
}

static void close_place(place *p)
{
    char command[64];
    arena_fini(&p->a);
    snprintf(command, sizeof command, "rm -rf %s", p->root);
    assert_int_equal(system(command), 0);
}

TEST(a_link_leads_to_its_blob_from_any_depth_and_is_replaced_in_one_step)
{
    place p;
    listing l;
    err e = {0};
    open_place(&p);
    CHECK_OK(file_write(cache_dir_blob(&p.c, "aa", ""), STR("one"), &e), &e);
    CHECK_OK(file_write(cache_dir_blob(&p.c, "bb", ""), STR("other"), &e), &e);
    CHECK_OK(cache_dir_link(&p.c, SHA, "x/y/z.gguf", "aa", &e), &e);
    CHECK_OK(cache_dir_link(&p.c, SHA, "top", "bb", &e), &e);
    CHECK_OK(cache_dir_link(&p.c, SHA, "gone", "cc", &e), &e);
    CHECK_OK(cache_dir_list(&p.c, SHA, &l, &e), &e);
    assert_int_equal(l.n, 2); /* a link without its blob is no file */
    int at = listing_find(&l, "x/y/z.gguf");
    assert_true(at >= 0 && l.files[at].n_bytes == 3);
    CHECK_OK(cache_dir_link(&p.c, SHA, "x/y/z.gguf", "bb", &e), &e);
    CHECK_OK(cache_dir_list(&p.c, SHA, &l, &e), &e);
    assert_int_equal(l.files[listing_find(&l, "x/y/z.gguf")].n_bytes, 5);
    close_place(&p);
}

TEST(a_revision_is_read_as_it_was_written)
{
    place p;
    err e = {0};
    char commit[COMMIT_DIGITS + 1] = "was";
    open_place(&p);
    CHECK_STATUS(cache_dir_read_ref(&p.c, "main", commit, &e), ERR_IO);
    assert_string_equal(commit, "was");
    CHECK_OK(cache_dir_write_ref(&p.c, "refs/pr/1", SHA, &e), &e);
    CHECK_OK(cache_dir_read_ref(&p.c, "refs/pr/1", commit, &e), &e);
    assert_string_equal(commit, SHA);
    CHECK_OK(cache_dir_read_ref(&p.c, SHA, commit, &e), &e);
    CHECK_OK(cache_dir_write_ref(&p.c, SHA, SHA, &e), &e);
    assert_false(file_exists(file_join(&p.a, p.c.repo, "refs/" SHA)));
    CHECK_OK(file_write(file_join(&p.a, p.c.repo, "refs/main"), STR("../../x\n"), &e), &e);
    CHECK_STATUS(cache_dir_read_ref(&p.c, "main", commit, &e), ERR_FORMAT);
    close_place(&p);
}

TEST(a_folder_that_cannot_be_made_is_named)
{
    hub_name n;
    cache_dir c;
    arena a;
    err e = {0};
    arena_init(&a, 0);
    assert_true(hub_name_parse(STR("o/r"), &n));
    CHECK_OK(cache_dir_init(&c, &a, "/dev/null/cache", &n, &e), &e);
    CHECK_STATUS(cache_dir_make(&c, &e), ERR_IO);
    assert_non_null(strstr(e.where, "/dev/null"));
    arena_fini(&a);
}
