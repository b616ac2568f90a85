#include <sys/resource.h>

#include "base/mem.h"
#include "fixture_checkpoint.h"
#include "load/safetensors_priv.h"
#include "support/guard.h"

/* A file in memory: length, header text, data of n bytes; ends at an unreadable page. */
static status open_made(safetensors **s, uint8_t **bytes, size_t *n, uint64_t length,
                        const char *header, size_t n_data, err *e)
{
    size_t n_head = strlen(header);
    *n = 8 + n_head + n_data;
    uint8_t *made = calloc(1, *n);
    memcpy(made, &length, 8);
    memcpy(made + 8, header, n_head);
    for (size_t i = 0; i < n_data; i++) made[8 + n_head + i] = (uint8_t)i;
    *bytes = guard_copy(made, *n);
    free(made);
    return safetensors_open_bytes(s, *bytes, (int64_t)*n, "f.safetensors", e);
}

static void check_fails(const char *header, size_t n_data, const char *words)
{
    safetensors *s = NULL;
    uint8_t *bytes;
    size_t n;
    err e = {0};
    int64_t live = mem_count().n_live;
    status st = open_made(&s, &bytes, &n, strlen(header), header, n_data, &e);
    if (st != ERR_FORMAT || !strstr(e.msg, words) || strcmp(e.where, "f.safetensors") != 0)
        fail_msg("%s: %s: \"%s\", want \"%s\"", header, status_name(st), e.msg, words);
    assert_null(s);
    assert_int_equal(mem_count().n_live, live);
    guard_free(bytes, n);
}

#define T(name, from, to, n) \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[" #n "],\"data_offsets\":[" #from "," #to "]}"

TEST(tensors_are_found_by_name_and_listed_in_the_order_of_the_data)
{
    safetensors *s = NULL;
    uint8_t *bytes;
    size_t n;
    err e;
    const char *header = "{" T("z", 0, 3, 3) "," T("a", 5, 9, 4) "," T("m", 3, 5, 2) "," T(
        "none", 9, 9, 0) "}";
    CHECK_OK(open_made(&s, &bytes, &n, strlen(header), header, 9, &e), &e);
    assert_int_equal(safetensors_count(s), 4);
    static const char *const order[] = {"z", "m", "a", "none"};
    for (int i = 0; i < 4; i++) {
        const tensor *t;
        assert_string_equal(safetensors_name(s, i, &t), order[i]);
        assert_ptr_equal(safetensors_find(s, order[i]), t);
    }
    const tensor *a = safetensors_find(s, "a");
    assert_int_equal(a->n_bytes, 4);
    assert_int_equal(((const uint8_t *)a->data)[0], 5);
    assert_null(safetensors_find(s, ""));
    assert_null(safetensors_find(s, "aa"));
    assert_string_equal(safetensors_path(s), "f.safetensors");
    assert_false(safetensors_forget(s, a->data, 4)); /* no mapping */
    safetensors_close(s);
    safetensors_close(NULL);
    guard_free(bytes, n);
}

TEST(the_tensors_must_cover_the_data_exactly)
{
    check_fails("{" T("a", 0, 4, 4) "," T("b", 2, 6, 4) "}", 6, "tensor 'b' overlaps tensor 'a'");
    check_fails("{" T("a", 0, 4, 4) "," T("b", 0, 4, 4) "}", 4, "overlaps");
    check_fails("{" T("a", 0, 8, 8) "," T("b", 2, 4, 2) "}", 8, "tensor 'b' overlaps tensor 'a'");
    check_fails("{" T("a", 1, 4, 3) "}", 4, "tensor 'a' leaves a gap of 1 bytes");
    check_fails("{" T("a", 0, 2, 2) "," T("b", 3, 4, 1) "}", 4, "tensor 'b' leaves a gap");
    check_fails("{" T("a", 0, 4, 4) "}", 3, "tensor 'a' ends at byte 4");
    check_fails("{" T("a", 0, 4, 4) "}", 3, "truncated");
    check_fails("{" T("a", 0, 4, 4) "}", 5, "1 bytes after the last tensor");
    check_fails("{}", 1, "1 bytes after the last tensor");
    check_fails("{" T("a", 9223372036854775806, 9223372036854775807, 1) "}", 4, "ends at byte");
    check_fails("{" T("a", 0, 4, 4) "," T("a", 4, 8, 4) "}", 8, "tensor 'a' stands twice");
    check_fails("{" T("a", 0, 4, 4) "," T("b", 4, 6, 2) "," T("\\u0061", 6, 8, 2) "}", 8,
                "tensor 'a' stands twice");
}

