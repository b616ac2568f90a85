#include "base/clock.h"
#include "base/mem.h"
#include "fixture_tokenizer.h"
#include "token/bpe_priv.h"

enum { MERGES_MOST = 400, IDS_MOST = 256 + MERGES_MOST };

/* The bytes, and random merges of what there is. */
typedef struct {
    arena a;
    str texts[IDS_MOST]; /* spelled in the alphabet */
    str bytes[IDS_MOST];
    uint8_t flags[IDS_MOST];
    int n_ids;
    bpe_merge merges[MERGES_MOST];
    int left[MERGES_MOST], right[MERGES_MOST], result[MERGES_MOST];
    int n_merges;
    vocab *v;
    bpe *b;
} world;

static int add_piece(world *w, str bytes)
{
    for (int i = 0; i < w->n_ids; i++)
        if (str_equal(w->bytes[i], bytes)) return i;
    buf spelled;
    buf_init(&spelled);
    fixture_spell(&spelled, bytes);
    w->bytes[w->n_ids] = (str){arena_copy(&w->a, bytes.ptr, bytes.len), bytes.len};
    w->texts[w->n_ids] = (str){arena_copy(&w->a, spelled.ptr, spelled.len), spelled.len};
    w->flags[w->n_ids] = VOCAB_MODEL;
    buf_fini(&spelled);
    return w->n_ids++;
}

static void add_merge(world *w, int left, int right)
{
    buf joined;
    buf_init(&joined);
    buf_put_str(&joined, w->bytes[left]);
    buf_put_str(&joined, w->bytes[right]);
    int i = w->n_merges++;
    w->left[i] = left;
    w->right[i] = right;
    w->result[i] = add_piece(w, buf_str(&joined));
    w->merges[i] = (bpe_merge){w->texts[left], w->texts[right]};
    buf_fini(&joined);
}

static void begin_world(world *w)
{
    memset(w, 0, sizeof *w);
    arena_init(&w->a, 0);
    for (int i = 0; i < 256; i++) {
        char byte = (char)i;
        add_piece(w, (str){&byte, 1});
    }
}

static void open_world(world *w, bool keeps_pieces)
{
    err e;
    CHECK_OK(vocab_open(&w->v, w->texts, w->flags, w->n_ids, "test", &e), &e);
    CHECK_OK(bpe_open(&w->b, w->v, w->merges, w->n_merges, keeps_pieces, "test", &e), &e);
}

static void end_world(world *w)
{
    bpe_close(w->b);
    vocab_close(w->v);
    arena_fini(&w->a);
}

/* The definition: of all pairs that have a merge take the best, the leftmost of those; the last
 * of equal merges counts. */
static int merge_slowly(const world *w, str word, int32_t *ids)
{
    int n = 0;
    for (size_t i = 0; i < word.len; i++) ids[n++] = (unsigned char)word.ptr[i];
    for (;;) {
        int best = INT32_MAX, at = -1;
        for (int i = 0; i + 1 < n; i++) {
            for (int m = w->n_merges - 1; m >= 0; m--) {
                if (w->left[m] != ids[i] || w->right[m] != ids[i + 1]) continue;
                if (m < best) {
                    best = m;
                    at = i;
                }
                break;
            }
        }
        if (at < 0) return n;
        ids[at] = w->result[best];
        memmove(ids + at + 1, ids + at + 2, (size_t)(n - at - 2) * sizeof *ids);
        n--;
    }
}

static void check_word(const world *w, bpe_work *work, str word)
{
    static int32_t want[4096];
    token_ids ids = {0};
    int n = merge_slowly(w, word, want);
    CHECK_STATUS(bpe_encode(w->b, work, word, &ids), ERR_OK);
    assert_int_equal(ids.n, n);
    assert_memory_equal(ids.ptr, want, (size_t)n * sizeof *want);
    token_ids_fini(&ids);
}

/* Random merges over few letters, short words and long ones: both ways of merging. */
TEST(ids_are_those_of_the_definition)
{
    uint64_t seed = test_seed();
    static world w;
    for (int round = 0; round < 12; round++) {
        bpe_work work = {0};
        int n_letters = 1 + (int)(test_random(&seed) % 4);
        begin_world(&w);
        for (int i = 0; i < 60; i++) {
            int pick[2];
            for (int k = 0; k < 2; k++) {
                int n = n_letters + w.n_ids - 256, x = (int)(test_random(&seed) % (uint64_t)n);
                pick[k] = x < n_letters ? 'a' + x : 256 + x - n_letters;
            }
            if (w.bytes[pick[0]].len + w.bytes[pick[1]].len < 30) add_merge(&w, pick[0], pick[1]);
        }
        open_world(&w, false);
        for (int i = 0; i < 60; i++) {
            char word[300];
            size_t n = 1 + test_random(&seed) % (i % 3 ? 70 : sizeof word);
            for (size_t k = 0; k < n; k++)
                word[k] = (char)('a' + test_random(&seed) % (uint64_t)n_letters);
            check_word(&w, &work, (str){word, n});
        }
        bpe_work_fini(&work);
        end_world(&w);
    }
}

TEST(of_a_repeated_merge_the_last_rank_counts)
{
    static world w;
    bpe_work work = {0};
    token_ids ids = {0};
    begin_world(&w);
    add_merge(&w, 'a', 'b');
    add_merge(&w, 'b', 'c');
    add_merge(&w, 'a', 'b');
    open_world(&w, false);
    CHECK_STATUS(bpe_encode(w.b, &work, STR("abc"), &ids), ERR_OK);
    assert_int_equal(ids.n, 2);
    assert_int_equal(ids.ptr[0], 'a');
    assert_int_equal(ids.ptr[1], w.result[1]);
    token_ids_fini(&ids);
    end_world(&w);
}

