#include "token/split_regex_priv.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "token/regex_rewrite_priv.h"

/* Steps that one match may take, and a share for each byte that is left: a sane pattern takes a
 * few for a byte. Without a limit a pattern like (a*)*b runs for ever. */
enum { STEPS_MIN = 1000000, STEPS_PER_BYTE = 16, DEPTH_MAX = 100000 };
enum { JIT_STACK_FIRST = 32 << 10, JIT_STACK_MOST = 1 << 20 };

struct split_regex {
    pcre2_general_context *memory;
    pcre2_code *code;
};

struct split_regex_work {
    pcre2_general_context *memory;
    pcre2_match_context *context;
    pcre2_match_data *match;
    pcre2_jit_stack *stack;
};

static void *give_memory(PCRE2_SIZE n, void *tag)
{
    (void)tag;
    return mem_new(n);
}

static void take_memory(void *p, void *tag)
{
    (void)tag;
    mem_free(p);
}

static status compile(split_regex *r, str text, const char *name, err *e)
{
    int code;
    PCRE2_SIZE at;
    pcre2_compile_context *context = pcre2_compile_context_create(r->memory);
    if (!context) return err_set(e, ERR_NOMEM, name, -1, "no memory for a pattern");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    r->code = pcre2_compile((PCRE2_SPTR)text.ptr, text.len,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_UTF_CHECK,
                            &code, &at, context);
    pcre2_compile_context_free(context);
    if (!r->code && code == PCRE2_ERROR_HEAP_FAILED)
        return err_set(e, ERR_NOMEM, name, -1, "no memory for a pattern");
    if (!r->code) {
        char words[120] = "";
        pcre2_get_error_message(code, (PCRE2_UCHAR *)words, sizeof words);
        return err_set(e, ERR_UNSUPPORTED, name, -1, "pre-tokeniser pattern: %s", words);
    }
    /* Without just-in-time code (not built in, not allowed here) matching is slower, not wrong. */
    if (pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE) == PCRE2_ERROR_NOMEMORY)
        return err_set(e, ERR_NOMEM, name, -1, "no memory for a pattern's machine code");
    return ERR_OK;
}

status split_regex_open(split_regex **out, str pattern, const char *name, err *e)
{
    buf text;
    buf_init(&text);
    split_regex *r = mem_new(sizeof *r);
    status s = err_set(e, ERR_NOMEM, name, -1, "no memory for a pattern");
    if (!r || !(r->memory = pcre2_general_context_create(give_memory, take_memory, NULL)))
        goto fail;
    s = regex_rewrite(pattern, name, &text, e);
    if (s == ERR_OK) s = compile(r, buf_str(&text), name, e);
    if (s != ERR_OK) goto fail;
    buf_fini(&text);
    *out = r;
    return ERR_OK;
fail:
    buf_fini(&text);
    split_regex_close(r);
    return s;
}

void split_regex_close(split_regex *r)
{
    if (!r) return;
    pcre2_code_free(r->code);
    pcre2_general_context_free(r->memory);
    mem_free(r);
}

status split_regex_work_open(split_regex_work **out, err *e)
{
    split_regex_work *w = mem_new(sizeof *w);
    if (!w) goto fail;
    if (!(w->memory = pcre2_general_context_create(give_memory, take_memory, NULL))) goto fail;
    if (!(w->context = pcre2_match_context_create(w->memory))) goto fail;
    if (!(w->match = pcre2_match_data_create(1, w->memory))) goto fail;
    if (!(w->stack = pcre2_jit_stack_create(JIT_STACK_FIRST, JIT_STACK_MOST, w->memory))) goto fail;
    pcre2_set_depth_limit(w->context, DEPTH_MAX);
    pcre2_jit_stack_assign(w->context, NULL, w->stack);
    *out = w;
    return ERR_OK;
fail:
    split_regex_work_close(w);
    return err_set(e, ERR_NOMEM, "tokenizer", -1, "no memory for matching a pattern");
}

void split_regex_work_close(split_regex_work *w)
{
    if (!w) return;
    pcre2_match_data_free(w->match);
    pcre2_match_context_free(w->context);
    pcre2_jit_stack_free(w->stack);
    pcre2_general_context_free(w->memory);
    mem_free(w);
}

/* Find the next match at or after walk->from. An empty one right behind the last, or at the start,
 * cuts nothing: the search goes on a character later. */
static status find(const split_regex *r, split_regex_work *w, split_walk *walk, err *e)
{
    str s = walk->text;
    while (walk->from <= s.len) {
        uint64_t steps = STEPS_MIN + (uint64_t)(s.len - walk->from) * STEPS_PER_BYTE;
        pcre2_set_match_limit(w->context, steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
        int rc = pcre2_match(r->code, (PCRE2_SPTR)s.ptr, s.len, walk->from, PCRE2_NO_UTF_CHECK,
                             w->match, w->context);
        if (rc == PCRE2_ERROR_NOMATCH) break;
        if (rc == PCRE2_ERROR_NOMEMORY)
            return err_set(e, ERR_NOMEM, "tokenizer", -1, "no memory for matching a pattern");
        if (rc < 0)
            return err_set(e, ERR_LIMIT, "tokenizer", (long)walk->from,
                           "the pre-tokeniser pattern gives up on this text (PCRE2 error %d)", rc);
        const PCRE2_SIZE *at = pcre2_get_ovector_pointer(w->match);
        if (at[0] == at[1] && walk->end == at[1]) {
            uint32_t cp;
            walk->from += walk->from < s.len ? (size_t)utf8_decode(s, walk->from, &cp) : 1;
            continue;
        }
        walk->begin = at[0];
        walk->end = walk->from = at[1];
        walk->has_match = true;
        return ERR_OK;
    }
    walk->is_at_end = true;
    return ERR_OK;
}

status split_regex_next(const split_regex *r, split_regex_work *w, split_walk *walk, str *part,
                        err *e)
{
    size_t begin = walk->done, end = begin;
    while (end == begin && begin < walk->text.len) {
        if (!walk->has_match && !walk->is_at_end) TRY(find(r, w, walk, e));
        if (walk->has_match && walk->begin == begin) {
            walk->has_match = false;
            end = walk->end;
        } else {
            end = walk->has_match ? walk->begin : walk->text.len;
        }
    }
    walk->done = end;
    *part = str_slice(walk->text, begin, end);
    return ERR_OK;
}
