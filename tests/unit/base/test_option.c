#include <stdlib.h>
#include <unistd.h>

#include "base/option.h"
#include "support/test.h"

static struct {
    bool verbose, cache;
    int64_t port, memory;
    double temperature;
    const char *model, *backend;
    uint64_t seed;
    bool port_set, model_set;
} values;

static const option_row rows[] = {
    {"verbose", OPTION_FLAG, &values.verbose, 0, 0, NULL, "say more", NULL},
    {"cache", OPTION_FLAG, &values.cache, 0, 0, NULL, "keep prefixes", NULL},
    {"port", OPTION_INT, &values.port, 1, 65535, NULL, "port to listen on", &values.port_set},
    {"max-memory", OPTION_SIZE, &values.memory, 1024, 1e15, NULL, "budget", NULL},
    {"temperature", OPTION_DOUBLE, &values.temperature, 0, 2, NULL, "0 is greedy", NULL},
    {"model", OPTION_TEXT, &values.model, 0, 0, NULL, "model", &values.model_set},
    {"backend", OPTION_CHOICE, &values.backend, 0, 0, "ref|cpu|cuda", "where to compute", NULL},
    {"seed", OPTION_SEED, &values.seed, 0, 0, NULL, "random seed", NULL},
    {NULL, OPTION_FLAG, NULL, 0, 0, NULL, NULL, NULL},
};

static const char *rest[3];
static int n_rest;
static bool wants_help;
static err e;

#define PARSE(...) parse((char *[]){"riptide", __VA_ARGS__, NULL})
static status parse(char **argv)
{
    int argc = 0;
    while (argv[argc]) argc++;
    memset(&values, 0, sizeof values);
    values.cache = true;
    values.port = 8080;
    values.model = "mini";
    wants_help = false;
    n_rest = 0;
    memset(&e, 0, sizeof e);
    return option_parse(rows, argc, argv, rest, 3, &n_rest, &wants_help, &e);
}

TEST(both_spellings_of_a_value_are_taken)
{
    CHECK_OK(PARSE("--port", "9000", "--model=a=b", "--temperature", "0.7", "--backend=cpu"), &e);
    assert_int_equal(values.port, 9000);
    assert_string_equal(values.model, "a=b");
    assert_true(values.temperature == 0.7);
    assert_string_equal(values.backend, "cpu");
    assert_true(values.port_set && values.model_set);
}

TEST(what_is_not_given_keeps_its_default)
{
    CHECK_OK(PARSE("--verbose"), &e);
    assert_int_equal(values.port, 8080);
    assert_string_equal(values.model, "mini");
    assert_false(values.port_set || values.model_set);
}

TEST(flags_can_be_turned_on_and_off)
{
    CHECK_OK(PARSE("--verbose", "--no-cache"), &e);
    assert_true(values.verbose);
    assert_false(values.cache);
    CHECK_OK(PARSE("--cache=off", "--verbose=yes"), &e);
    assert_true(values.verbose);
    assert_false(values.cache);
    CHECK_STATUS(PARSE("--no-cache=1"), ERR_INVALID);
    CHECK_STATUS(PARSE("--no-port"), ERR_INVALID);
    CHECK_STATUS(PARSE("--cache=maybe"), ERR_INVALID);
}

TEST(the_last_one_wins)
{
    CHECK_OK(PARSE("--port", "1", "--port=2"), &e);
    assert_int_equal(values.port, 2);
}

