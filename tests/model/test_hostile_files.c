/* tags: fast */
/* links: engine */
/* Hostile model files, as a user would open them: refused in words, without a crash, and with less
 * than 100 MB of memory. Each is opened in a process of its own, whose address space has that much
 * room and whose peak is read when it ends. */
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/engine_tokenizer.h"
#include "unit/load/fixture_checkpoint.h"
#include "unit/load/fixture_gguf_model.h"

enum { PEAK_KB_MOST = 100 * 1000, SECONDS_MOST = 60 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_SANITIZED = 1 }; /* takes terabytes of addresses, and memory of its own */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { IS_SANITIZED = 1 };
#else
enum { IS_SANITIZED = 0 };
#endif
#else
enum { IS_SANITIZED = 0 };
#endif

typedef struct {
    status s;
    err e;
} verdict;

static long most_kb;         /* of all files so far, to be shown */
static bool wants_tokenizer; /* the fixture's has only a few pieces and would be refused */

static void limit_memory(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld", &pages) != 1) pages = 0;
    if (f) fclose(f);
    if (pages == 0 || IS_SANITIZED) return;
    rlim_t most = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + PEAK_KB_MOST * 1000l;
    setrlimit(RLIMIT_AS, &(struct rlimit){most, most});
}

static verdict open_model(const char *path)
{
    verdict v = {0};
    load_model m;
    tokenizer *t = NULL;
    v.s = load_model_open(&m, path, &v.e);
    if (v.s != ERR_OK) return v;
    if (wants_tokenizer) v.s = engine_tokenizer_open(&t, &m, &v.e);
    tokenizer_close(t);
    load_model_close(&m);
    return v;
}

static verdict open_apart(const char *path)
{
    verdict v;
    int ends[2], how = 0;
    struct rusage use;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(SECONDS_MOST);
        limit_memory();
        v = open_model(path);
        _exit(write(ends[1], &v, sizeof v) == sizeof v ? 0 : 1);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], &v, sizeof v);
    close(ends[0]);
    assert_int_equal(wait4(child, &how, 0, &use), child);
    if (!WIFEXITED(how) || WEXITSTATUS(how) != 0 || n != sizeof v)
        fail_msg("%s: the process ended with status %d", path, how);
    if (!IS_SANITIZED && use.ru_maxrss >= PEAK_KB_MOST)
        fail_msg("%s: took %ld kB", path, use.ru_maxrss);
    if (use.ru_maxrss > most_kb) most_kb = use.ru_maxrss;
    return v;
}

static void check_refused(const char *path, status want, const char *words)
{
    verdict v = open_apart(path);
    if (v.s != want || !strstr(v.e.msg, words) || !v.e.where[0])
        fail_msg("%s: \"%s\", want %s \"%s\"", status_name(v.s), v.e.msg, status_name(want), words);
}

static void show_peak(const char *what)
{
    print_message("%s: at most %ld kB\n", what, most_kb);
}

/* ---- GGUF ---------------------------------------------------------------------------------------
 */

static char made_path[64];

static void open_made(void)
{
    snprintf(made_path, sizeof made_path, "/tmp/riptide-hostile-XXXXXX");
    int f = mkstemp(made_path);
    assert_true(f >= 0);
    close(f);
}

static void close_made(void)
{
    assert_int_equal(unlink(made_path), 0);
}

