#include "token/bpe_priv.h"

#include "base/mem.h"
#include "token/byte_alphabet_priv.h"

/* A table entry is one number, left id | right id | rank, so that the table of a vocabulary of
 * 150,000 takes 2 MB and mostly stays in the processor's cache. */
enum { ID_BITS = 22, RANK_BITS = 20, MERGES_CAP = (1 << RANK_BITS) - 1 };
_Static_assert(VOCAB_CAP <= 1 << ID_BITS, "an id fits");
#define NO_MERGE ((uint32_t)MERGES_CAP)
#define EMPTY UINT64_MAX

/* Words up to this many bytes are merged by scanning for the least rank, longer ones by a heap:
 * scanning is quadratic, but a heap costs more than it saves on short ones. */
enum { SHORT = 64 };

struct bpe {
    const vocab *v;
    bool keeps_pieces;
    int32_t byte_id[256]; /* -1: no such token */
    int32_t *merged;      /* [n_merges] what a merge of this rank gives */
    uint64_t *table;      /* open addressing, EMPTY or an entry */
    int shift;            /* of the hash, to a slot */
    uint64_t mask;        /* slots - 1 */
};

static inline uint64_t pair_key(int32_t left, int32_t right)
{
    return ((uint64_t)(uint32_t)left << ID_BITS | (uint32_t)right) << RANK_BITS;
}

static inline uint64_t first_slot(const bpe *b, uint64_t key)
{
    key *= 0x9e3779b97f4a7c15u;
    key = (key ^ key >> 32) * 0xd6e8feb86659fd93u;
    return key >> b->shift;
}

/* The slot that holds this pair, or the empty one where it belongs. */
static inline uint64_t find_slot(const bpe *b, uint64_t key)
{
    uint64_t slot = first_slot(b, key);
    while (b->table[slot] != EMPTY && (b->table[slot] & ~(uint64_t)MERGES_CAP) != key)
        slot = (slot + 1) & b->mask;
    return slot;
}

static inline uint32_t find_rank(const bpe *b, int32_t left, int32_t right)
{
    return (uint32_t)(b->table[find_slot(b, pair_key(left, right))] & MERGES_CAP);
}

/* Which of the two pieces of a merge is missing, or what else is wrong with it. */
static status fail_merge(const bpe_merge *m, int rank, const char *what, const char *name, err *e)
{
    str l = m->left.len < 40 ? m->left : str_slice(m->left, 0, 40);
    str r = m->right.len < 40 ? m->right : str_slice(m->right, 0, 40);
    return err_set(e, ERR_FORMAT, name, -1, "merge %d (\"%.*s\" \"%.*s\"): %s", rank, STR_ARG(l),
                   STR_ARG(r), what);
}

static status add_merges(bpe *b, const bpe_merge *merges, int n, char *joined, const char *name,
                         err *e)
{
    int32_t last = -1;
    for (int rank = 0; rank < n; rank++) {
        const bpe_merge *m = &merges[rank];
        size_t n_left, n_right;
        if (m->left.len == 0 || m->right.len == 0)
            return fail_merge(m, rank, "an empty piece", name, e);
        if (!byte_alphabet_decode(m->left, joined, &n_left) ||
            !byte_alphabet_decode(m->right, joined + n_left, &n_right))
            return fail_merge(m, rank, "a character outside the byte alphabet", name, e);
        int32_t left = vocab_find(b->v, (str){joined, n_left});
        int32_t right = vocab_find(b->v, (str){joined + n_left, n_right});
        if (left < 0 || right < 0)
            return fail_merge(m, rank, "a piece that is not in the vocabulary", name, e);
        /* Most files number tokens in the order of their merges. */
        str whole = {joined, n_left + n_right};
        if (vocab_is_piece(b->v, last + 1) && str_equal(vocab_bytes(b->v, last + 1), whole))
            last++;
        else
            last = vocab_find(b->v, whole);
        if (last < 0) return fail_merge(m, rank, "the result is not in the vocabulary", name, e);
        uint64_t key = pair_key(left, right);
        b->table[find_slot(b, key)] = key | (uint32_t)rank;
        b->merged[rank] = last;
    }
    return ERR_OK;
}