static long peak_kb(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

TEST(a_hostile_length_is_refused_without_memory)
{
    static const struct {
        uint64_t length;
        const char *words;
    } rows[] = {
        {1ull << 63, "over the limit of 100000000"},
        {UINT64_MAX, "over the limit"},
        {UINT64_MAX - 7, "over the limit"},
        {1ull << 32, "over the limit"},
        {100000001, "over the limit"},
        {100000000, "only 2 follow: is it truncated?"},
        {3, "only 2 follow"},
        {0, "wants '{'"},
        {1, "wants '\"'"},
    };
    long before = peak_kb();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        safetensors *s = NULL;
        uint8_t *bytes;
        size_t n;
        err e = {0};
        CHECK_STATUS(open_made(&s, &bytes, &n, rows[i].length, "{}", 0, &e), ERR_FORMAT);
        if (!strstr(e.msg, rows[i].words)) fail_msg("\"%s\", want \"%s\"", e.msg, rows[i].words);
        guard_free(bytes, n);
    }
    assert_true(peak_kb() - before < 8192);
}

/* 8 MB of header: one tensor's list of numbers, many empty strings, one long escaped name. */
TEST(a_large_hostile_header_costs_no_memory_of_its_own)
{
    enum { N = 8 << 20 };
    static const char *const rows[][2] = {
        {"{\"w\":{\"shape\":[", "0,"}, {"{\"__metadata__\":{", "\"\":\"\","}, {"{\"", "\\n"}};
    uint8_t *made = malloc(8 + N);
    uint64_t length = N;
    memcpy(made, &length, 8);
    for (int i = 0; i < 3; i++) {
        size_t at = 8 + strlen(rows[i][0]), n = strlen(rows[i][1]);
        memcpy(made + 8, rows[i][0], at - 8);
        for (; at + n <= 8 + N; at += n) memcpy(made + at, rows[i][1], n);
        memset(made + at, ' ', 8 + N - at);
        safetensors *s = NULL;
        err e;
        long before = peak_kb();
        CHECK_STATUS(safetensors_open_bytes(&s, made, 8 + N, "f", &e), ERR_FORMAT);
        assert_true(peak_kb() - before < 4096);
    }
    free(made);
}

TEST(a_file_cut_at_any_byte_is_refused)
{
    safetensors *s = NULL;
    uint8_t *bytes;
    size_t n;
    err e;
    const char *header = "{" T("first", 0, 3, 3) "," T("second", 3, 9, 6) "}   ";
    CHECK_OK(open_made(&s, &bytes, &n, strlen(header), header, 9, &e), &e);
    safetensors_close(s);
    for (size_t cut = 0; cut < n; cut++) {
        uint8_t *part = guard_copy(bytes, cut);
        s = NULL;
        CHECK_STATUS(safetensors_open_bytes(&s, part, (int64_t)cut, "f", &e), ERR_FORMAT);
        assert_non_null(strstr(e.msg, "truncated"));
        assert_null(s);
        guard_free(part, cut);
    }
    guard_free(bytes, n);
}

TEST(a_missing_file_is_an_io_error_with_its_path)
{
    safetensors *s = NULL;
    err e;
    CHECK_STATUS(safetensors_open(&s, "/nowhere/x.safetensors", &e), ERR_IO);
    assert_string_equal(e.where, "/nowhere/x.safetensors");
    assert_null(s);
}

TEST(a_long_path_keeps_its_end_in_messages)
{
    char path[400];
    memset(path, 'd', sizeof path);
    path[0] = '/';
    strcpy(path + 300, "/model.safetensors");
    const char *where = safetensors_where(path);
    assert_true(strlen(where) < sizeof((err *)0)->where);
    assert_non_null(strstr(where, "/model.safetensors"));
    assert_string_equal(safetensors_where("short"), "short");
}

TEST(every_failed_allocation_of_open_is_out_of_memory_and_leaks_nothing)
{
    int64_t live = mem_count().n_live;
    for (int64_t at = 1;; at++) {
        safetensors *s = NULL;
        err e;
        mem_fail_at(at);
        status st = safetensors_open(&s, "models/mini-dense-dflash2/model.safetensors", &e);
        mem_fail_at(0);
        if (st != ERR_OK) CHECK_STATUS(st, ERR_NOMEM);
        safetensors_close(s);
        assert_int_equal(mem_count().n_live, live);
        if (st == ERR_OK) break;
    }
}

TEST(the_stored_goldens_can_be_read)
{
    static const char *const names[] = {"mini-dense", "mini-dense-long", "mini-moe",
                                        "mini-moe-long"};
    if (!test_shared()) TEST_SKIP("no shared folder beside the checkout");
    for (int i = 0; i < 4; i++) {
        char path[4400];
        safetensors *s;
        err e;
        snprintf(path, sizeof path, "%s/goldens/%s.safetensors", test_shared(), names[i]);
        CHECK_OK(safetensors_open(&s, path, &e), &e);
        assert_true(safetensors_count(s) > 0);
        for (int j = 0; j < safetensors_count(s); j++) {
            const tensor *t;
            const char *name = safetensors_name(s, j, &t);
            assert_int_equal(t->type, DTYPE_F32);
            assert_ptr_equal(safetensors_find(s, name), t);
            float first;
            memcpy(&first, t->data, 4);
            assert_true(isfinite(first));
        }
        assert_true(
            safetensors_forget(s, safetensors_find(s, safetensors_name(s, 0, NULL))->data, 8));
        safetensors_close(s);
    }
}