static void write_cut(const made_bytes *b, size_t n)
{
    FILE *f = fopen(made_path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b->ptr, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* Frees g. */
static void check_gguf(made_gguf *g, status want, const char *words)
{
    made_write(g, made_path);
    check_refused(made_path, want, words);
}

/* Take a key away, by another name; the rest of the file stays as it is. */
static made_gguf rename_key(made_gguf g, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 8; i + n < g.keys.len; i++) {
        uint64_t len;
        if (memcmp(g.keys.ptr + i, name, n) != 0) continue;
        memcpy(&len, g.keys.ptr + i - 8, 8);
        if (len != n) continue;
        g.keys.ptr[i] = '_';
        return g;
    }
    fail_msg("the fixture has no key %s", name);
    return g;
}

static made_gguf target_without(const char *name)
{
    return rename_key(model_target(false, true), name);
}

/* An info whose fields are whatever is said. */
static void put_info(made_gguf *g, uint64_t n_name, uint32_t n_dims, uint64_t dim, uint64_t offset)
{
    put_u64(&g->infos, n_name);
    put_bytes(&g->infos, "hostile.weight", 14);
    put_u32(&g->infos, n_dims);
    put_u64(&g->infos, dim);
    put_u32(&g->infos, 0);
    put_u64(&g->infos, offset);
    g->n_items++;
}

TEST(a_whole_file_opens)
{
    open_made();
    for (int i = 0; i < 2; i++) {
        made_gguf g = model_target(i == 1, true);
        made_write(&g, made_path);
        verdict v = open_apart(made_path);
        CHECK_OK(v.s, &v.e);
    }
    close_made();
}

TEST(a_gguf_with_hostile_sizes_is_refused)
{
    static const struct {
        uint64_t n_name;
        uint32_t n_dims;
        uint64_t dim, offset;
        const char *words;
    } rows[] = {
        {14, 1, (1ull << 42) + 1, 0, "past the end of the file"},
        {14, 1, UINT64_MAX, 0, "has a dimension of 0 or more than 2^63"},
        {14, 1, 1ull << 62, 0, "more than 2^63 bytes"},
        {14, 1000000, 8, 0, "has not 1 to 4 dimensions"},
        {14, UINT32_MAX, 8, 0, "has not 1 to 4 dimensions"},
        {14, 0, 8, 0, "has not 1 to 4 dimensions"},
        {14, 1, 0, 0, "has a dimension of 0"},
        {14, 1, 8, 1ull << 40, "past the end of the file"},
        {14, 1, 8, 1ull << 63, "offset"},
        {1u << 30, 1, 8, 0, "past the end of the file"},
        {UINT64_MAX, 1, 8, 0, "past the end of the file"},
        {0, 1, 8, 0, "name"},
    };
    open_made();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        made_gguf g = model_target(false, true);
        put_info(&g, rows[i].n_name, rows[i].n_dims, rows[i].dim, rows[i].offset);
        check_gguf(&g, ERR_FORMAT, rows[i].words);
    }
    made_gguf g = model_target(false, true);
    int64_t ne[] = {1ll << 42 | 1, 2};
    made_info(&g, "wide.weight", 2, ne, 0, 0);
    check_gguf(&g, ERR_FORMAT, "past the end of the file");
    g = model_target(false, true);
    model_ones(&g, "output_norm.weight", T_E);
    check_gguf(&g, ERR_FORMAT, "'output_norm.weight' stands twice");
    show_peak("sizes");
    close_made();
}

TEST(a_gguf_with_a_string_of_a_gigabyte_is_refused)
{
    open_made();
    for (int i = 0; i < 4; i++) {
        made_gguf g = i == 1 ? target_without("tokenizer.chat_template")
                             : model_target(false, true);
        uint64_t n = (1ull << 30) - (uint64_t)i;
        if (i < 2) {
            made_key(&g, i ? "tokenizer.chat_template" : "long", GGUF_STRING);
            put_u64(&g.keys, n);
        } else if (i == 2) { /* of a list */
            made_key(&g, "long", GGUF_ARRAY);
            put_u32(&g.keys, GGUF_STRING);
            put_u64(&g.keys, 2);
            put_u64(&g.keys, n);
        } else { /* the key itself */
            put_u64(&g.keys, n);
            g.n_keys++;
        }
        check_gguf(&g, ERR_FORMAT, "past the end of the file");
    }
    close_made();
}

/* Lists of the right length whose elements are of another type, and keys that are no lists. */
TEST(a_gguf_with_lists_of_another_type_is_refused)
{
    static const char *const keys[] = {"tokenizer.ggml.tokens", "tokenizer.ggml.token_type",
                                       "tokenizer.ggml.merges", "qwen35.rope.dimension_sections"};
    static const int counts[] = {T_V, T_V, 1, 4};
    static const gguf_type kinds[] = {GGUF_U8, GGUF_F32, GGUF_STRING, GGUF_F64, GGUF_I64};
    open_made();
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 5; k++) {
            bool wants_strings = i % 2 == 0 && i < 3;
            bool is_right = wants_strings ? kinds[k] == GGUF_STRING
                                          : kinds[k] == GGUF_I64 || kinds[k] == GGUF_U8;
            if (is_right) continue;
            made_gguf g = target_without(keys[i]);
            made_key(&g, keys[i], GGUF_ARRAY);
            put_u32(&g.keys, kinds[k]);
            put_u64(&g.keys, (uint64_t)counts[i]);
            for (int j = 0; j < counts[i]; j++) {
                static const uint8_t zeros[8];
                if (kinds[k] == GGUF_STRING)
                    put_text(&g.keys, "1");
                else
                    put_bytes(&g.keys, zeros, (size_t)gguf_type_bytes(kinds[k]));
            }
            check_gguf(&g, ERR_FORMAT, keys[i]);
        }
        made_gguf g = target_without(keys[i]);
        made_u32(&g, keys[i], 1);
        check_gguf(&g, ERR_FORMAT, keys[i]);
    }
    close_made();
}

