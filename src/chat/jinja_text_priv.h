/* jinja_text: strings that remember where each byte came from.
 *
 * A byte is template text (written in the template, or made by it) or input (it came with the
 * messages, tools or variables). The mark follows the byte through slicing, replacing and
 * joining, so that the renderer can say which bytes of the prompt a user could have chosen.
 * Texts are immutable, live in an arena and may share their bytes. Thread: any for reading. */
#ifndef RIPTIDE_CHAT_JINJA_TEXT_PRIV_H
#define RIPTIDE_CHAT_JINJA_TEXT_PRIV_H

#include "base/arena.h"
#include "base/str.h"

/* A run of bytes of one origin; it starts where the run before it ends. */
typedef struct {
    size_t end;
    bool is_input;
} jrun;

typedef struct {
    str s;            /* UTF-8, borrowed from the arena, the template or the input */
    bool is_input;    /* origin of all bytes when n_runs is 0 */
    bool is_safe;     /* markupsafe.Markup: `+` and friends escape what they join to it */
    int n_runs;       /* two or more when the origin is mixed, else 0 */
    const jrun *runs; /* [n_runs], ascending, the last end is s.len */
} jtext;

/* NULL when out of memory. */
const jtext *jtext_new(arena *a, str s, bool is_input);
/* Bytes [from, to) of t, sharing them. */
const jtext *jtext_slice(arena *a, const jtext *t, size_t from, size_t to);
/* The same text with another Markup mark. */
const jtext *jtext_mark(arena *a, const jtext *t, bool is_safe);

/* Collects a text piece by piece. A failed growth sets `failed` and later puts do nothing.
 * Content beyond `limit` bytes fails too and sets `is_over`. */
typedef struct {
    arena *a;
    char *ptr;
    size_t len, cap, limit;
    jrun *runs;
    int n_runs, cap_runs;
    bool failed, is_over;
} jbuilder;

void jbuilder_init(jbuilder *b, arena *a, size_t limit);
void jbuilder_put(jbuilder *b, str s, bool is_input);
void jbuilder_put_byte(jbuilder *b, char c, bool is_input);
void jbuilder_put_cp(jbuilder *b, uint32_t cp, bool is_input);
void jbuilder_put_text(jbuilder *b, const jtext *t);
/* Bytes [from, to) of t with their origins. */
void jbuilder_put_slice(jbuilder *b, const jtext *t, size_t from, size_t to);
/* What was collected, sharing the builder's bytes; NULL when failed. */
const jtext *jbuilder_text(jbuilder *b);

/* Walks over the runs of a text: jtext_next gives the next piece of one origin. */
typedef struct {
    size_t at;
    int run;
} jtext_walk;
bool jtext_next(const jtext *t, jtext_walk *w, str *piece, bool *is_input);
/* Origin of the byte at `pos` (pos < len). */
bool jtext_is_input_at(const jtext *t, size_t pos);

#endif
