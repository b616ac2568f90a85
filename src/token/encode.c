#include "token/encode_priv.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "token/nfc_priv.h"
#include "token/tokenizer_priv.h"
#include "token/utf8_repair_priv.h"
#include "token/word_cache_priv.h"

/* Buffers above this are given back after a call, so that one huge text is not paid for ever. */
enum { KEEP_BYTES = 4 << 20 };

typedef struct {
    size_t begin, end;
} span;

typedef struct {
    span *ptr;
    int64_t n, cap;
} span_list;

struct encode_work {
    encode_work *next; /* in the pool */
    const tokenizer *t;
    buf text;                /* the segments joined and repaired */
    buf normal;              /* a piece of it, normalised */
    buf spaced;              /* a piece of it behind a space */
    span_list marked;        /* where in `text` added tokens are recognised */
    span_list marked_normal; /* where in the normalised piece */
    nfc_work nfc;
    bpe_work bpe;
    word_cache cache;
    split_regex_work *regex; /* NULL when no stage needs it */
    token_ids *ids;          /* of the call at hand, as are the rest */
    int64_t most;            /* ids->n may not pass this */
    err *e;
};

/* Protects the list of idle working sets. */
struct encode_pool {
    mutex lock;
    encode_work *idle;
};

status encode_pool_open(encode_pool **out, err *e)
{
    encode_pool *p = mem_new(sizeof *p);
    if (!p) return err_set(e, ERR_NOMEM, "tokenizer", -1, "no memory for a pool");
    mutex_init(&p->lock);
    *out = p;
    return ERR_OK;
}

void encode_pool_close(encode_pool *p)
{
    if (!p) return;
    for (encode_work *w; (w = encode_pool_take(p));) encode_work_close(w);
    mutex_fini(&p->lock);
    mem_free(p);
}

encode_work *encode_pool_take(encode_pool *p)
{
    mutex_lock(&p->lock);
    encode_work *w = p->idle;
    if (w) p->idle = w->next;
    mutex_unlock(&p->lock);
    return w;
}

void encode_pool_give(encode_pool *p, encode_work *w)
{
    mutex_lock(&p->lock);
    w->next = p->idle;
    p->idle = w;
    mutex_unlock(&p->lock);
}

status encode_work_open(encode_work **out, const tokenizer *t, err *e)
{
    encode_work *w = mem_new(sizeof *w);
    status s = err_set(e, ERR_NOMEM, "tokenizer", -1, "no memory for a working set");
    if (!w) return s;
    w->t = t;
    w->cache.slots = mem_new_aligned(sizeof(word_cache_slot) << WORD_CACHE_BITS, 64);
    if (!w->cache.slots) goto fail;
    if (t->has_regex) {
        s = split_regex_work_open(&w->regex, e);
        if (s != ERR_OK) goto fail;
    }
    *out = w;
    return ERR_OK;
fail:
    encode_work_close(w);
    return s;
}

void encode_work_close(encode_work *w)
{
    if (!w) return;
    buf_fini(&w->text);
    buf_fini(&w->normal);
    buf_fini(&w->spaced);
    mem_free(w->marked.ptr);
    mem_free(w->marked_normal.ptr);
    nfc_work_fini(&w->nfc);
    bpe_work_fini(&w->bpe);
    mem_free(w->cache.slots);
    split_regex_work_close(w->regex);
    mem_free(w);
}

static void trim_buf(buf *b)
{
    if (b->cap > KEEP_BYTES)
        buf_fini(b);
    else
        buf_clear(b);
}

static void trim_work(encode_work *w)
{
    trim_buf(&w->text);
    trim_buf(&w->normal);
    trim_buf(&w->spaced);
    if (w->bpe.cap * (int64_t)sizeof(uint64_t) > KEEP_BYTES) bpe_work_fini(&w->bpe);
    if (w->nfc.cap * (int64_t)sizeof(uint32_t) > KEEP_BYTES) nfc_work_fini(&w->nfc);
}

static status fail_memory(encode_work *w)
{
    return err_set(w->e, ERR_NOMEM, "tokenizer", -1, "no memory to encode %zu bytes", w->text.len);
}

static status fail_limit(encode_work *w)
{
    return err_set(w->e, ERR_LIMIT, "tokenizer", -1, "the text has too many tokens");
}