TEST(a_gguf_with_hostile_values_is_refused)
{
    static const uint32_t alignments[] = {1u << 30, 1u << 31, 0, 48}, blocks[] = {513, 1u << 31, 0};
    made_gguf g;
    int32_t alignment = 32;
    open_made();
    for (int i = 0; i < 4; i++) {
        g = model_target(false, true);
        made_u32(&g, "general.alignment", alignments[i]);
        check_gguf(&g, ERR_FORMAT, "general.alignment");
    }
    g = model_target(false, true);
    made_key(&g, "general.alignment", GGUF_I32);
    put_bytes(&g.keys, &alignment, 4);
    check_gguf(&g, ERR_FORMAT, "general.alignment");
    for (int i = 0; i < 3; i++) {
        g = target_without("qwen35.block_count");
        made_u32(&g, "qwen35.block_count", blocks[i]);
        check_gguf(&g, ERR_FORMAT, "qwen35.block_count");
    }
    close_made();
}

/* Bytes in other tokenizers' spelling, ill-formed: of their own type they are refused; as plain
 * pieces they are letters like any others, and what is missed is the first byte itself. */
TEST(byte_tokens_with_bad_numbers_are_refused_or_letters)
{
    static const char *const spellings[] = {"<0x-1>", "<0xZZ>", "<0x>", "<0x1FF>"};
    open_made();
    wants_tokenizer = true;
    for (int i = 0; i < 8; i++) {
        bool is_byte = i % 2;
        made_gguf g = target_without("tokenizer.ggml.tokens");
        const char *list[T_V];
        int32_t kinds[T_V];
        for (int k = 0; k < T_V; k++) {
            list[k] = "pad";
            kinds[k] = 5;
        }
        list[0] = "a", list[1] = "b", list[2] = "ab", list[5] = spellings[i / 2];
        kinds[0] = kinds[1] = kinds[2] = 1;
        kinds[5] = is_byte ? 6 : 1;
        g = rename_key(g, "tokenizer.ggml.token_type");
        made_strs(&g, "tokenizer.ggml.tokens", list, T_V);
        made_ints(&g, "tokenizer.ggml.token_type", kinds, T_V);
        check_gguf(&g, is_byte ? ERR_UNSUPPORTED : ERR_FORMAT,
                   is_byte ? "token 5 is of type 6" : "no token for byte 0x00");
    }
    wants_tokenizer = false;
    close_made();
}

TEST(a_gguf_cut_at_every_kilobyte_is_refused)
{
    open_made();
    for (int i = 0; i < 2; i++) {
        made_gguf g = i ? model_draft(true, true) : model_target(false, true);
        made_bytes b = made_end(&g);
        assert_true(b.len > 32 * 1024);
        for (size_t cut = 1024; cut < b.len; cut += 1024) {
            write_cut(&b, cut);
            check_refused(made_path, ERR_FORMAT, "is it cut?");
        }
        free(b.ptr);
    }
    show_peak("cut");
    close_made();
}

/* As much as the caps allow: each key and tensor that a head may claim, all of them there. */
TEST(a_gguf_of_many_keys_and_tensors_stays_small)
{
    enum { N = GGUF_TENSORS_MOST, N_KEYS = GGUF_KEYS_MOST - 100 };
    open_made();
    made_gguf g = model_target(false, true);
    char name[32];
    for (int i = 0; i < N_KEYS; i++) {
        snprintf(name, sizeof name, "k%d", i);
        made_u32(&g, name, 1);
    }
    for (int i = (int)g.n_items; i < N; i++) {
        int64_t one = 8;
        snprintf(name, sizeof name, "t%d", i);
        made_tensor(&g, name, 1, &one, 0, name, 32);
    }
    made_write(&g, made_path);
    verdict v = open_apart(made_path);
    CHECK_OK(v.s, &v.e);
    g = model_target(false, true);
    g.n_items += N;
    check_gguf(&g, ERR_FORMAT, "the head claims");
    show_peak("many");
    close_made();
}

/* ---- safetensors ------------------------------------------------------------------------------
 */

/* A target's folder whose only file of weights is this header and so many bytes of data. */
static void check_header(fixture *f, uint64_t n_claimed, const char *header, size_t n_data,
                         const char *words)
{
    size_t n = strlen(header), n_file = 8 + n + n_data;
    uint8_t *bytes = calloc(1, n_file);
    assert_non_null(bytes);
    if (n_claimed == 0) n_claimed = n;
    memcpy(bytes, &n_claimed, 8);
    memcpy(bytes + 8, header, n);
    fixture_bytes(f, "model.safetensors", bytes, n_file);
    free(bytes);
    check_refused(f->dir, ERR_FORMAT, words);
}

static void open_target(fixture *f)
{
    fixture_spec s = {.is_mlx = true};
    fixture_init(f);
    fixture_target(f, &s);
}

#define BODY(type, shape, offsets) \
    "{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

