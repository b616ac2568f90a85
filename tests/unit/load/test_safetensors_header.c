#include "base/mem.h"
#include "load/safetensors_priv.h"
#include "support/guard.h"
#include "support/test.h"

/* Parse text that ends at an unreadable page. */
static status parse(const char *text, safetensors_row **rows, int *n, arena *mem, err *e)
{
    size_t len = strlen(text);
    char *copy = guard_copy(text, len);
    arena_init(mem, 0);
    status s = safetensors_parse_header(mem, (str){copy, len}, "f", rows, n, e);
    guard_free(copy, len);
    return s;
}

static void check_fails(const char *text, const char *words)
{
    safetensors_row *rows = NULL;
    int n = -1;
    arena mem;
    err e = {0};
    status s = parse(text, &rows, &n, &mem, &e);
    if (s != ERR_FORMAT || !strstr(e.msg, words) || strcmp(e.where, "f") != 0)
        fail_msg("%s: %s: \"%s\", want \"%s\"", text, status_name(s), e.msg, words);
    assert_null(rows);
    assert_int_equal(n, -1);
    arena_fini(&mem);
}

TEST(rows_come_in_header_order_with_any_key_order_and_white_space)
{
    safetensors_row *rows = NULL;
    int n = 0;
    arena mem;
    err e;
    CHECK_OK(
        parse("{ \"b\" :\t{\"shape\":[ 2 , 3 ],\"data_offsets\":[10,22],\"dtype\":\"F16\"},\n"
              "\"__metadata__\":{\"k\":\"v \\\" \\u00e9\",\"l\":\"\"},"
              "\"a\\u00e9\\n\":{\"dtype\":\"U\\u0038\",\"shape\":[],\"data_offsets\":[0,1]}}  \r\n",
              &rows, &n, &mem, &e),
        &e);
    assert_int_equal(n, 2);
    assert_string_equal(rows[0].name, "b");
    assert_int_equal(rows[0].type, DTYPE_F16);
    assert_int_equal(rows[0].n_dims, 2);
    assert_true(rows[0].shape[0] == 2 && rows[0].shape[1] == 3);
    assert_true(rows[0].begin == 10 && rows[0].end == 22);
    assert_string_equal(rows[1].name, "a\xc3\xa9\n");
    assert_int_equal(rows[1].type, DTYPE_U8);
    assert_int_equal(rows[1].n_dims, 0);
    mem_free(rows);
    arena_fini(&mem);
}

TEST(an_empty_header_and_one_of_metadata_alone_have_no_rows)
{
    static const char *const texts[] = {"{}", " { } ", "{\"__metadata__\":{}}"};
    for (int i = 0; i < 3; i++) {
        safetensors_row *rows = NULL;
        int n = -1;
        arena mem;
        err e;
        CHECK_OK(parse(texts[i], &rows, &n, &mem, &e), &e);
        assert_int_equal(n, 0);
        mem_free(rows);
        arena_fini(&mem);
    }
}

TEST(more_than_four_dimensions_are_folded_into_the_last)
{
    safetensors_row *rows = NULL;
    int n = 0;
    arena mem;
    err e;
    CHECK_OK(parse("{\"v\":{\"dtype\":\"BF16\",\"shape\":[5,3,2,4,6],\"data_offsets\":[0,1440]},"
                   "\"z\":{\"dtype\":\"U8\",\"shape\":[0,1,1,9223372036854775807,7],"
                   "\"data_offsets\":[1440,1440]}}",
                   &rows, &n, &mem, &e),
             &e);
    assert_int_equal(rows[0].n_dims, 4);
    assert_true(rows[0].shape[0] == 5 && rows[0].shape[2] == 2 && rows[0].shape[3] == 24);
    assert_int_equal(rows[1].shape[3], 0);
    mem_free(rows);
    arena_fini(&mem);
}

#define ENTRY(shape, offsets) \
    "{\"w\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

