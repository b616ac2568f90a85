#include <sys/resource.h>

#include "base/mem.h"
#include "fixture_gguf.h"
#include "support/guard.h"

/* Refused with these words, nothing left behind, no byte read past the end. */
static void check_bytes(made_bytes b, status want, const char *words)
{
    gguf *g = NULL;
    err e = {0};
    int64_t live = mem_count().n_live;
    uint8_t *bytes = guard_copy(b.ptr, b.len);
    status s = gguf_open_bytes(&g, bytes, (int64_t)b.len, "f.gguf", &e);
    if (s != want || !strstr(e.msg, words) || strcmp(e.where, "f.gguf") != 0)
        fail_msg("%s: \"%s\", want %s \"%s\"", status_name(s), e.msg, status_name(want), words);
    assert_null(g);
    assert_true(e.pos <= (long)b.len);
    assert_int_equal(mem_count().n_live, live);
    guard_free(bytes, b.len);
    free(b.ptr);
}

static void check_fails(made_gguf *g, const char *words)
{
    check_bytes(made_end(g), ERR_FORMAT, words);
}

static const int64_t ONE[] = {8};

TEST(another_magic_version_or_byte_order_is_refused)
{
    made_bytes b = {0};
    put_bytes(&b, "GGML0000000000000000000000", 24);
    check_bytes(b, ERR_FORMAT, "does not begin with 'GGUF'");
    check_bytes((made_bytes){0}, ERR_FORMAT, "does not begin with 'GGUF'");
    made_gguf g = made_new();
    g.version = 1;
    check_bytes(made_end(&g), ERR_UNSUPPORTED, "GGUF version 1");
    g.version = 4;
    check_bytes(made_end(&g), ERR_UNSUPPORTED, "GGUF version 4");
    g.version = 3u << 24;
    check_bytes(made_end(&g), ERR_UNSUPPORTED, "big-endian");
}

TEST(hostile_counts_are_refused_before_memory_is_taken)
{
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    static const uint64_t counts[] = {UINT64_MAX, 1ull << 63, 1ull << 32, (1 << 17) + 1, 1 << 17};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        made_gguf g = made_new();
        g.n_items = counts[i];
        check_fails(&g, "the head claims");
        g.n_keys = counts[i];
        check_fails(&g, "the head claims");
        made_key(&g, "k", GGUF_STRING);
        put_u64(&g.keys, counts[i]);
        check_fails(&g, "key 'k' runs past the end");
        made_key(&g, "k", GGUF_ARRAY);
        put_u32(&g.keys, GGUF_F64);
        put_u64(&g.keys, counts[i]);
        check_fails(&g, "key 'k' runs past the end");
        made_key(&g, "k", GGUF_ARRAY);
        put_u32(&g.keys, GGUF_STRING);
        put_u64(&g.keys, counts[i]);
        check_fails(&g, "key 'k' runs past the end");
        put_u64(&g.keys, counts[i]); /* a key whose name is that long */
        g.n_keys = 1;
        put_bytes(&g.keys, "0123456789", 10);
        check_fails(&g, "key 0 runs past the end");
    }
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_maxrss - before.ru_maxrss < 8192);
}

TEST(each_bad_key_is_named_with_its_reason)
{
    made_gguf g = made_new();
    made_key(&g, "a.b", 13);
    check_fails(&g, "key 'a.b' has a type that is not known");
    made_key(&g, "a.b", GGUF_ARRAY);
    put_u32(&g.keys, GGUF_ARRAY);
    put_u64(&g.keys, 0);
    check_fails(&g, "key 'a.b' is an array of arrays");
    made_key(&g, "a.b", GGUF_ARRAY);
    put_u32(&g.keys, 99);
    put_u64(&g.keys, 0);
    check_fails(&g, "key 'a.b' has a type that is not known");
    made_bool(&g, "flag", 2);
    check_fails(&g, "key 'flag' is neither true nor false");
    made_u32(&g, "", 1);
    check_fails(&g, "key 0 has a name that is empty");
    made_u32(&g, "a\nb", 1);
    check_fails(&g, "control character");
    made_u32(&g, "twice", 1);
    made_u32(&g, "twice", 1);
    check_fails(&g, "key 'twice' stands twice");
    static const uint32_t alignments[] = {0, 3, 48, 1 << 21};
    for (int i = 0; i < 4; i++) {
        made_u32(&g, "general.alignment", alignments[i]);
        check_fails(&g, "key 'general.alignment' is not a u32 that is a power of two");
    }
    made_f32(&g, "general.alignment", 32);
    check_fails(&g, "key 'general.alignment' is not a u32");
}

