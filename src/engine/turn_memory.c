#include "engine/turn_memory.h"

#include <openssl/evp.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread.h"

typedef struct entry entry;
struct entry {
    entry *prev, *next; /* newest first */
    turn_prompt prompt;
    turn turn; /* its arrays lie behind the entry */
    size_t n_bytes;
};

struct turn_memory {
    mutex lock; /* protects all below */
    entry *first, *last;
    turn_counters count;
};

/* ---- digests ---- */

/* SHA-256 of ever longer beginnings of one text. */
typedef struct {
    EVP_MD_CTX *run, *now;
    size_t done;
    bool failed;
} prefix_digest;

static void prefix_begin(prefix_digest *p)
{
    *p = (prefix_digest){.run = EVP_MD_CTX_new(), .now = EVP_MD_CTX_new()};
    p->failed = !p->run || !p->now || EVP_DigestInit_ex(p->run, EVP_sha256(), NULL) != 1;
}

static void prefix_end(prefix_digest *p)
{
    EVP_MD_CTX_free(p->run);
    EVP_MD_CTX_free(p->now);
}

/* n may not be less than the last time. */
static bool prefix_take(prefix_digest *p, str text, size_t n, unsigned char out[32])
{
    unsigned len;
    if (p->failed) return false;
    p->failed = EVP_DigestUpdate(p->run, text.ptr + p->done, n - p->done) != 1 ||
                EVP_MD_CTX_copy_ex(p->now, p->run) != 1 ||
                EVP_DigestFinal_ex(p->now, out, &len) != 1;
    p->done = n;
    return !p->failed;
}

turn_prompt turn_prompt_of(str text)
{
    turn_prompt p = {.n_bytes = text.len};
    prefix_digest d;
    if (text.len < TURN_TAIL) return (turn_prompt){0};
    memcpy(p.tail, text.ptr + text.len - TURN_TAIL, TURN_TAIL);
    prefix_begin(&d);
    if (!prefix_take(&d, text, text.len, p.digest)) p.n_bytes = 0;
    prefix_end(&d);
    return p;
}

/* ---- the list ---- */

status turn_memory_open(turn_memory **out, int64_t max_bytes, err *e)
{
    turn_memory *m = mem_new(sizeof *m);
    if (!m) return err_set(e, ERR_NOMEM, "turns", -1, "memory of turns");
    mutex_init(&m->lock);
    m->count.max_bytes = max_bytes;
    *out = m;
    return ERR_OK;
}

static void unlink_entry(turn_memory *m, entry *t)
{
    *(t->prev ? &t->prev->next : &m->first) = t->next;
    *(t->next ? &t->next->prev : &m->last) = t->prev;
    m->count.n_turns--;
    m->count.n_bytes -= (int64_t)t->n_bytes;
}

static void link_first(turn_memory *m, entry *t)
{
    t->prev = NULL;
    t->next = m->first;
    *(t->next ? &t->next->prev : &m->last) = t;
    m->first = t;
    m->count.n_turns++;
    m->count.n_bytes += (int64_t)t->n_bytes;
}

void turn_memory_close(turn_memory *m)
{
    if (!m) return;
    for (entry *t = m->first, *next; t; t = next) {
        next = t->next;
        mem_free(t);
    }
    mutex_fini(&m->lock);
    mem_free(m);
}

static size_t bytes_of(const turn *t)
{
    size_t n = (size_t)t->n_ids * sizeof *t->ids + (size_t)t->n_calls * sizeof *t->call_ids;
    for (int i = 0; i < t->n_calls; i++) n += t->call_ids[i].len;
    return n;
}

/* A copy of t in `room`, which has bytes_of(t). */
static turn copy_turn(const turn *t, char *room)
{
    turn copy = *t;
    str *calls = (str *)(void *)room;
    copy.call_ids = calls;
    room += (size_t)t->n_calls * sizeof *calls;
    copy.ids = (const int32_t *)(void *)room;
    memcpy(room, t->ids, (size_t)t->n_ids * sizeof *t->ids);
    room += (size_t)t->n_ids * sizeof *t->ids;
    for (int i = 0; i < t->n_calls; i++) {
        calls[i] = (str){room, t->call_ids[i].len};
        memcpy(room, t->call_ids[i].ptr, t->call_ids[i].len);
        room += t->call_ids[i].len;
    }
    return copy;
}

static bool is_same_prompt(const turn_prompt *a, const turn_prompt *b)
{
    return a->n_bytes == b->n_bytes && memcmp(a->digest, b->digest, sizeof a->digest) == 0;
}