static status push_span(encode_work *w, span_list *list, span s)
{
    if (s.begin >= s.end) return ERR_OK;
    if (list->n == list->cap) {
        int64_t cap = list->cap ? 2 * list->cap : 16;
        span *ptr = mem_resize(list->ptr, (size_t)cap * sizeof *ptr);
        if (!ptr) return fail_memory(w);
        list->ptr = ptr;
        list->cap = cap;
    }
    list->ptr[list->n++] = s;
    return ERR_OK;
}

static status add_id(encode_work *w, int32_t id)
{
    if (w->ids->n >= w->most) return fail_limit(w);
    return token_ids_push(w->ids, id) ? ERR_OK : fail_memory(w);
}

static status add_word(encode_work *w, str word)
{
    token_ids *ids = w->ids;
    if (word.len > WORD_CACHE_BYTES) {
        /* A huge word costs memory before it costs tokens: see first whether it can fit. */
        if (ids->n + (int64_t)word.len / vocab_longest(w->t->v) > w->most) return fail_limit(w);
        if (bpe_encode(w->t->b, &w->bpe, word, ids) != ERR_OK) return fail_memory(w);
        return ids->n <= w->most ? ERR_OK : fail_limit(w);
    }
    uint64_t key[WORD_CACHE_BYTES / 8];
    bool has;
    word_cache_slot *slot = word_cache_find(&w->cache, word, key, &has);
    if (!token_ids_reserve(ids, WORD_CACHE_IDS)) return fail_memory(w);
    if (has) {
        /* Copying all of them is faster than asking how many. */
        memcpy(ids->ptr + ids->n, slot->ids, sizeof slot->ids);
        ids->n += slot->n;
    } else {
        int n = ids->n;
        if (bpe_encode(w->t->b, &w->bpe, word, ids) != ERR_OK) return fail_memory(w);
        word_cache_put(slot, key, word.len, ids->ptr + n, ids->n - n);
    }
    return ids->n <= w->most ? ERR_OK : fail_limit(w);
}

/* Cut s by the stages from `stage` on; what the last gives are words. */
static status add_words(encode_work *w, int stage, str s)
{
    const tokenizer *t = w->t;
    if (stage == t->n_stages) return add_word(w, s);
    const split_stage *at = &t->stages[stage];
    bool is_last = stage + 1 == t->n_stages;
    if (at->kind == PRETOK_REGEX) {
        split_walk walk = {.text = s};
        for (str part;;) {
            TRY(split_regex_next(at->regex, w->regex, &walk, &part, w->e));
            if (part.len == 0) return ERR_OK;
            TRY(is_last ? add_word(w, part) : add_words(w, stage + 1, part));
        }
    }
    for (size_t pos = 0, end; pos < s.len; pos = end) {
        end = pretok_next(at->kind, s, pos);
        str part = {s.ptr + pos, end - pos};
        TRY(is_last ? add_word(w, part) : add_words(w, stage + 1, part));
    }
    return ERR_OK;
}

/* Text without added tokens, normalised. */
static status add_piece(encode_work *w, str text, size_t begin, size_t end)
{
    str s = str_slice(text, begin, end);
    if (s.len == 0) return ERR_OK;
    if (w->t->adds_space && s.ptr[0] != ' ') {
        buf_clear(&w->spaced);
        buf_put_byte(&w->spaced, ' ');
        buf_put_str(&w->spaced, s);
        if (!buf_reserve(&w->spaced, WORD_CACHE_SLACK)) return fail_memory(w);
        s = buf_str(&w->spaced);
    }
    return add_words(w, 0, s);
}

/* Cut out the tokens of `set` where `marked` allows, give the rest to `add`. White space that a
 * token took with it is gone: no other token begins there. */
static status cut_added(encode_work *w, const added_set *set, const span_list *marked, str text,
                        status (*add)(encode_work *w, str text, size_t begin, size_t end))
{
    size_t done = 0;
    for (int64_t i = 0; i < marked->n; i++) {
        size_t from = marked->ptr[i].begin, start, stop;
        const added_token *a;
        while ((a = added_set_match(set, text, from, marked->ptr[i].end, &start, &stop))) {
            from = stop;
            if (start < done || !added_token_fit(a, text, done, &start, &stop)) continue;
            if (done < start) TRY(add(w, text, done, start));
            TRY(add_id(w, a->id));
            done = stop;
        }
    }
    return done < text.len ? add(w, text, done, text.len) : ERR_OK;
}

