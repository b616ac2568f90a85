#include "grammar/constraint.h"

#include <string.h>

#include "base/asserts.h"
#include "base/mem.h"
#include "grammar/repeat_priv.h"

/* Most tokens among which a text that cannot be otherwise is looked for. */
enum { FORCED_MOST = 24 };
enum { GAP_MOST = 2, NEEDLES = 2, NEEDLE_MOST = 32, NEWLINE_IDS_MOST = 16, EOS_MOST = 32 };

/* A text that must not come about in reasoning: for each part of it that stands at the end so far,
 * the tokens that do not complete it. */
typedef struct {
    char text[NEEDLE_MOST];
    int n;
    uint32_t *rows; /* owned [n, n_words] */
} needle;

struct constraint_vocab {
    const vocab *v;
    grammar_tokens *tokens; /* owned; NULL until it is needed */
    int V, n_words, n_eos;
    uint32_t *row; /* owned [n_words] of constraint_guess, with tokens */
    int32_t eos[EOS_MOST];
    int32_t reasoning_end;
    needle needles[NEEDLES];               /* the end of reasoning, a call; without ends n is 0 */
    int32_t newline_ids[NEWLINE_IDS_MOST]; /* tokens of 1 to GAP_MOST line ends and nothing else */
    int n_newlines;
};

typedef enum {
    STAGE_FREE, /* everything is allowed from here on */
    STAGE_REASONING,
    STAGE_GAP, /* between reasoning and the grammar's first byte */
    STAGE_GRAMMAR,
} stage;

/* Where a reply is, but for the grammar's own state. */
typedef struct {
    stage stage;
    int begun[NEEDLES]; /* bytes of each needle at the end of the reasoning */
    int gap;            /* line ends so far */
    int64_t n_reasoning;
    repeat repeat;
} place;

struct constraint {
    constraint_vocab *v;
    grammar_state *state; /* owned; NULL: no grammar */
    int64_t reasoning_most;
    bool ends_loops;
    place now, ahead; /* ahead: behind proposals, only within a call */
};

/* ---- what a model's constraints share ---- */

/* How much of the needle the text ends with, one byte on; n.n when it is complete. */
static int needle_step(const needle *n, int begun, char byte)
{
    for (int k = begun; k >= 0; k--) {
        bool fits = n->text[k] == byte;
        for (int i = 0; i < k && fits; i++) fits = n->text[begun - k + i] == n->text[i];
        if (fits) return k + 1;
    }
    return 0;
}

/* The same over a token; stops where the needle is complete. */
static int needle_feed(const needle *n, int begun, str bytes)
{
    for (size_t i = 0; i < bytes.len && begun < n->n; i++)
        begun = needle_step(n, begun, bytes.ptr[i]);
    return begun;
}

static bool row_has(const uint32_t *row, int32_t id)
{
    return row[id / 32] >> (id % 32) & 1;
}

static void row_remove(uint32_t *row, int32_t id)
{
    row[id / 32] &= ~(1u << (id % 32));
}

static status needle_open(const constraint_vocab *c, needle *n, str text, err *e)
{
    size_t n_words = (size_t)c->n_words;
    if (text.len == 0 || text.len > NEEDLE_MOST)
        return err_set(e, ERR_UNSUPPORTED, "reasoning", -1, "its end token has %zu bytes",
                       text.len);
    memcpy(n->text, text.ptr, text.len);
    n->rows = mem_new_array(text.len * n_words, sizeof *n->rows);
    if (!n->rows) return err_set(e, ERR_NOMEM, "reasoning", -1, "masks");
    n->n = (int)text.len;
    memset(n->rows, 0xff, text.len * n_words * sizeof *n->rows);
    int count = vocab_count(c->v) < c->V ? vocab_count(c->v) : c->V;
    for (int32_t id = 0; id < count; id++) {
        str bytes = vocab_bytes(c->v, id);
        if (!bytes.len || !memchr(bytes.ptr, n->text[n->n - 1], bytes.len)) continue;
        for (int k = 0; k < n->n; k++)
            if (needle_feed(n, k, bytes) == n->n) row_remove(n->rows + (size_t)k * n_words, id);
    }
    return ERR_OK;
}

