#include "hub/hub_url_priv.h"
#include "support/test.h"

TEST(what_an_address_cannot_hold_is_written_with_percent)
{
    hub_name n;
    arena a;
    arena_init(&a, 0);
    assert_true(hub_name_parse(STR("o.w/r_1"), &n));
    assert_string_equal(hub_url_listing(&a, "http://h", &n, "refs/pr/1 ?"),
                        "http://h/api/models/o.w/r_1/revision/refs%2Fpr%2F1%20%3F?blobs=true");
    assert_string_equal(hub_url_file(&a, "http://h", &n, "abc", "d/a b#\xc3\xa4.gguf"),
                        "http://h/o.w/r_1/resolve/abc/d/a%20b%23%C3%A4.gguf");
    arena_fini(&a);
}