TEST(a_word_that_is_a_piece_is_kept_when_asked)
{
    static world w;
    bpe_work work = {0};
    token_ids ids = {0};
    begin_world(&w);
    add_merge(&w, 'b', 'c');
    int whole = add_piece(&w, STR("abc"));
    open_world(&w, true);
    CHECK_STATUS(bpe_encode(w.b, &work, STR("abc"), &ids), ERR_OK);
    CHECK_STATUS(bpe_encode(w.b, &work, STR("abcd"), &ids), ERR_OK);
    assert_int_equal(ids.n, 4);
    assert_int_equal(ids.ptr[0], whole);
    assert_int_equal(ids.ptr[2], w.result[0]);
    token_ids_fini(&ids);
    end_world(&w);
}

TEST(a_merge_that_names_no_piece_is_refused_with_its_place)
{
    static const struct {
        str left, right;
        const char *words;
    } cases[] = {
        {STR("a"), STR("zz"), "merge 1 (\"a\" \"zz\"): a piece that is not in the vocabulary"},
        {STR("b"), STR("c"), "merge 1 (\"b\" \"c\"): the result is not in the vocabulary"},
        {STR(""), STR("c"), "merge 1 (\"\" \"c\"): an empty piece"},
        {STR("a"), STR(" "), "merge 1 (\"a\" \" \"): a character outside the byte alphabet"},
    };
    static world w;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        err e;
        begin_world(&w);
        add_merge(&w, 'a', 'b');
        w.merges[w.n_merges++] = (bpe_merge){cases[i].left, cases[i].right};
        CHECK_OK(vocab_open(&w.v, w.texts, w.flags, w.n_ids, "test", &e), &e);
        CHECK_STATUS(bpe_open(&w.b, w.v, w.merges, w.n_merges, false, "test", &e), ERR_FORMAT);
        assert_string_equal(e.msg, cases[i].words);
        end_world(&w);
    }
}

TEST(a_byte_of_text_without_a_token_is_refused_one_that_text_never_has_is_not)
{
    static world w;
    err e;
    begin_world(&w);
    w.flags[0xc0] = w.flags[0xc1] = w.flags[0xf5] = w.flags[0xff] = 0;
    open_world(&w, false);
    bpe_close(w.b);
    vocab_close(w.v);
    w.flags[0x41] = 0;
    CHECK_OK(vocab_open(&w.v, w.texts, w.flags, w.n_ids, "test", &e), &e);
    CHECK_STATUS(bpe_open(&w.b, w.v, w.merges, 0, false, "test", &e), ERR_FORMAT);
    assert_string_equal(e.msg, "the vocabulary has no token for byte 0x41");
    w.b = NULL;
    end_world(&w);
}

/* A megabyte of one word: minutes where merging is quadratic. */
TEST(a_huge_word_takes_no_time)
{
    enum { N = 1000000 };
    static world w;
    static char word[N];
    bpe_work work = {0};
    token_ids ids = {0};
    begin_world(&w);
    add_merge(&w, 'a', 'a');
    add_merge(&w, 'a', 'b');
    add_merge(&w, w.result[0], w.result[0]);
    add_merge(&w, w.result[2], w.result[1]);
    open_world(&w, false);
    for (int i = 0; i < N; i++) word[i] = i % 11 == 10 ? 'b' : 'a';
    int64_t start = clock_ns();
    CHECK_STATUS(bpe_encode(w.b, &work, (str){word, N}, &ids), ERR_OK);
    assert_true(clock_ms_since(start) < 20000);
    assert_true(ids.n > N / 6 && ids.n < N / 2);
    size_t n = 0;
    for (int i = 0; i < ids.n; i++) n += vocab_bytes(w.v, ids.ptr[i]).len;
    assert_int_equal(n, N);
    token_ids_fini(&ids);
    bpe_work_fini(&work);
    end_world(&w);
}

/* Leaves nothing behind when it fails. */
static status encode_once(const world *w, str word, bpe_work *work, token_ids *ids)
{
    status s = bpe_encode(w->b, work, word, ids);
    if (s == ERR_OK) return s;
    bpe_work_fini(work);
    token_ids_fini(ids);
    return s;
}

TEST(opening_and_merging_survive_every_failed_allocation)
{
    static world w;
    err e;
    begin_world(&w);
    for (int i = 0; i < 5; i++) add_merge(&w, 'a', 'a' + i);
    CHECK_OK(vocab_open(&w.v, w.texts, w.flags, w.n_ids, "test", &e), &e);
    FIXTURE_STAIRCASE(bpe_open(&w.b, w.v, w.merges, w.n_merges, false, "test", &e), &e,
                      bpe_close(w.b));
    w.b = NULL;
    CHECK_OK(bpe_open(&w.b, w.v, w.merges, w.n_merges, false, "test", &e), &e);
    char word[100];
    memset(word, 'a', sizeof word);
    bpe_work work = {0};
    token_ids ids = {0};
    FIXTURE_STAIRCASE(encode_once(&w, (str){word, sizeof word}, &work, &ids), &e,
                      (bpe_work_fini(&work), token_ids_fini(&ids)));
    end_world(&w);
}
