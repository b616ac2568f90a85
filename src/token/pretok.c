#include "token/pretok_priv.h"

#include "token/unicode_priv.h"

static const char qwen2[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
                            "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
static const char qwen35[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
    "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const char pretok_gpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

pretok_kind pretok_find(str pattern)
{
    if (str_is(pattern, qwen2)) return PRETOK_QWEN2;
    return str_is(pattern, qwen35) ? PRETOK_QWEN35 : PRETOK_REGEX;
}

str pretok_pattern(pretok_kind kind)
{
    return kind == PRETOK_QWEN2 ? STR(qwen2) : kind == PRETOK_QWEN35 ? STR(qwen35) : STR("");
}

static inline bool is_newline(char c)
{
    return c == '\r' || c == '\n';
}

/* Bytes of 's 't 're 've 'm 'll 'd in any case at an apostrophe, or 0. */
static size_t match_contraction(str s, size_t pos)
{
    size_t left = s.len - pos;
    if (left < 2) return 0;
    const char *p = s.ptr + pos;
    char a = p[1] | 0x20, b = left > 2 ? p[2] | 0x20 : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if ((a == 'r' || a == 'v') && b == 'e') return 3;
    if (a == 'l' && b == 'l') return 3;
    /* U+017F, the long s, is a form of s */
    return left > 2 && p[1] == '\xc5' && p[2] == '\xbf' ? 3 : 0;
}

/* The end of the run of characters with one of these flags. */
static inline size_t skip_run(str s, size_t pos, uint8_t flags)
{
    int n;
    while (pos < s.len && (unicode_flags_at(s.ptr + pos, &n) & flags)) pos += (size_t)n;
    return pos;
}

/*  ?[^\s\p{L}\p{N}]+[\r\n]*  from behind its first character on; flags are those it excludes. */
static inline size_t skip_punctuation(str s, size_t pos, uint8_t flags)
{
    int n;
    while (pos < s.len && !(unicode_flags_at(s.ptr + pos, &n) & flags)) pos += (size_t)n;
    while (pos < s.len && is_newline(s.ptr[pos])) pos++;
    return pos;
}

/*  \s*[\r\n]+|\s+(?!\S)|\s+  A run of white space goes up to its last line end. Without one, and
 * with text after it, its last character is left for the next word, unless it is the only one. */
static size_t skip_space(str s, size_t pos)
{
    size_t begin = pos, last = pos, after_newline = 0;
    int n;
    while (pos < s.len && (unicode_flags_at(s.ptr + pos, &n) & UNICODE_SPACE)) {
        if (is_newline(s.ptr[pos])) after_newline = pos + 1;
        last = pos;
        pos += (size_t)n;
    }
    if (after_newline) return after_newline;
    return pos == s.len || last == begin ? pos : last;
}

/* `letter` are the flags of what makes up a word. */
static inline size_t next_word(str s, size_t pos, uint8_t letter)
{
    const uint8_t not_other = letter | UNICODE_NUMBER | UNICODE_SPACE;
    char c = s.ptr[pos];
    if (c == '\'') {
        size_t n_bytes = match_contraction(s, pos);
        if (n_bytes) return pos + n_bytes;
    }
    int n;
    uint8_t first = unicode_flags_at(s.ptr + pos, &n);
    size_t next = pos + (size_t)n;
    if (first & letter) return skip_run(s, next, letter);
    if (first & UNICODE_NUMBER) return next;
    uint8_t second = next < s.len ? unicode_flags_at(s.ptr + next, &n) : UNICODE_SPACE;
    if ((second & letter) && !is_newline(c)) return skip_run(s, next + (size_t)n, letter);
    if (!(first & UNICODE_SPACE)) return skip_punctuation(s, next, not_other);
    if (c == ' ' && !(second & not_other)) return skip_punctuation(s, next + (size_t)n, not_other);
    return skip_space(s, pos);
}

size_t pretok_next(pretok_kind kind, str text, size_t pos)
{
    return kind == PRETOK_QWEN35 ? next_word(text, pos, UNICODE_LETTER | UNICODE_MARK)
                                 : next_word(text, pos, UNICODE_LETTER);
}