TEST(sizes_have_binary_suffixes)
{
    struct {
        char *text;
        int64_t want;
    } cases[] = {
        {"4096", 4096},    {"64K", 65536},      {"64KB", 65536}, {"64KiB", 65536},
        {"64k", 65536},    {"21G", 21LL << 30}, {"2M", 2 << 20}, {"1.5G", 3LL << 29},
        {"1T", 1LL << 40}, {"2048B", 2048},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_OK(PARSE("--max-memory", cases[i].text), &e);
        assert_int_equal(values.memory, cases[i].want);
    }
    char *bad[] = {"", "K", "64Q", "-1K", "64KK", "64Ki", "1e3", "4096.5", "99999999999T", "6 4K"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_STATUS(PARSE("--max-memory", bad[i]), ERR_INVALID);
}

TEST(a_seed_takes_all_of_64_bits)
{
    CHECK_OK(PARSE("--seed", "18446744073709551615"), &e);
    assert_true(values.seed == UINT64_MAX);
    CHECK_STATUS(PARSE("--seed", "-1"), ERR_INVALID);
}

static void check_error(status s, const char *where, const char *part)
{
    CHECK_STATUS(s, ERR_INVALID);
    assert_string_equal(e.where, where);
    if (!strstr(e.msg, part)) fail_msg("\"%s\" does not say \"%s\"", e.msg, part);
}

TEST(errors_name_the_flag_and_what_is_wanted)
{
    check_error(PARSE("--port", "x"), "--port", "whole number");
    check_error(PARSE("--port=0"), "--port", "1 to 65535");
    check_error(PARSE("--port", "65536"), "--port", "1 to 65535");
    check_error(PARSE("--temperature", "hot"), "--temperature", "number");
    check_error(PARSE("--temperature", "2.5"), "--temperature", "0 to 2");
    check_error(PARSE("--backend", "gpu"), "--backend", "ref|cpu|cuda");
    check_error(PARSE("--backend", "re"), "--backend", "ref|cpu|cuda");
    check_error(PARSE("--backend", "ref|cpu"), "--backend", "ref|cpu|cuda");
    check_error(PARSE("--backend", ""), "--backend", "ref|cpu|cuda");
    check_error(PARSE("--prot", "1"), "--prot", "unknown");
    check_error(PARSE("-x"), "-x", "unknown");
    check_error(PARSE("--port"), "--port", "needs a value");
}

TEST(an_error_leaves_every_target_as_it_was)
{
    CHECK_STATUS(PARSE("--port", "9000", "--verbose", "a", "--seed", "x"), ERR_INVALID);
    assert_int_equal(values.port, 8080);
    assert_false(values.verbose || values.port_set);
    assert_int_equal(n_rest, 0);
}

TEST(positional_arguments_are_collected)
{
    CHECK_OK(PARSE("a", "--verbose", "-", "--", "--port"), &e);
    assert_int_equal(n_rest, 3);
    assert_string_equal(rest[0], "a");
    assert_string_equal(rest[1], "-");
    assert_string_equal(rest[2], "--port");
    check_error(PARSE("a", "b", "c", "d"), "d", "unexpected");
    char *argv[] = {"riptide", "a", NULL};
    CHECK_STATUS(option_parse(rows, 2, argv, NULL, 0, NULL, &wants_help, &e), ERR_INVALID);
}

TEST(help_is_seen_but_not_inside_a_value)
{
    CHECK_OK(PARSE("--port", "9000", "--help", "--nonsense"), &e);
    assert_true(wants_help);
    assert_int_equal(values.port, 8080);
    CHECK_OK(PARSE("-h"), &e);
    assert_true(wants_help);
    CHECK_OK(PARSE("--model", "--help"), &e);
    assert_false(wants_help);
    assert_string_equal(values.model, "--help");
}

TEST(the_environment_counts_and_argv_wins)
{
    setenv("RIPTIDE_PORT", "7000", 1);
    setenv("RIPTIDE_MAX_MEMORY", "2M", 1);
    setenv("RIPTIDE_CACHE", "0", 1);
    setenv("RIPTIDE_MODEL", "", 1);
    CHECK_OK(PARSE("--verbose"), &e);
    assert_int_equal(values.port, 7000);
    assert_int_equal(values.memory, 2 << 20);
    assert_false(values.cache);
    assert_true(values.port_set);
    assert_false(values.model_set);
    CHECK_OK(PARSE("--port", "1", "--cache"), &e);
    assert_int_equal(values.port, 1);
    assert_true(values.cache);
    setenv("RIPTIDE_PORT", "x", 1);
    check_error(PARSE("--port", "1"), "RIPTIDE_PORT", "whole number");
    unsetenv("RIPTIDE_PORT");
    unsetenv("RIPTIDE_MAX_MEMORY");
    unsetenv("RIPTIDE_CACHE");
    unsetenv("RIPTIDE_MODEL");
}

TEST(env_finds_prefixed_and_plain_names)
{
    setenv("RIPTIDE_API_KEY", "k", 1);
    setenv("SOME_PLAIN_NAME", "p", 1);
    assert_string_equal(option_env("api-key", false), "k");
    assert_string_equal(option_env("SOME_PLAIN_NAME", true), "p");
    assert_null(option_env("SOME_PLAIN_NAME", false));
    unsetenv("RIPTIDE_API_KEY");
    unsetenv("SOME_PLAIN_NAME");
}

TEST(help_shows_every_row_with_its_default)
{
    CHECK_OK(PARSE("--max-memory=64K"), &e);
    int ends[2], old = dup(1);
    static char text[8192];
    fflush(stdout);
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], 1);
    close(ends[1]);
    option_print_help(rows, "usage: riptide serve [options]");
    fflush(stdout);
    dup2(old, 1);
    close(old);
    ssize_t n = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    text[n > 0 ? n : 0] = '\0';
    const char *parts[] = {"usage: riptide serve",
                           "--verbose",
                           "say more (off)",
                           "(on)",
                           "(8080)",
                           "(64K)",
                           "--port N",
                           "(mini)",
                           "--backend ref|cpu|cuda",
                           "(none)",
                           "--help"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i])) fail_msg("no \"%s\" in:\n%s", parts[i], text);
}