static entry *find_same(const turn_memory *m, const turn_prompt *p, const turn *t)
{
    for (entry *at = m->first; at; at = at->next)
        if (is_same_prompt(&at->prompt, p) && at->turn.n_ids == t->n_ids &&
            memcmp(at->turn.ids, t->ids, (size_t)t->n_ids * sizeof *t->ids) == 0)
            return at;
    return NULL;
}

void turn_memory_put(turn_memory *m, const turn_prompt *p, const turn *t)
{
    size_t n_bytes = sizeof(entry) + bytes_of(t);
    if (p->n_bytes == 0 || t->n_ids == 0 || n_bytes > (size_t)m->count.max_bytes) return;
    entry *fresh = mem_new(n_bytes);
    if (!fresh) return;
    fresh->prompt = *p;
    fresh->n_bytes = n_bytes;
    fresh->turn = copy_turn(t, (char *)(fresh + 1));
    mutex_lock(&m->lock);
    entry *had = find_same(m, p, t);
    if (had) unlink_entry(m, had);
    link_first(m, fresh);
    m->count.kept += !had;
    mem_free(had);
    while (m->count.n_bytes > m->count.max_bytes) {
        entry *old = m->last;
        unlink_entry(m, old);
        m->count.evicted++;
        mem_free(old);
    }
    mutex_unlock(&m->lock);
}

/* ---- finding ---- */

static bool may_match(const entry *t, str text)
{
    size_t n = t->prompt.n_bytes;
    return n <= text.len && memcmp(text.ptr + n - TURN_TAIL, t->prompt.tail, TURN_TAIL) == 0;
}

/* The entries that may match, by ascending length; NULL without memory. Under the lock. */
static entry **list_candidates(const turn_memory *m, str text, arena *a, int *n)
{
    *n = 0;
    for (entry *t = m->first; t; t = t->next) *n += may_match(t, text);
    entry **list = arena_new_array(a, (size_t)*n + 1, sizeof(entry *));
    int k = 0;
    for (entry *t = m->first; t && list; t = t->next) {
        int at = k;
        if (!may_match(t, text)) continue;
        for (; at > 0 && list[at - 1]->prompt.n_bytes > t->prompt.n_bytes; at--)
            list[at] = list[at - 1];
        list[at] = t;
        k++;
    }
    return list;
}

/* Those of the candidates that do. */
static int keep_matches(entry **list, int n, str text)
{
    unsigned char digest[32];
    prefix_digest d;
    int kept = 0;
    prefix_begin(&d);
    for (int i = 0; i < n; i++) {
        const turn_prompt *p = &list[i]->prompt;
        if ((i == 0 || d.done != p->n_bytes) && !prefix_take(&d, text, p->n_bytes, digest)) break;
        if (memcmp(digest, p->digest, sizeof digest) == 0) list[kept++] = list[i];
    }
    prefix_end(&d);
    return kept;
}

static status find(turn_memory *m, str text, arena *a, turn_found **out, int *n, err *e)
{
    int n_list;
    entry **list = list_candidates(m, text, a, &n_list);
    if (!list) return err_set(e, ERR_NOMEM, "turns", -1, "%d turns", n_list);
    n_list = keep_matches(list, n_list, text);
    turn_found *found = arena_new_array(a, (size_t)n_list + 1, sizeof *found);
    for (int i = 0; i < n_list && found; i++) {
        const turn *t = &list[i]->turn;
        char *room = arena_new(a, bytes_of(t) + 1);
        if (!room) return err_set(e, ERR_NOMEM, "turns", -1, "a turn of %d tokens", t->n_ids);
        found[i] = (turn_found){list[i]->prompt, copy_turn(t, room)};
    }
    if (!found) return err_set(e, ERR_NOMEM, "turns", -1, "%d turns", n_list);
    *out = found;
    *n = n_list;
    return ERR_OK;
}

status turn_memory_find(turn_memory *m, str text, arena *a, turn_found **out, int *n, err *e)
{
    mutex_lock(&m->lock);
    status s = find(m, text, a, out, n, e);
    mutex_unlock(&m->lock);
    return s;
}

void turn_memory_use(turn_memory *m, const turn_found *f)
{
    mutex_lock(&m->lock);
    entry *t = find_same(m, &f->prompt, &f->turn);
    if (t) {
        unlink_entry(m, t);
        link_first(m, t);
    }
    m->count.used++;
    m->count.used_tokens += f->turn.n_ids;
    mutex_unlock(&m->lock);
}

turn_counters turn_memory_stats(turn_memory *m)
{
    mutex_lock(&m->lock);
    turn_counters c = m->count;
    mutex_unlock(&m->lock);
    return c;
}
