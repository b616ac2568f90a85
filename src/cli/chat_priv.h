/* chat: the conversation loop of `riptide run` without a prompt. */
#ifndef RIPTIDE_CLI_CHAT_PRIV_H
#define RIPTIDE_CLI_CHAT_PRIV_H

#include "cli/run_priv.h"

/* Read user messages line by line from standard input (a trailing backslash continues a line) and
 * answer each with the whole conversation so far. /exit or end of input leaves, /clear starts
 * over, /help tells. On a terminal reasoning is shown dimly, lines can be edited and are
 * remembered, and Ctrl+C stops the answer alone; elsewhere only answers are written. Returns the
 * exit status. */
int chat_loop(const run_flags *f, engine *en);

/* --- chat_history.c ----------------------------------------------------------------------------
 */

/* Read what was asked before: $XDG_STATE_HOME/riptide/history or ~/.local/state/riptide/history.
 * Returns its path in the arena, or NULL where there is no place for one. */
const char *chat_history_open(arena *a);
/* Readable by the user alone. NULL is fine. */
void chat_history_save(const char *path);

#endif
