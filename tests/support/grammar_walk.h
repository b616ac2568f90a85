/* grammar_walk: a random text of a grammar, byte by byte; every state must be able to go on or end.
 * For unit tests and fuzz targets. */
#ifndef RIPTIDE_TESTS_GRAMMAR_WALK_H
#define RIPTIDE_TESTS_GRAMMAR_WALK_H

#include "base/asserts.h"
#include "base/buf.h"
#include "grammar/grammar.h"

/* Bytes that fit here, in ascending order. */
static inline int grammar_walk_bytes(grammar_state *s, char *out)
{
    int n = 0;
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        if (!grammar_state_advance_bytes(s, (str){&c, 1})) continue;
        grammar_state_rollback(s, 1);
        out[n++] = c;
    }
    return n;
}

/* Append a text; true when it is whole, false when it is still unfinished after `most` bytes.
 * `pick(ctx, n)` gives a number below n. After half of the bytes what closes is preferred. */
static inline bool grammar_walk(const grammar *g, int most, uint64_t (*pick)(void *, uint64_t),
                                void *ctx, buf *out)
{
    grammar_state *s = NULL;
    bool is_whole = false;
    if (grammar_state_open(&s, g, NULL, 4, NULL) != ERR_OK) return false;
    for (int i = 0; i < most && !is_whole; i++) {
        char fit[256];
        int n = grammar_walk_bytes(s, fit);
        bool can_end = grammar_state_can_end(s), closes = i > most / 2;
        ASSERT(n > 0 || can_end);
        if (can_end && (n == 0 || closes || pick(ctx, 4) == 0)) {
            is_whole = true;
            break;
        }
        char c = fit[pick(ctx, (uint64_t)n)];
        for (int k = n - 1; closes && k >= 0; k--)
            if (strchr("\"]}", fit[k]) && fit[k]) c = fit[k];
        ASSERT(grammar_state_advance_bytes(s, (str){&c, 1}));
        buf_put_byte(out, c);
    }
    grammar_state_close(s);
    return is_whole;
}

#endif