/* Bytes that no well-formed UTF-8 contains may be missing. */
static status find_bytes(bpe *b, const char *name, err *e)
{
    for (int i = 0; i < 256; i++) {
        char c = (char)i;
        b->byte_id[i] = vocab_find(b->v, (str){&c, 1});
        bool is_in_text = i != 0xc0 && i != 0xc1 && i < 0xf5;
        if (b->byte_id[i] < 0 && is_in_text)
            return err_set(e, ERR_FORMAT, name, -1, "the vocabulary has no token for byte 0x%02x",
                           (unsigned)i);
    }
    return ERR_OK;
}

status bpe_open(bpe **out, const vocab *v, const bpe_merge *merges, int n, bool keeps_pieces,
                const char *name, err *e)
{
    if (n > MERGES_CAP)
        return err_set(e, ERR_UNSUPPORTED, name, -1, "%d merges, at most %d", n, MERGES_CAP);
    size_t longest = 0;
    for (int i = 0; i < n; i++)
        if (merges[i].left.len + merges[i].right.len > longest)
            longest = merges[i].left.len + merges[i].right.len;

    char *joined = NULL;
    int bits = 4;
    while ((int64_t)1 << bits < (int64_t)n + n / 2) bits++;
    bpe *b = mem_new(sizeof *b);
    status s = err_set(e, ERR_NOMEM, name, -1, "no memory for %d merges", n);
    if (!b) return s;
    b->v = v;
    b->keeps_pieces = keeps_pieces;
    b->shift = 64 - bits;
    b->mask = ((uint64_t)1 << bits) - 1;
    if (!(b->table = mem_new_array((size_t)1 << bits, sizeof *b->table))) goto fail;
    if (!(b->merged = mem_new_array((size_t)n, sizeof *b->merged))) goto fail;
    if (!(joined = mem_new(longest))) goto fail;
    memset(b->table, 0xff, ((size_t)1 << bits) * sizeof *b->table);
    s = find_bytes(b, name, e);
    if (s == ERR_OK) s = add_merges(b, merges, n, joined, name, e);
    if (s != ERR_OK) goto fail;
    mem_free(joined);
    *out = b;
    return ERR_OK;
fail:
    mem_free(joined);
    bpe_close(b);
    return s;
}

void bpe_close(bpe *b)
{
    if (!b) return;
    mem_free(b->table);
    mem_free(b->merged);
    mem_free(b);
}

void bpe_work_fini(bpe_work *w)
{
    mem_free(w->symbol);
    mem_free(w->next);
    mem_free(w->prev);
    mem_free(w->rank);
    mem_free(w->heap);
    *w = (bpe_work){0};
}

static bool reserve(bpe_work *w, int64_t n)
{
    if (n <= w->cap) return true;
    bpe_work_fini(w);
    if (!(w->symbol = mem_new_array((size_t)n, sizeof *w->symbol))) goto fail;
    if (!(w->next = mem_new_array((size_t)n, sizeof *w->next))) goto fail;
    if (!(w->prev = mem_new_array((size_t)n, sizeof *w->prev))) goto fail;
    if (!(w->rank = mem_new_array((size_t)n, sizeof *w->rank))) goto fail;
    if (!(w->heap = mem_new_array((size_t)n * 2, sizeof *w->heap))) goto fail;
    w->cap = n;
    return true;
fail:
    bpe_work_fini(w);
    return false;
}

static void sift_down(uint64_t *heap, int64_t n, int64_t at)
{
    uint64_t moving = heap[at];
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= moving) break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

