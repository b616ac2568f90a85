/* chat: the conversation loop of `riptide run` without a prompt. */
#ifndef RIPTIDE_CLI_CHAT_PRIV_H
#define RIPTIDE_CLI_CHAT_PRIV_H

#include "cli/run_priv.h"

/* Read user messages line by line from standard input (a trailing backslash continues a line) and
 * answer each with the whole conversation so far. /exit or end of input leaves, /clear starts
 * over. Returns the exit status. */
int chat_loop(const run_flags *f, engine *en);

#endif