TEST(a_safetensors_file_with_a_hostile_header_is_refused)
{
    static const struct {
        uint64_t n_claimed;
        const char *header;
        size_t n_data;
        const char *words;
    } rows[] = {
        {1ull << 63, "{}", 0, "over the limit"},
        {UINT64_MAX, "{}", 0, "over the limit"},
        {100000001, "{}", 0, "over the limit"},
        {99999999, "{}", 0, "is it truncated?"},
        {0, "{\"a\":" BODY("F32", "[2]", "[0,8]") ",\"b\":" BODY("F32", "[2]", "[4,12]") "}", 12,
         "overlaps"},
        {0, "{\"a\":" BODY("F32", "[2]", "[0,8]") ",\"b\":" BODY("F32", "[2]", "[0,8]") "}", 8,
         "overlaps"},
        {0, "{\"a\":" BODY("F32", "[1]", "[0,4]") ",\"a\":" BODY("F32", "[1]", "[4,8]") "}", 8,
         "stands twice"},
        {0, "{\"a\":" BODY("F32", "[1]", "[4,8]") "}", 8, "leaves a gap"},
        {0, "{\"a\":" BODY("F32", "[1]", "[0,4]") "}", 8, "belong to none"},
        {0, "{\"a\":" BODY("F7", "[1]", "[0,4]") "}", 4, "is not known"},
        {0, "{\"a\":" BODY("", "[1]", "[0,4]") "}", 4, "is not known"},
        {0, "{\"a\":" BODY("F32", "[2]", "[0,4]") "}", 4, "need 8"},
        {0, "{\"a\":" BODY("F32", "[1]", "[4,0]") "}", 4, "run backwards"},
        {0, "{\"a\":" BODY("F32", "[4611686018427387904,4]", "[0,4]") "}", 4, "more than 2^63"},
        {0, "{\"a\":" BODY("F32", "[9223372036854775807]", "[0,4]") "}", 4, "more than 2^63"},
        {0, "{\"a\":" BODY("F32", "[18446744073709551616]", "[0,4]") "}", 4, "a whole number"},
        {0, "{\"a\":" BODY("F32", "[-1]", "[0,4]") "}", 4, "a whole number"},
        {0, "{\"a\":" BODY("F32", "[1]", "[0,9223372036854775807]") "}", 4, "hold"},
        {0, "{\"a\":[[[[[[", 4, "wants"},
        {0, "", 4, "wants"},
    };
    fixture f;
    open_target(&f);
    most_kb = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_header(&f, rows[i].n_claimed, rows[i].header, rows[i].n_data, rows[i].words);
    show_peak("headers");
    fixture_fini(&f);
}

TEST(a_safetensors_file_cut_at_every_kilobyte_is_refused)
{
    fixture f;
    open_target(&f);
    fixture_write(&f);
    const char *path = fixture_path(&f, "model.safetensors");
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    for (off_t cut = (st.st_size - 1) / 1024 * 1024; cut > 0; cut -= cut > 65536 ? 8192 : 1024) {
        char whole[64];
        snprintf(whole, sizeof whole, "%s", path);
        assert_int_equal(truncate(whole, cut), 0);
        check_refused(f.dir, ERR_FORMAT, "truncated?");
    }
    show_peak("cut");
    fixture_fini(&f);
}

/* As many empty tensors as the caps allow, and one more. */
TEST(a_safetensors_file_of_many_tensors_stays_small)
{
    enum { N = 1 << 17 };
    fixture f;
    char *text = malloc(80 * (size_t)(N + 2)), *at;
    assert_non_null(text);
    open_target(&f);
    for (int extra = 0; extra < 2; extra++) {
        at = text;
        *at++ = '{';
        for (int i = 0; i < N + extra; i++)
            at += sprintf(at, "%s\"t%d\":" BODY("U8", "[0]", "[0,0]"), i ? "," : "", i);
        memcpy(at, "}", 2);
        check_header(&f, 0, text, 0, extra ? "more than 131072 tensors" : "is missing");
    }
    free(text);
    show_peak("many");
    fixture_fini(&f);
}

TEST(a_hostile_index_is_refused)
{
    enum { N = 15 << 20 };
    fixture f;
    char *text = malloc(N + 64);
    assert_non_null(text);
    open_target(&f);
    fixture_write(&f);
    /* Small values make many nodes. */
    size_t n = (size_t)sprintf(text, "{\"weight_map\":{\"a\":[0");
    while (n < N) n += (size_t)sprintf(text + n, ",0");
    sprintf(text + n, "]}}");
    fixture_text(&f, "model.safetensors.index.json", text);
    verdict v = open_apart(f.dir);
    assert_true(v.s != ERR_OK && v.e.msg[0]);
    fixture_text(&f, "model.safetensors.index.json",
                 "{\"weight_map\":{\"a\":\"../../etc/passwd\"}}");
    check_refused(f.dir, ERR_FORMAT, "not the name of a shard");
    free(text);
    show_peak("index");
    fixture_fini(&f);
}
