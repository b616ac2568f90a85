/* tags: threads */
#include "server/serve_flags_priv.h"

#include "support/test.h"

static arena mem;
static err last;

static status resolve(serve_flags *f, int argc, char **argv, server_options *s, engine_options *e)
{
    option_row rows[SERVE_FLAG_ROWS + 1];
    bool wants_help;
    arena_fini(&mem);
    arena_init(&mem, 0);
    serve_flags_init(f);
    serve_flags_rows(f, rows);
    assert_null(rows[SERVE_FLAG_ROWS].name);
    CHECK_OK(option_parse(rows, argc, argv, NULL, 0, NULL, &wants_help, &last), &last);
    return serve_flags_resolve(f, &mem, s, e, &last);
}

#define ARGS(...)                                                       \
    (int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *)), (char *[]) \
    {                                                                   \
        __VA_ARGS__                                                     \
    }

TEST(the_defaults_are_those_of_the_documents)
{
    serve_flags f;
    server_options s;
    engine_options e;
    CHECK_OK(resolve(&f, ARGS("serve", "--model", "models/mini-dense"), &s, &e), &last);
    assert_string_equal(s.host, "127.0.0.1");
    assert_int_equal(s.port, 8000);
    assert_int_equal(s.body_max, 128 << 20);
    assert_int_equal(s.limits.body_budget, 512 << 20);
    assert_int_equal(s.access.key.len, 0);
    assert_int_equal(e.n_lanes, 0); /* by the memory */
    assert_int_equal(e.queue_size, 32);
    assert_int_equal(s.choices_max, 33); /* what can wait, and one that runs */
    assert_string_equal(e.model, "models/mini-dense");
    assert_string_equal(e.draft, "models/mini-dense-dflash2");
    CHECK_STATUS(serve_flags_check_bind(&f, true, &last), ERR_OK);
    arena_fini(&mem);
}

TEST(lists_are_split_and_trimmed)
{
    serve_flags f;
    server_options s;
    engine_options e;
    CHECK_OK(
        resolve(&f,
                ARGS("serve", "--model", "models/mini-dense", "--allowed-host", "a, b,,c ",
                     "--allowed-origin", "http://x:1", "--served-model-name", "gpt-4o,own/name",
                     "--api-key", "k", "--max-request-size", "400M", "--lanes", "2"),
                &s, &e),
        &last);
    assert_int_equal(s.access.n_hosts, 3);
    assert_true(str_is(s.access.hosts[1], "b") && str_is(s.access.hosts[2], "c"));
    assert_int_equal(s.access.n_origins, 1);
    assert_int_equal(s.n_names, 2);
    assert_true(str_is(s.names[1], "own/name"));
    assert_true(str_is(s.access.key, "k"));
    assert_int_equal(s.body_max, 400 << 20);
    assert_int_equal(s.limits.body_budget, (size_t)800 << 20);
    assert_int_equal(e.n_lanes, 2);
    arena_fini(&mem);
}

TEST(what_cannot_be_is_refused_by_flag)
{
    serve_flags f;
    server_options s;
    engine_options e;
    CHECK_STATUS(resolve(&f, ARGS("serve", "--allowed-origin", "*"), &s, &e), ERR_INVALID);
    assert_string_equal(last.where, "--allowed-origin");
    CHECK_STATUS(resolve(&f, ARGS("serve", "--allowed-origin", "localhost"), &s, &e), ERR_INVALID);
    CHECK_STATUS(resolve(&f, ARGS("serve", "--served-model-name", "a b"), &s, &e), ERR_INVALID);
    assert_string_equal(last.where, "--served-model-name");
    CHECK_STATUS(resolve(&f, ARGS("serve", "--model", "models/none"), &s, &e), ERR_IO);
    CHECK_OK(resolve(&f,
                     ARGS("serve", "--model", "models/mini-dense", "--allowed-origin", "*",
                          "--api-key", "k"),
                     &s, &e),
             &last);
    arena_fini(&mem);
}

TEST(a_public_address_wants_a_key_or_a_clear_word)
{
    serve_flags f;
    serve_flags_init(&f);
    CHECK_STATUS(serve_flags_check_bind(&f, true, &last), ERR_OK);
    CHECK_STATUS(serve_flags_check_bind(&f, false, &last), ERR_INVALID);
    assert_string_equal(last.where, "--host");
    f.api_key = "";
    CHECK_STATUS(serve_flags_check_bind(&f, false, &last), ERR_INVALID);
    f.api_key = "k";
    CHECK_STATUS(serve_flags_check_bind(&f, false, &last), ERR_OK);
    f.api_key = NULL;
    f.allow_no_key = true;
    CHECK_STATUS(serve_flags_check_bind(&f, false, &last), ERR_OK);
}
