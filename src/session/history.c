#include "session/history.h"

#include <string.h>

#include "chat/outparse.h"
#include "session/said_priv.h"
#include "token/detok.h"

/* A kept turn at its place in the rendered text. */
typedef struct {
    const turn_found *found;
    size_t at, end; /* where its prompt ends, and the turn, end token included */
    said want;      /* what was generated */
    bool lacks_reasoning;
} pick;

typedef struct {
    const history_request *r;
    arena *a;
    str text;
    const segments *parts;
    pick *picks; /* [n] ascending, apart from one another */
    int n;
    err *e;
} picking;

/* ---- one turn ---- */

/* Where `needle`, written by the template, begins at `from` or behind; -1 when nowhere. */
static int64_t find_mark(str text, const segments *parts, str needle, size_t from)
{
    for (int64_t i = 0; i < parts->n && needle.len > 0; i++) {
        const segment *p = &parts->ptr[i];
        size_t end = p->offset + p->len;
        if (!p->is_template || end < from + needle.len) continue;
        int64_t at = str_find(str_slice(text, 0, end), needle, p->offset > from ? p->offset : from);
        if (at >= 0) return at;
    }
    return -1;
}

/* What the answer's ids say, less its end token. */
static status read_turn(const picking *p, const turn *t, bool in_reasoning, said *out)
{
    detok d;
    buf text;
    buf_init(&text);
    detok_init(&d, tokenizer_vocab(p->r->tokens), true);
    for (int i = 0; i + 1 < t->n_ids; i++) detok_push(&d, t->ids[i], &text);
    detok_flush(&d, &text);
    status s = text.failed
                   ? err_set(p->e, ERR_NOMEM, "messages", -1, "a turn")
                   : said_read(buf_str(&text), p->r->input.tools, in_reasoning, p->a, out, p->e);
    buf_fini(&text);
    return s;
}

/* The message where the turn should be has its calls. */
static bool is_same_message(const json *m, const turn *t, int n_calls)
{
    const json *role = json_get(m, "role"), *calls = json_get(m, "tool_calls");
    if (!json_is(role, JSON_STRING) || !str_is(role->text, "assistant")) return false;
    if (n_calls != t->n_calls || n_calls != (json_is(calls, JSON_ARRAY) ? calls->n : 0))
        return false;
    const json *call = n_calls > 0 ? calls->first : NULL;
    for (int i = 0; i < n_calls; i++, call = call->next) {
        const json *id = json_get(call, "id");
        if (!json_is(id, JSON_STRING) || !str_equal(id->text, t->call_ids[i])) return false;
    }
    return true;
}

/* Whether the turn is what stands in the text; then *out is filled. */
static status check_turn(const picking *p, const turn_found *f, bool *is_same, pick *out)
{
    const turn *t = &f->turn;
    size_t at = f->prompt.n_bytes;
    said there;
    *is_same = false;
    const json *m = json_at(p->r->input.messages, t->n_messages);
    str mark = vocab_bytes(tokenizer_vocab(p->r->tokens), t->ids[t->n_ids - 1]);
    int64_t end = find_mark(p->text, p->parts, mark, at);
    bool in_reasoning = outparse_is_open_think(str_slice(p->text, 0, at));
    if (!m || end < 0) return ERR_OK;
    *out = (pick){.found = f, .at = at, .end = (size_t)end + mark.len};
    TRY(read_turn(p, t, in_reasoning, &out->want));
    if (!is_same_message(m, t, out->want.n_calls)) return ERR_OK;
    TRY(said_read(str_slice(p->text, at, (size_t)end), p->r->input.tools, in_reasoning, p->a,
                  &there, p->e));
    out->lacks_reasoning = there.reasoning.len == 0 && out->want.reasoning.len > 0;
    *is_same = said_is_same(&there, &out->want) &&
               (out->lacks_reasoning || str_equal(there.reasoning, out->want.reasoning));
    return ERR_OK;
}