static void find_newlines(constraint_vocab *c)
{
    int count = vocab_count(c->v) < c->V ? vocab_count(c->v) : c->V;
    for (int32_t id = 0; id < count && c->n_newlines < NEWLINE_IDS_MOST; id++) {
        str bytes = vocab_bytes(c->v, id);
        bool is_newline = bytes.len > 0 && bytes.len <= GAP_MOST && !vocab_is_special(c->v, id);
        for (size_t i = 0; i < bytes.len; i++) is_newline = is_newline && bytes.ptr[i] == '\n';
        if (is_newline) c->newline_ids[c->n_newlines++] = id;
    }
}

static status open_reasoning(constraint_vocab *c, err *e)
{
    if (c->reasoning_end < 0 || c->reasoning_end >= c->V) return ERR_OK;
    TRY(needle_open(c, &c->needles[0], vocab_bytes(c->v, c->reasoning_end), e));
    TRY(needle_open(c, &c->needles[1], STR("<function="), e));
    /* The token itself is how reasoning ends, and nothing else ends the reply before. */
    for (int i = 0; i < NEEDLES; i++)
        for (int k = 0; k < c->needles[i].n; k++) {
            uint32_t *row = c->needles[i].rows + (size_t)k * (size_t)c->n_words;
            row[c->reasoning_end / 32] |= 1u << (c->reasoning_end % 32);
            for (int j = 0; j < c->n_eos; j++) row_remove(row, c->eos[j]);
        }
    find_newlines(c);
    return ERR_OK;
}

status constraint_vocab_open(constraint_vocab **out, const constraint_model *m, err *e)
{
    if (m->V < 1 || m->n_eos < 0 || m->n_eos > EOS_MOST)
        return err_set(e, ERR_INVALID, "constraint", -1, "%d ids, %d end tokens", m->V, m->n_eos);
    constraint_vocab *c = mem_new(sizeof *c);
    if (!c) return err_set(e, ERR_NOMEM, "constraint", -1, "a vocabulary");
    c->v = m->v;
    c->V = m->V;
    c->n_words = (m->V + 31) / 32;
    for (int i = 0; i < m->n_eos; i++)
        if (m->eos[i] >= 0 && m->eos[i] < m->V) c->eos[c->n_eos++] = m->eos[i];
    c->reasoning_end = m->reasoning_end;
    status s = open_reasoning(c, e);
    if (s == ERR_OK)
        *out = c;
    else
        constraint_vocab_close(c);
    return s;
}

status constraint_vocab_need_tokens(constraint_vocab *c, err *e)
{
    if (!c->row) c->row = mem_new_array((size_t)c->n_words, sizeof *c->row);
    if (!c->row) return err_set(e, ERR_NOMEM, "constraint", -1, "a mask");
    return c->tokens ? ERR_OK : grammar_tokens_open(&c->tokens, c->v, c->V, c->eos, c->n_eos, e);
}

void constraint_vocab_close(constraint_vocab *c)
{
    if (!c) return;
    for (int i = 0; i < NEEDLES; i++) mem_free(c->needles[i].rows);
    grammar_tokens_close(c->tokens);
    mem_free(c->row);
    mem_free(c);
}

/* ---- one reply ---- */

/* What there is to keep behind reasoning, or without any. */
static stage stage_behind(const constraint *c, bool had_reasoning)
{
    return !c->state ? STAGE_FREE : had_reasoning ? STAGE_GAP : STAGE_GRAMMAR;
}