/* Where a border at `pos` of the source is after normalising. Inside a changed part it moves so
 * that the part is not marked. */
static size_t map_border(const nfc_work *n, size_t pos, bool is_end)
{
    int64_t low = 0, high = n->n_spans;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (n->spans[middle].in < pos)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0) return pos;
    const nfc_span *before = &n->spans[low - 1];
    if (pos < before->in_end) return is_end ? before->out : before->out_end;
    return before->out_end + (pos - before->in_end);
}

/* Text between two added tokens: normalise, then look for those that are matched only now. */
static status add_normalised(encode_work *w, str text, size_t begin, size_t end)
{
    str s = str_slice(text, begin, end);
    size_t b, f;
    w->nfc.n_spans = 0;
    if (w->t->normalises && nfc_find(s, 0, &b, &f)) {
        buf_clear(&w->normal);
        if (nfc_write(&w->nfc, s, &w->normal) != ERR_OK) return fail_memory(w);
        if (!buf_reserve(&w->normal, WORD_CACHE_SLACK)) return fail_memory(w);
        s = buf_str(&w->normal);
    }
    if (!w->t->has_normalized) return add_piece(w, s, 0, s.len);
    w->marked_normal.n = 0;
    for (int64_t i = 0; i < w->marked.n; i++) {
        span m = w->marked.ptr[i];
        if (m.end <= begin || m.begin >= end) continue;
        m.begin = m.begin > begin ? map_border(&w->nfc, m.begin - begin, false) : 0;
        m.end = m.end < end ? map_border(&w->nfc, m.end - begin, true) : s.len;
        TRY(push_span(w, &w->marked_normal, m));
    }
    return cut_added(w, &w->t->normalized, &w->marked_normal, s, add_piece);
}

/* One text out of all segments, well formed; neighbours that are marked become one span. */
static status join(encode_work *w, const tokenizer_segment *segments, int n)
{
    size_t n_bytes = 0;
    for (int i = 0; i < n; i++) {
        if (segments[i].text.len > TOKENIZER_TEXT_CAP - n_bytes)
            return err_set(w->e, ERR_LIMIT, "tokenizer", -1, "a text of more than %d bytes",
                           TOKENIZER_TEXT_CAP);
        n_bytes += segments[i].text.len;
    }
    w->marked.n = 0;
    if (!buf_reserve(&w->text, n_bytes + WORD_CACHE_SLACK)) return fail_memory(w);
    for (int i = 0; i < n; i++) {
        str s = segments[i].text;
        size_t begin = w->text.len;
        if (utf8_check(s) < 0) {
            buf_put_str(&w->text, s);
        } else {
            size_t n_repaired = utf8_repair_count(s);
            if (!buf_reserve(&w->text, n_repaired)) return fail_memory(w);
            utf8_repair_write(s, w->text.ptr + w->text.len);
            w->text.len += n_repaired;
        }
        if (!segments[i].specials) continue;
        span_list *m = &w->marked;
        if (m->n > 0 && m->ptr[m->n - 1].end == begin)
            m->ptr[m->n - 1].end = w->text.len;
        else
            TRY(push_span(w, m, (span){begin, w->text.len}));
    }
    return buf_reserve(&w->text, WORD_CACHE_SLACK) ? ERR_OK : fail_memory(w);
}

status encode_segments(encode_work *w, const tokenizer_segment *segments, int n, int64_t max_tokens,
                       token_ids *ids, err *e)
{
    int n_before = ids->n;
    w->ids = ids;
    w->e = e;
    w->most = max_tokens > 0 && max_tokens < INT32_MAX - n_before ? n_before + max_tokens
                                                                  : INT32_MAX;
    status s = join(w, segments, n);
    if (s == ERR_OK) s = cut_added(w, &w->t->plain, &w->marked, buf_str(&w->text), add_normalised);
    if (s != ERR_OK) ids->n = n_before;
    trim_work(w);
    return s;
}
