/* reuse: what of earlier work a new prompt can take over, and what makes room for new work.
 *
 * A key-value cache can be cut at any block; a recurrent state can only be resumed where it was
 * kept. So the usable prefix ends at the deepest *cell* (a kept state) on the matched path, and
 * this is the only place that knows. Numbers only: the bytes of a block are in model/state.c,
 * those of a cell and of a window in decode/snapshot.c.
 *
 *   block   64 tokens of keys and values: a node of the prefix tree, or private to a lane
 *   cell    the recurrent state after a node's last token; free, lent to a lane, or on a node
 *   window  the draft's context of one node's 64 tokens; may go without harm to any output
 *
 * Eviction: a node without children and without a cell helps nobody and goes first, oldest first.
 * After those a cell goes whose loss costs least: tokens to compute again (back to the cell
 * before it) times the time that takes, which is as their number, times a weight, over the tokens
 * that the engine has processed since it was last used. So one session's states in passing thin
 * out towards its beginning, and short requests, which are cheap to repeat and hardly move that
 * clock, do not push out a long session.
 *
 * Invariant: free blocks + blocks held by lanes + unheld nodes = n_blocks; likewise free, lent
 * and attached cells = n_cells.
 * Thread: the engine thread only; there is no lock. After open nothing allocates. */
#ifndef RIPTIDE_CACHE_REUSE_H
#define RIPTIDE_CACHE_REUSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct reuse reuse;

typedef struct {
    int n_blocks;
    int n_lanes;
    int n_cells;        /* at least n_lanes + 1, or 0: nothing is cached */
    int n_windows;      /* 0 without a draft */
    bool evicts_always; /* tests: every take of a block or cell evicts one that it may */
} reuse_options;

status reuse_open(reuse **r, const reuse_options *o, err *e);
void reuse_close(reuse *r); /* NULL is fine */
bool reuse_is_on(const reuse *r);

/* Tokens were processed, by any lane: the clock of recency. */
void reuse_advance(reuse *r, int64_t n_tokens);

/* ---- blocks ---- */

/* Blocks that lanes could take: free, or in nodes that no lane holds. */
int reuse_n_available(const reuse *r);

/* Take n blocks for a lane, evicting nodes as needed.
 *
 * ids      [n] out; written only on ERR_OK
 * Returns  LIMIT when fewer than n are available; then nothing is taken or evicted */
status reuse_take(reuse *r, int n, int32_t *ids);

/* A lane holds these nodes too, or lets go of blocks; a private block is then free again. */
void reuse_hold(reuse *r, const int32_t *ids, int n);
void reuse_drop(reuse *r, const int32_t *ids, int n);

/* ---- prefixes ---- */

typedef enum {
    REUSE_WHOLE,    /* all whole blocks of the prompt but for its last token */
    REUSE_DIFFERS,  /* the next block's tokens are not in the tree */
    REUSE_NO_STATE, /* they are, but no state was kept there */
    REUSE_REASONS,
} reuse_reason;

typedef struct {
    int n_blocks; /* that can be taken over: the path to the cell */
    int n_match;  /* whose tokens are in the tree, >= n_blocks */
    int32_t cell; /* -1 when n_blocks is 0 */
    reuse_reason reason;
} reuse_found;

/* The longest prefix to take over; at least the prompt's last token is left. Counts as a use of
 * the cell.
 *
 * path  out [n_ids / 64]: the matched nodes */
reuse_found reuse_match(reuse *r, const int32_t *ids, int n_ids, int32_t *path);

/* The same question without an answer's effects: how many blocks could be taken over. */
int reuse_peek(const reuse *r, const int32_t *ids, int n_ids);

/* Of those blocks, the ones that lanes hold already: taking them over needs no room. */
int reuse_peek_held(const reuse *r, const int32_t *ids, int n_ids);

/* A lane's block is complete: make it a node below parent (PREFIX_ROOT for the first). When there
 * is such a node already the lane gets that instead and its own block is given back.
 *
 * Returns  the node's block, held by the lane */
int32_t reuse_publish(reuse *r, int32_t parent, const int32_t *ids, int32_t block);

/* Forget every node, cell and window (their content is in doubt). Lanes keep what they hold. */
void reuse_clear(reuse *r);

/* Forget this node and all below it alike; lanes that hold any of them keep its blocks and may not
 * publish below them. */
void reuse_forget(reuse *r, int32_t block);

/* ---- cells ---- */

/* Lend a cell to a lane; evicts when none is free. At most one a lane. */
int32_t reuse_cell_take(reuse *r);
void reuse_cell_drop(reuse *r, int32_t cell);

typedef enum {
    REUSE_PASSING,  /* on the way through a prompt or an answer */
    REUSE_TURN,     /* where a message of a session begins, which has gone on from there */
    REUSE_END,      /* where the next prompt of a session is expected to leave this one */
    REUSE_EXPECTED, /* where prompts of other sessions are */
} reuse_weight;

/* Hang a lent cell on a node; a node that has one keeps it and the cell is free again. */
void reuse_cell_attach(reuse *r, int32_t block, int32_t cell, reuse_weight weight);
bool reuse_has_cell(const reuse *r, int32_t block);

/* The node's cell is worth as much as this, if it was worth less. */
void reuse_cell_raise(reuse *r, int32_t block, reuse_weight weight);

/* The session has gone on: ends on the way from the root to this node are those of turns now. */
void reuse_pass_ends(reuse *r, int32_t block);

/* ---- windows ---- */

/* The node's window, which is thereby used, or -1. */
int32_t reuse_window_use(reuse *r, int32_t block);

/* Give the node a window, the longest unused one when none is free; -1 when all were used at
 * this very time. */
int32_t reuse_window_take(reuse *r, int32_t block);

/* ---- counters ---- */

typedef struct {
    int64_t lookups, hits;         /* prompts asked for, and that took something over */
    int64_t reused_tokens;         /* taken over */
    int64_t stops[REUSE_REASONS];  /* why each lookup took over no more */
    int64_t published, duplicates; /* blocks made nodes; found to be there already */
    int64_t evicted_blocks, evicted_cells, evicted_windows;
    int64_t clears;
    int n_blocks, n_free, n_nodes, n_held; /* held by lanes; nodes may be held too */
    int n_cells, n_cells_free, n_cells_attached;
} reuse_counters;
reuse_counters reuse_stats(const reuse *r);

#endif