static void heap_push(uint64_t *heap, int64_t *n, uint64_t value)
{
    int64_t at = (*n)++;
    for (; at > 0 && heap[(at - 1) / 2] > value; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = value;
}

static uint64_t heap_pop(uint64_t *heap, int64_t *n)
{
    uint64_t least = heap[0];
    heap[0] = heap[--*n];
    if (*n > 0) sift_down(heap, *n, 0);
    return least;
}

/* One token a byte, linked, and all mergeable neighbours in the heap; returns its size. */
static int64_t begin_long(const bpe *b, bpe_work *w, str word)
{
    int64_t n = (int64_t)word.len, n_heap = 0;
    for (int64_t i = 0; i < n; i++) {
        w->symbol[i] = b->byte_id[(unsigned char)word.ptr[i]];
        w->next[i] = (int32_t)i + 1;
        w->prev[i] = (int32_t)i - 1;
    }
    for (int64_t i = 0; i < n; i++) {
        w->rank[i] = i + 1 < n ? find_rank(b, w->symbol[i], w->symbol[i + 1]) : NO_MERGE;
        if (w->rank[i] != NO_MERGE) w->heap[n_heap++] = (uint64_t)w->rank[i] << 32 | (uint64_t)i;
    }
    for (int64_t i = n_heap / 2 - 1; i >= 0; i--) sift_down(w->heap, n_heap, i);
    return n_heap;
}

/* The token at `left` has a new neighbour after it: note the merge of the two. */
static void update_rank(const bpe *b, bpe_work *w, int64_t n, int32_t left, int64_t *n_heap)
{
    int32_t right = w->next[left];
    w->rank[left] = right < n ? find_rank(b, w->symbol[left], w->symbol[right]) : NO_MERGE;
    if (w->rank[left] != NO_MERGE)
        heap_push(w->heap, n_heap, (uint64_t)w->rank[left] << 32 | (uint32_t)left);
}

/* An entry of the heap is out of date when the rank at its position is another one by now. An
 * entry is pushed at most twice for each one popped with effect: 2 n entries are enough. */
static status encode_long(const bpe *b, bpe_work *w, str word, token_ids *out)
{
    int64_t n = (int64_t)word.len, n_tokens = n;
    if (!reserve(w, n)) return ERR_NOMEM;
    int64_t n_heap = begin_long(b, w, word);
    while (n_heap > 0) {
        uint64_t least = heap_pop(w->heap, &n_heap);
        int32_t at = (int32_t)(uint32_t)least;
        uint32_t rank = (uint32_t)(least >> 32);
        if (w->rank[at] != rank) continue;
        int32_t right = w->next[at];
        w->symbol[at] = b->merged[rank];
        w->symbol[right] = -1;
        w->rank[right] = NO_MERGE;
        w->next[at] = w->next[right];
        if (w->next[at] < n) w->prev[w->next[at]] = at;
        n_tokens--;
        update_rank(b, w, n, at, &n_heap);
        if (w->prev[at] >= 0) update_rank(b, w, n, w->prev[at], &n_heap);
    }
    if (!token_ids_reserve(out, n_tokens)) return ERR_NOMEM;
    for (int64_t i = 0; i < n; i = w->next[i]) out->ptr[out->n++] = w->symbol[i];
    return ERR_OK;
}

static status encode_short(const bpe *b, str word, token_ids *out)
{
    int32_t symbol[SHORT + 1];
    uint32_t rank[SHORT + 1];
    int n = (int)word.len;
    for (int i = 0; i < n; i++) symbol[i] = b->byte_id[(unsigned char)word.ptr[i]];
    for (int i = 0; i + 1 < n; i++) rank[i] = find_rank(b, symbol[i], symbol[i + 1]);
    rank[n - 1] = NO_MERGE;
    for (;;) {
        uint32_t least = NO_MERGE;
        int at = 0;
        for (int i = 0; i < n; i++) {
            if (rank[i] >= least) continue;
            least = rank[i];
            at = i;
        }
        if (least == NO_MERGE) break;
        symbol[at] = b->merged[least];
        n--;
        for (int i = at + 1; i < n; i++) {
            symbol[i] = symbol[i + 1];
            rank[i] = rank[i + 1];
        }
        rank[at] = at + 1 < n ? find_rank(b, symbol[at], symbol[at + 1]) : NO_MERGE;
        if (at > 0) rank[at - 1] = find_rank(b, symbol[at - 1], symbol[at]);
    }
    if (!token_ids_reserve(out, n)) return ERR_NOMEM;
    memcpy(out->ptr + out->n, symbol, (size_t)n * sizeof *symbol);
    out->n += n;
    return ERR_OK;
}

status bpe_encode(const bpe *b, bpe_work *w, str word, token_ids *out)
{
    if (b->keeps_pieces) {
        int32_t id = vocab_find(b->v, word);
        if (id >= 0) return token_ids_push(out, id) ? ERR_OK : ERR_NOMEM;
    }
    return word.len <= SHORT ? encode_short(b, word, out) : encode_long(b, w, word, out);
}
