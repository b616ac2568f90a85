/* split_regex: cutting text at the matches of a pattern, by PCRE2.
 *
 * Thread: a split_regex never changes; a split_regex_work belongs to one call at a time. */
#ifndef RIPTIDE_TOKEN_SPLIT_REGEX_PRIV_H
#define RIPTIDE_TOKEN_SPLIT_REGEX_PRIV_H

#include "base/err.h"
#include "base/str.h"

typedef struct split_regex split_regex;
typedef struct split_regex_work split_regex_work;

/* A pattern as tokenizer.json has it; see regex_rewrite for what is taken. */
status split_regex_open(split_regex **r, str pattern, const char *name, err *e);
void split_regex_close(split_regex *r);

/* Room for matching, good for any number of patterns. Returns NOMEM. */
status split_regex_work_open(split_regex_work **w, err *e);
void split_regex_work_close(split_regex_work *w);

/* Where a walk over one text stands. Begin with {.text = ...}. */
typedef struct {
    str text;          /* well-formed UTF-8 */
    size_t done;       /* all parts up to here were given out */
    size_t from;       /* where the search goes on */
    size_t begin, end; /* the last match */
    bool has_match;    /* it was not given out yet */
    bool is_at_end;    /* there are no more matches */
} split_walk;

/* The next part: a match, or what lies between two matches; none is empty. *part is empty at the
 * end of the text.
 *
 * Returns  LIMIT when the pattern takes too many steps on this text; NOMEM */
status split_regex_next(const split_regex *r, split_regex_work *w, split_walk *walk, str *part,
                        err *e);

#endif