static status find_picks(picking *p)
{
    turn_found *found;
    int n;
    TRY(turn_memory_find(p->r->turns, p->text, p->a, &found, &n, p->e));
    p->picks = arena_new_array(p->a, (size_t)n + 1, sizeof *p->picks);
    if (!p->picks) return err_set(p->e, ERR_NOMEM, "messages", -1, "%d turns", n);
    for (int i = 0; i < n; i++) {
        bool is_same;
        if (p->n > 0 && found[i].prompt.n_bytes < p->picks[p->n - 1].end) continue;
        TRY(check_turn(p, &found[i], &is_same, &p->picks[p->n]));
        p->n += is_same;
    }
    return ERR_OK;
}

/* ---- reasoning that was left out ---- */

/* The message with this reasoning, without siblings. */
static json *fill_message(arena *a, const json *m, str reasoning)
{
    json *copy = arena_new_array(a, (size_t)m->n + 2, sizeof *copy), *last = NULL;
    if (!copy) return NULL;
    *copy = *m;
    copy->next = NULL;
    copy->n = 0;
    json own = {.kind = JSON_STRING, .text = reasoning, .key = STR("reasoning_content")};
    for (const json *v = m->first;; v = v->next) {
        if (v && str_equal(v->key, own.key)) continue;
        json *to = &copy[++copy->n];
        *to = v ? *v : own;
        to->next = NULL;
        if (last) last->next = to;
        last = to;
        if (!v) break;
    }
    copy->first = copy + 1;
    return copy;
}

/* The messages as they would be with all reasoning that was left out. */
static const json *fill_messages(const picking *p)
{
    const json *list = p->r->input.messages;
    json *copy = arena_new(p->a, sizeof *copy), *last = NULL;
    if (!copy) return NULL;
    *copy = *list;
    int i = 0, k = 0;
    for (const json *m = list->first; m; m = m->next, i++) {
        while (k < p->n && p->picks[k].found->turn.n_messages < i) k++;
        bool lacks = k < p->n && p->picks[k].found->turn.n_messages == i &&
                     p->picks[k].lacks_reasoning;
        json *to = lacks ? fill_message(p->a, m, p->picks[k].want.reasoning)
                         : arena_new(p->a, sizeof *to);
        if (!to) return NULL;
        if (!lacks) *to = *m;
        to->next = NULL;
        if (last)
            last->next = to;
        else
            copy->first = to;
        last = to;
    }
    return copy;
}

/* Whether the text with all reasoning is the same but in the turns, and has it there. */
static status check_filled(const picking *p, str text, const segments *parts, bool *holds)
{
    size_t from = 0, at = 0; /* in p->text, and in the other */
    *holds = false;
    for (int i = 0; i < p->n; i++) {
        const pick *k = &p->picks[i];
        said there;
        str before = str_slice(p->text, from, k->at);
        const turn *t = &k->found->turn;
        str mark = vocab_bytes(tokenizer_vocab(p->r->tokens), t->ids[t->n_ids - 1]);
        if (!str_starts(str_skip(text, at), before)) return ERR_OK;
        at += before.len;
        int64_t end = find_mark(text, parts, mark, at);
        if (end < 0) return ERR_OK;
        TRY(said_read(str_slice(text, at, (size_t)end), p->r->input.tools,
                      outparse_is_open_think(str_slice(text, 0, at)), p->a, &there, p->e));
        if (!said_is_same(&there, &k->want) || !str_equal(there.reasoning, k->want.reasoning))
            return ERR_OK;
        from = k->end;
        at = (size_t)end + mark.len;
    }
    *holds = str_equal(str_skip(text, at), str_skip(p->text, from));
    return ERR_OK;
}

static status would_be_written(const picking *p, bool *holds)
{
    template_input in = p->r->input;
    buf text;
    segments parts;
    buf_init(&text);
    segments_init(&parts);
    in.messages = fill_messages(p);
    status s = in.messages ? template_render(p->r->tpl, &in, &text, &parts, p->e)
                           : err_set(p->e, ERR_NOMEM, "messages", -1, "reasoning");
    if (s == ERR_OK) s = check_filled(p, buf_str(&text), &parts, holds);
    segments_fini(&parts);
    buf_fini(&text);
    return s;
}