status constraint_open(constraint **out, constraint_vocab *v, const constraint_wish *w, int rows,
                       err *e)
{
    bool wants_end = w->starts_in_reasoning && (w->grammar || w->reasoning_most >= 0);
    if (wants_end && v->needles[0].n == 0)
        return err_set(e, ERR_UNSUPPORTED, "reasoning", -1,
                       "this model has no token that ends its reasoning");
    if (w->grammar && v->n_eos == 0)
        return err_set(e, ERR_UNSUPPORTED, "grammar", -1, "this model has no end token");
    constraint *c = mem_new(sizeof *c);
    if (!c) return err_set(e, ERR_NOMEM, "constraint", -1, "a reply");
    ASSERT(!w->grammar || v->tokens);
    c->v = v;
    c->reasoning_most = w->reasoning_most;
    c->ends_loops = w->ends_loops && v->needles[0].n > 0;
    status s = w->grammar ? grammar_state_open(&c->state, w->grammar, v->tokens, rows, e) : ERR_OK;
    if (s != ERR_OK) {
        constraint_close(c);
        return s;
    }
    c->now.stage = w->starts_in_reasoning ? STAGE_REASONING : stage_behind(c, false);
    if (c->now.stage == STAGE_REASONING && !wants_end && !c->ends_loops) c->now.stage = STAGE_FREE;
    *out = c;
    return ERR_OK;
}

void constraint_close(constraint *c)
{
    if (!c) return;
    grammar_state_close(c->state);
    mem_free(c);
}

bool constraint_has_begun(const constraint *c)
{
    return c->now.stage != STAGE_REASONING;
}

/* Whether reasoning must end with the token behind this place, or n later. */
static bool must_end(const constraint *c, const place *p, int n)
{
    if (c->reasoning_most >= 0 && p->n_reasoning + n >= c->reasoning_most) return true;
    return c->ends_loops && repeat_is_round(&p->repeat, n);
}

bool constraint_is_needed(const constraint *c, int n)
{
    if (c->now.stage == STAGE_REASONING && !c->state) return must_end(c, &c->now, n);
    return c->now.stage != STAGE_FREE;
}

static const uint32_t *needle_row(const constraint *c, const place *p, int i)
{
    return c->v->needles[i].rows + (size_t)p->begun[i] * (size_t)c->v->n_words;
}

static bool move_reasoning(constraint *c, place *p, int32_t id)
{
    const constraint_vocab *v = c->v;
    if (id == v->reasoning_end) {
        p->stage = stage_behind(c, true);
        return true;
    }
    if (id < 0 || id >= v->V || must_end(c, p, 0)) return false;
    for (int i = 0; i < NEEDLES && c->state; i++)
        if (!row_has(needle_row(c, p, i), id)) return false;
    for (int i = 0; i < NEEDLES; i++)
        p->begun[i] = needle_feed(&v->needles[i], p->begun[i], vocab_bytes(v->v, id));
    /* Without a grammar all of this may be said; it is no longer reasoning then. */
    for (int i = 0; i < NEEDLES; i++)
        if (p->begun[i] == v->needles[i].n) p->stage = STAGE_FREE;
    p->n_reasoning++;
    if (c->ends_loops) repeat_push(&p->repeat, id);
    return true;
}

/* How many line ends a token is, if it is nothing else and there may be so many more; else 0. */
static int gap_of(const constraint_vocab *v, const place *p, int32_t id)
{
    for (int i = 0; i < v->n_newlines; i++) {
        if (v->newline_ids[i] != id) continue;
        int n = (int)vocab_bytes(v->v, id).len;
        return p->gap + n <= GAP_MOST ? n : 0;
    }
    return 0;
}

/* One token on; false, and nothing has changed, when it is not allowed. */
static bool move(constraint *c, place *p, int32_t id)
{
    int n;
    switch (p->stage) {
    case STAGE_FREE: return true;
    case STAGE_REASONING: return move_reasoning(c, p, id);
    case STAGE_GAP:
        n = gap_of(c->v, p, id);
        p->gap += n;
        if (n > 0) return true;
        if (!grammar_state_advance(c->state, id)) return false;
        p->stage = STAGE_GRAMMAR;
        return true;
    case STAGE_GRAMMAR: break;
    }
    return grammar_state_advance(c->state, id);
}