TEST(each_malformed_text_is_refused_with_its_reason)
{
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"", "wants '{'"},
        {"[]", "wants '{'"},
        {"{", "wants '\"'"},
        {"{\"w\"", "wants ':'"},
        {"{\"w\":1}", "wants '{'"},
        {"{\"w", "ends inside a string"},
        {"{\"w\\", "malformed escape"},
        {"{\"w\\x\":{}}", "malformed escape"},
        {"{\"w\\u12g4\":{}}", "malformed escape"},
        {"{\"w\n\":{}}", "control character"},
        {"{\"w\xff\":{}}", "not UTF-8"},
        {"{\"\":{}}", "1 to 1024 bytes"},
        {"{\"a\\u0000b\":{}}", "no NUL"},
        {"{\"w\":{}}", "are missing"},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1]}}", "are missing"},
        {"{\"w\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", "'dtype' stands twice"},
        {"{\"w\":{\"shape\":[1],\"shape\":[1]}}", "'shape' stands twice"},
        {"{\"w\":{\"color\":3}}", "key 'color'"},
        {"{\"w\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", "dtype 'F31'"},
        {"{\"w\":{\"dtype\":4,\"shape\":[1],\"data_offsets\":[0,4]}}", "wants '\"'"},
        {ENTRY("[1]", "[0,4]") "x", "goes on after"},
        {"{\"__metadata__\":{\"a\":1}}", "wants '\"'"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", "'__metadata__' stands twice"},
        {"{\"__metadata__\":{\"a\":\"b\"", "wants ',' or '}'"},
        {ENTRY("[1]", "[0,4"), "wants ',' or ']'"},
        {ENTRY("[1]", "[0,4,8]"), "more than 2 numbers"},
        {ENTRY("[1]", "[4]"), "are missing"},
        {ENTRY("[-1]", "[0,4]"), "whole number"},
        {ENTRY("[1.0]", "[0,4]"), "wants ',' or ']'"},
        {ENTRY("[01]", "[0,4]"), "whole number"},
        {ENTRY("[1e0]", "[0,4]"), "wants ',' or ']'"},
        {ENTRY("[\"1\"]", "[0,4]"), "whole number"},
        {ENTRY("[9223372036854775808]", "[0,4]"), "whole number"},
        {ENTRY("[99999999999999999999999]", "[0,4]"), "whole number"},
        {ENTRY("[4294967296,4294967296]", "[0,4]"), "more than 2^63 elements"},
        {ENTRY("[4611686018427387904]", "[0,4]"), "more than 2^63 bits"},
        {ENTRY("[2]", "[0,4]"), "data_offsets hold 4 bytes, but shape and dtype F32 need 8"},
        {ENTRY("[1]", "[8,4]"), "run backwards"},
        {ENTRY("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]"), "more than 16 numbers"},
        {ENTRY("[1],", "[0,4]"), "wants '\"'"},
        {ENTRY("[1,]", "[0,4]"), "whole number"},
        {"{\"w\":{\"dtype\":\"F32\",}}", "wants '\"'"},
        {"{,}", "wants '\"'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_fails(rows[i].text, rows[i].words);
}

TEST(a_message_names_the_tensor_and_the_byte_in_the_file)
{
    safetensors_row *rows = NULL;
    int n;
    arena mem;
    err e;
    CHECK_STATUS(parse("{\"some.weight\":{\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[0,4]}}",
                       &rows, &n, &mem, &e),
                 ERR_FORMAT);
    assert_non_null(strstr(e.msg, "tensor 'some.weight'"));
    arena_fini(&mem);
    CHECK_STATUS(parse("{\"w\":{\"dtype\":\"F32\",!", &rows, &n, &mem, &e), ERR_FORMAT);
    assert_int_equal(e.pos, 8 + 20);
    arena_fini(&mem);
}

TEST(every_prefix_of_a_header_is_refused_and_nothing_reads_past_it)
{
    static const char text[] =
        "{\"__metadata__\":{\"a\":\"\\u00e9\"},"
        "\"w\\\"\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}";
    for (size_t len = 0; len < sizeof text - 1; len++) {
        char cut[sizeof text] = {0};
        memcpy(cut, text, len);
        check_fails(cut, "the header");
    }
}

TEST(every_failed_allocation_is_out_of_memory_and_leaks_nothing)
{
    /* Enough rows to grow the list, and an escaped name. */
    char text[16000] = "{\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}";
    for (int i = 1; i < 150; i++) {
        char row[100];
        snprintf(row, sizeof row,
                 ",\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}", i, i, i + 1);
        strcat(text, row);
    }
    strcat(text, "}");
    int64_t live = mem_count().n_live;
    for (int64_t at = 1;; at++) {
        safetensors_row *rows = NULL;
        int n;
        arena mem;
        err e;
        mem_fail_at(at);
        status s = parse(text, &rows, &n, &mem, &e);
        mem_fail_at(0);
        if (s == ERR_OK) {
            assert_true(at > 3 && n == 150);
            mem_free(rows);
        } else {
            CHECK_STATUS(s, ERR_NOMEM);
        }
        arena_fini(&mem);
        assert_int_equal(mem_count().n_live, live);
        if (s == ERR_OK) break;
    }
}