/* Drop the turns that lack their reasoning where the template would not have it. */
static status check_reasoning(picking *p)
{
    bool lacks = false, holds = true;
    for (int i = 0; i < p->n; i++) lacks |= p->picks[i].lacks_reasoning;
    if (lacks) TRY(would_be_written(p, &holds));
    int kept = 0;
    for (int i = 0; i < p->n; i++)
        if (holds || !p->picks[i].lacks_reasoning) p->picks[kept++] = p->picks[i];
    p->n = kept;
    return ERR_OK;
}

/* ---- ids ---- */

/* Tokens of the text from one byte to another. */
static status encode_run(const picking *p, size_t from, size_t to, bool is_end, token_ids *ids)
{
    str prefill = is_end ? p->r->prefill : STR("");
    tokenizer_segment *list = arena_new_array(p->a, (size_t)p->parts->n + 1, sizeof *list);
    if (!list) return err_set(p->e, ERR_NOMEM, "messages", -1, "segments");
    int n = 0;
    for (int64_t i = 0; i < p->parts->n; i++) {
        const segment *s = &p->parts->ptr[i];
        size_t begin = s->offset > from ? s->offset : from, end = s->offset + s->len;
        if (end > to) end = to;
        if (begin < end)
            list[n++] = (tokenizer_segment){str_slice(p->text, begin, end), s->is_template};
    }
    if (prefill.len > 0) list[n++] = (tokenizer_segment){.text = prefill};
    int64_t most = p->r->max_tokens;
    if (most > 0 && most <= ids->n)
        return err_set(p->e, ERR_LIMIT, "messages", -1, "more than %lld tokens", (long long)most);
    return tokenizer_encode_segments(p->r->tokens, list, n, most > 0 ? most - ids->n : 0, ids,
                                     p->e);
}

static status encode(const picking *p, token_ids *ids)
{
    size_t from = 0;
    for (int i = 0; i < p->n; i++) {
        const turn *t = &p->picks[i].found->turn;
        TRY(encode_run(p, from, p->picks[i].at, false, ids));
        if (!token_ids_reserve(ids, t->n_ids))
            return err_set(p->e, ERR_NOMEM, "messages", -1, "%d ids", t->n_ids);
        memcpy(ids->ptr + ids->n, t->ids, (size_t)t->n_ids * sizeof *t->ids);
        ids->n += t->n_ids;
        from = p->picks[i].end;
    }
    return encode_run(p, from, p->text.len, true, ids);
}

static void count(const picking *p, history_made *out)
{
    for (int i = 0; i < p->n; i++) {
        turn_memory_use(p->r->turns, p->picks[i].found);
        out->n_turns++;
        out->n_turn_tokens += p->picks[i].found->turn.n_ids;
        out->n_filled_turns += p->picks[i].lacks_reasoning;
    }
}

status history_encode(const history_request *r, buf *text, token_ids *ids, history_made *out,
                      err *e)
{
    segments parts;
    arena a;
    history_made made = {.n_turns = 0};
    size_t begin = text->len;
    int n_before = ids->n;
    err ignored;
    segments_init(&parts);
    arena_init(&a, 0);
    status s = template_render(r->tpl, &r->input, text, &parts, e);
    picking p = {
        .r = r, .a = &a, .text = str_skip(buf_str(text), begin), .parts = &parts, .e = &ignored};
    if (s == ERR_OK && r->turns) {
        if (find_picks(&p) != ERR_OK || check_reasoning(&p) != ERR_OK) p.n = 0;
        if (r->input.add_generation_prompt && r->prefill.len == 0)
            made.prompt = turn_prompt_of(p.text);
    }
    p.e = e;
    if (s == ERR_OK) s = encode(&p, ids);
    if (s == ERR_OK) {
        count(&p, &made);
        *out = made;
    } else {
        ids->n = n_before;
    }
    segments_fini(&parts);
    arena_fini(&a);
    return s;
}
