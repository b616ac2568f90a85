#include "token/added_priv.h"

#include "base/mem.h"
#include "token/unicode_priv.h"

static int32_t child_of(const added_set *s, int32_t node, unsigned char byte)
{
    if (node == 0) return s->first[byte];
    int32_t child = s->nodes[node].child;
    while (child && s->nodes[child].byte != byte) child = s->nodes[child].sibling;
    return child;
}

static int32_t add_child(added_set *s, int32_t node, unsigned char byte)
{
    int32_t child = s->n_nodes++;
    s->nodes[child] = (added_node){.token = -1, .byte = byte};
    if (node == 0) {
        s->first[byte] = child;
    } else {
        s->nodes[child].sibling = s->nodes[node].child;
        s->nodes[node].child = child;
    }
    return child;
}

static void add_pattern(added_set *s, str pattern, int token)
{
    int32_t node = 0;
    for (size_t k = 0; k < pattern.len; k++) {
        unsigned char byte = (unsigned char)pattern.ptr[k];
        int32_t child = child_of(s, node, byte);
        node = child ? child : add_child(s, node, byte);
    }
    if (node != 0 && s->nodes[node].token < 0) s->nodes[node].token = token;
}

status added_set_init(added_set *s, const added_token *tokens, const str *patterns, int n, err *e)
{
    size_t n_nodes = 1;
    for (int i = 0; i < n; i++) n_nodes += patterns[i].len;
    *s = (added_set){.tokens = tokens, .n_nodes = 1};
    if (n_nodes > INT32_MAX || !(s->nodes = mem_new_array(n_nodes, sizeof *s->nodes)))
        return err_set(e, ERR_NOMEM, "added tokens", -1, "%zu bytes of text", n_nodes);
    s->nodes[0].token = -1;
    for (int i = 0; i < n; i++)
        if (tokens[i].special) add_pattern(s, patterns[i], i);
    for (int i = 0; i < n; i++)
        if (!tokens[i].special) add_pattern(s, patterns[i], i);
    return ERR_OK;
}

void added_set_fini(added_set *s)
{
    mem_free(s->nodes);
    *s = (added_set){0};
}

const added_token *added_set_get(const added_set *s, str pattern)
{
    int32_t node = 0;
    for (size_t i = 0; i < pattern.len; i++) {
        node = child_of(s, node, (unsigned char)pattern.ptr[i]);
        if (!node) return NULL;
    }
    return s->nodes[node].token < 0 ? NULL : &s->tokens[s->nodes[node].token];
}

const added_token *added_set_match(const added_set *s, str text, size_t from, size_t to,
                                   size_t *start, size_t *stop)
{
    for (; from < to; from++) {
        int32_t node = s->first[(unsigned char)text.ptr[from]], found = -1;
        for (size_t at = from + 1; node; at++) {
            if (s->nodes[node].token >= 0) {
                found = s->nodes[node].token;
                *stop = at;
            }
            if (at == to) break;
            node = child_of(s, node, (unsigned char)text.ptr[at]);
        }
        if (found < 0) continue;
        *start = from;
        return &s->tokens[found];
    }
    return NULL;
}

static bool is_beside_word(str text, size_t start, size_t stop)
{
    int n;
    if (start > 0) {
        size_t before = start - (size_t)unicode_back(text.ptr, (int64_t)start);
        if (unicode_flags_at(text.ptr + before, &n) & UNICODE_WORD) return true;
    }
    return stop < text.len && (unicode_flags_at(text.ptr + stop, &n) & UNICODE_WORD);
}

bool added_token_fit(const added_token *t, str text, size_t from, size_t *start, size_t *stop)
{
    if (t->single_word && is_beside_word(text, *start, *stop)) return false;
    size_t a = *start, b = *stop;
    int n;
    while (t->lstrip && a > from) {
        n = unicode_back(text.ptr, (int64_t)a);
        int n_same;
        if (!(unicode_flags_at(text.ptr + a - n, &n_same) & UNICODE_SPACE)) break;
        a -= (size_t)n;
    }
    while (t->rstrip && b < text.len) {
        if (!(unicode_flags_at(text.ptr + b, &n) & UNICODE_SPACE)) break;
        b += (size_t)n;
    }
    *start = a;
    *stop = b;
    return true;
}
