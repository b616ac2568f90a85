/* grammar: what a reply may look like, byte by byte, and which tokens keep it so.
 *
 * A grammar is compiled once from a JSON Schema, a grammar text or a regular expression; it never
 * changes and may be shared by any number of replies and threads. It is a pushdown automaton with
 * counters: an array of 10,000 elements costs as much as one of 2. Every state of it can be
 * finished, so a reply that follows the masks never runs into a dead end, except beyond the limits
 * named below, which only ever take texts away.
 *
 * A grammar_state is one reply in progress. How an engine uses it, with or without proposals:
 *
 *     grammar_state_open(&s, g, tokens, 16, e)        at submit; the only call that allocates
 *     grammar_state_mask(s, row0)                     mask of the next token
 *     grammar_state_advance(s, proposal1); grammar_state_mask(s, row1) ...    one row a proposal;
 *                                                     a refused proposal ends the useful rows
 *     grammar_state_rollback(s, n_advanced)           back to the last emitted token
 *     grammar_state_advance(s, id) for each emitted id
 *
 * The grammar starts where the caller starts it: with reasoning on, after the reasoning has ended.
 * Special tokens are never allowed, but for the given end tokens where the text may end.
 * Masks depend on the state alone, never on caches or company. */
#ifndef RIPTIDE_GRAMMAR_GRAMMAR_H
#define RIPTIDE_GRAMMAR_GRAMMAR_H

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "token/vocab.h"

typedef struct grammar grammar;

typedef struct {
    int space_most;  /* most white space bytes in one place of JSON; 0 = compact */
    bool is_lenient; /* leave out what cannot be compiled instead of refusing */
} grammar_json_options;
enum { GRAMMAR_SPACE_DEFAULT = 64, GRAMMAR_BYTES_MOST = 4 << 20 };

/* What a lenient compilation left out. */
typedef struct {
    int n_left_out;
    char first[160]; /* JSON pointer of the first; "" when nothing was */
} grammar_notes;

/* Compile a JSON Schema (src/grammar/README.md lists the keywords). Properties come in the order
 * written, additional ones behind them. A reference may point anywhere inside `schema`.
 *
 * schema   borrowed during the call
 * opt      NULL: GRAMMAR_SPACE_DEFAULT, not lenient
 * notes    NULL is fine
 * Returns  UNSUPPORTED (a keyword we do not take), FORMAT (no schema), INVALID (no value can
 *          satisfy it), LIMIT, NOMEM; err.where is the JSON pointer of the place, e.g.
 *          "#/properties/a/not"
 * Owns     the caller closes *g; the same for the other two */
status grammar_open_schema(grammar **g, const json *schema, const grammar_json_options *opt,
                           grammar_notes *notes, err *e);

/* Any JSON object. */
status grammar_open_json_object(grammar **g, const grammar_json_options *opt, err *e);

/* Rules `name ::= ...`, the first or the one called root being the start; the README says what
 * may stand in them. Returns as above; err.where is "grammar", err.pos the byte. */
status grammar_open_gbnf(grammar **g, str text, err *e);

/* A regular expression that the whole reply matches. err.where is "regex". */
status grammar_open_regex(grammar **g, str pattern, err *e);

/* Calls of tools in the Qwen form, one block after another with a line end between them:
 *
 *     <tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n ...
 * </function>\n</tool_call>
 *
 * A strict tool has its declared parameters in the order written, each at most once, required ones
 * at least; a string stands as it is (and cannot hold the closing tag), other types as JSON. The
 * others have any parameters with any text. */
typedef struct {
    const json *tools; /* the array of a Chat request: {"type":"function","function":{...}} */
    str only;          /* the one function that may be called; empty: any */
    int least, most;   /* calls; most -1: any number */
    bool has_text;     /* other text may come first */
    bool all_strict;   /* every tool, whatever its "strict" says */
    const str *strict; /* [n_strict] names of functions that are strict whatever theirs says */
    int n_strict;
    const json *answer; /* a schema: instead of calls the text is a value of it; NULL: not so */
} grammar_tools_wish;

/* Returns as grammar_open_schema, err.where being the function's name and the JSON pointer in its
 * parameters; INVALID when there is no tool to call. */
status grammar_open_tools(grammar **g, const grammar_tools_wish *w, const grammar_json_options *opt,
                          grammar_notes *notes, err *e);

/* One more owner of g, which is returned; each closes it. Thread: any, as for closing. */
grammar *grammar_hold(grammar *g);
/* NULL is fine. With the last owner's call it is gone: no state of it may be open then. */
void grammar_close(grammar *g);

/* The bytes of a vocabulary as a tree, and caches of masks. One for a model; its memory is taken
 * at open, some 35 MB for 250,000 tokens. A state takes about 0.7 MB and 16 KB a step of history.
 * Thread: one call at a time over all states that use it. */
typedef struct grammar_tokens grammar_tokens;

/* V        ids a mask has (the model's logits); ids beyond the vocabulary are never allowed
 * eos      [n_eos] ids that end a reply, copied
 * Borrows  v */
status grammar_tokens_open(grammar_tokens **t, const vocab *v, int V, const int32_t *eos, int n_eos,
                           err *e);
void grammar_tokens_close(grammar_tokens *t);

typedef struct grammar_state grammar_state;

/* Limits of one state: beyond them alternatives are dropped, which never lets a wrong text pass. */
enum { GRAMMAR_THREADS_MOST = 1024, GRAMMAR_DEPTH_MOST = 1000 };

/* history  how many calls of advance can be rolled back at least
 * Borrows  g, and t, which may be NULL for a state that is only fed bytes */
status grammar_state_open(grammar_state **s, const grammar *g, grammar_tokens *t, int history,
                          err *e);
/* The same place again, without its history. */
status grammar_state_fork(grammar_state **copy, const grammar_state *s, err *e);
/* Read masks from another vocabulary from now on. Borrows t. */
void grammar_state_use_tokens(grammar_state *s, grammar_tokens *t);
void grammar_state_close(grammar_state *s);

/* Take a token; false, and nothing has changed, when it does not fit. An end token fits where the
 * text may end; nothing fits after it. */
bool grammar_state_advance(grammar_state *s, int32_t id);
/* The same for bytes (one step of history); they may end within a character. */
bool grammar_state_advance_bytes(grammar_state *s, str bytes);

/* Undo the last n steps, n at most grammar_state_steps(). */
void grammar_state_rollback(grammar_state *s, int n);
int grammar_state_steps(const grammar_state *s);

bool grammar_state_can_end(const grammar_state *s);

/* The tokens that fit here, as the op `sample` reads them: word id / 32, bit id % 32.
 *
 * words    [(V + 31) / 32] out
 * Returns  how many are allowed: 0 only past the limits or after an end token
 * Cost     tens of microseconds when the place or one like it was seen before */
int grammar_state_mask(grammar_state *s, uint32_t *words);

#endif