static void put_mask(constraint *c, const place *p, uint32_t *row)
{
    const constraint_vocab *v = c->v;
    size_t n_words = (size_t)v->n_words;
    int n_allowed = 1;
    if (p->stage == STAGE_REASONING && must_end(c, p, 0)) {
        memset(row, 0, n_words * sizeof *row);
        row[v->reasoning_end / 32] |= 1u << (v->reasoning_end % 32);
    } else if (p->stage == STAGE_REASONING && c->state) {
        const uint32_t *a = needle_row(c, p, 0), *b = needle_row(c, p, 1);
        for (size_t i = 0; i < n_words; i++) row[i] = a[i] & b[i];
    } else if (p->stage == STAGE_GAP || p->stage == STAGE_GRAMMAR) {
        n_allowed = grammar_state_mask(c->state, row);
        for (int i = 0; i < v->n_newlines && p->stage == STAGE_GAP && n_allowed > 0; i++) {
            int32_t id = v->newline_ids[i];
            if (gap_of(v, p, id) > 0) row[id / 32] |= 1u << (id % 32);
        }
    } else {
        n_allowed = 0;
    }
    if (n_allowed == 0) memset(row, 0xff, n_words * sizeof *row);
}

void constraint_fill(void *ctx, const int32_t *proposals, int n, uint32_t *rows)
{
    constraint *c = ctx;
    size_t n_words = (size_t)c->v->n_words;
    int n_undo = 0;
    c->ahead = c->now;
    for (int i = 0; i <= n; i++) {
        put_mask(c, &c->ahead, rows + (size_t)i * n_words);
        if (i == n) break;
        if (!move(c, &c->ahead, proposals[i])) {
            memset(rows + (size_t)(i + 1) * n_words, 0xff,
                   (size_t)(n - i) * n_words * sizeof *rows);
            break;
        }
        n_undo += c->ahead.stage == STAGE_GRAMMAR;
    }
    if (c->state) grammar_state_rollback(c->state, n_undo);
}

/* The longest token of a row when all others are its beginnings; -1 when there is more than one way
 * to go on, or an end. */
static int32_t forced_token(const constraint_vocab *v, const uint32_t *row)
{
    int32_t ids[FORCED_MOST], longest = -1;
    int n = 0;
    for (int w = 0; w < v->n_words; w++)
        for (uint32_t bits = row[w]; bits; bits &= bits - 1) {
            if (n == FORCED_MOST) return -1;
            ids[n++] = w * 32 + __builtin_ctz(bits);
        }
    for (int i = 0; i < n; i++)
        if (longest < 0 || vocab_bytes(v->v, ids[i]).len > vocab_bytes(v->v, longest).len)
            longest = ids[i];
    for (int i = 0; i < n; i++)
        if (!str_starts(vocab_bytes(v->v, longest), vocab_bytes(v->v, ids[i]))) return -1;
    return longest;
}

bool constraint_guess(void *ctx, int32_t *proposals, int n)
{
    constraint *c = ctx;
    int n_undo = 0, i = 0;
    bool is_changed = false;
    if (!c->state) return false;
    for (c->ahead = c->now; i < n; i++) {
        if (!move(c, &c->ahead, proposals[i])) {
            if (c->ahead.stage != STAGE_GRAMMAR) break;
            put_mask(c, &c->ahead, c->v->row);
            int32_t id = forced_token(c->v, c->v->row);
            if (id < 0 || !move(c, &c->ahead, id)) break;
            proposals[i] = id;
            is_changed = true;
        }
        n_undo += c->ahead.stage == STAGE_GRAMMAR;
    }
    grammar_state_rollback(c->state, n_undo);
    return is_changed;
}

int constraint_take(constraint *c, const int32_t *ids, int n)
{
    for (int i = 0; i < n; i++)
        if (!move(c, &c->now, ids[i])) return i;
    return n;
}