TEST(each_bad_tensor_is_named_with_its_reason)
{
    static const int64_t zero[] = {0}, minus[] = {-1}, huge[] = {1ll << 40, 1ll << 40};
    static const int64_t wide[] = {1ll << 62}, odd[] = {33}, five[] = {1, 1, 1, 1, 1};
    made_gguf g = made_new();
    made_info(&g, "w", 1, zero, 0, 0);
    check_fails(&g, "tensor 'w' has a dimension of 0");
    made_info(&g, "w", 1, minus, 0, 0);
    check_fails(&g, "tensor 'w' has a dimension of 0 or more");
    made_info(&g, "w", 0, zero, 0, 0);
    check_fails(&g, "tensor 'w' has not 1 to 4 dimensions");
    made_info(&g, "w", 5, five, 0, 0);
    check_fails(&g, "tensor 'w' has not 1 to 4 dimensions");
    made_info(&g, "w", 2, huge, 0, 0);
    check_fails(&g, "tensor 'w' has more than 2^63 elements");
    made_info(&g, "w", 1, wide, 0, 0);
    check_fails(&g, "tensor 'w' has more than 2^63 bytes");
    made_info(&g, "w", 1, odd, 2, 0);
    check_fails(&g, "tensor 'w' has rows that are no whole blocks");
    made_info(&g, "w", 1, ONE, 0, 8);
    check_fails(&g, "tensor 'w' has an offset that is not aligned");
    made_info(&g, "w", 1, ONE, 0, 1ull << 63);
    check_fails(&g, "tensor 'w' has an offset that is not aligned");
    made_info(&g, "w", 1, ONE, 0, 0);
    check_fails(&g, "tensor 'w' lies past the end");
    made_info(&g, "w", 1, ONE, 0, 0);
    put_bytes(&g.data, "0123456789012345678901234567890", 31);
    check_fails(&g, "tensor 'w' lies past the end");
    made_tensor(&g, "a", 1, ONE, 0, "01234567890123456789012345678901", 32);
    made_info(&g, "b", 1, ONE, 1, 0);
    check_fails(&g, "overlaps tensor");
    made_tensor(&g, "a", 1, ONE, 0, "01234567890123456789012345678901", 32);
    made_tensor(&g, "a", 1, ONE, 0, "01234567890123456789012345678901", 32);
    check_fails(&g, "tensor 'a' stands twice");
}

TEST(a_file_cut_at_any_byte_is_refused)
{
    static const char *const list[] = {"x", "yy", ""};
    made_gguf g = made_new();
    made_u32(&g, "a", 1);
    made_strs(&g, "list", list, 3);
    made_str(&g, "text", "abc");
    made_tensor(&g, "w", 1, ONE, 0, "01234567890123456789012345678901", 32);
    made_bytes b = made_end(&g);
    for (size_t cut = 0; cut < b.len; cut++) {
        made_bytes part = {malloc(cut + 1), cut, cut};
        memcpy(part.ptr, b.ptr, cut);
        check_bytes(part, ERR_FORMAT, cut < 4 ? "GGUF" : "is it cut?");
    }
    free(b.ptr);
}

TEST(type_numbers_lead_there_and_back)
{
    for (int t = DTYPE_Q4_0; t < DTYPE_COUNT; t++) {
        int id = gguf_type_id((dtype)t);
        assert_true(id >= 0 && gguf_dtype((uint32_t)id) == (dtype)t);
    }
    assert_int_equal(gguf_type_id(DTYPE_AFFINE), -1);
    assert_int_equal(gguf_dtype(142), DTYPE_NONE);
    assert_int_equal(gguf_dtype(4), DTYPE_NONE); /* Q4_2, gone */
    assert_string_equal(gguf_type_name(GGUF_STRING), "string");
    assert_string_equal(gguf_type_name((gguf_type)40), "no type");
    assert_int_equal(gguf_type_bytes((gguf_type)40), 0);
}
