/* command: one function a command; argv[0] is the command's own name. Each returns the exit
 * status: 0 fine, 1 it failed, 2 it was called wrongly. Errors go to standard error, results to
 * standard output. */
#ifndef RIPTIDE_CLI_COMMAND_PRIV_H
#define RIPTIDE_CLI_COMMAND_PRIV_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/option.h"

int command_run(int argc, char **argv);
int command_logits(int argc, char **argv);
int command_tokenize(int argc, char **argv);
int command_template(int argc, char **argv);
int command_info(int argc, char **argv);
int command_pull(int argc, char **argv);
/* argv[0] names the agent. */
int command_agent(int argc, char **argv);
int command_convert(int argc, char **argv);

/* Parse with help: returns -1 to go on, else the exit status to leave with. */
int command_parse(const option_row *rows, const char *usage, int argc, char **argv);

/* Print "riptide COMMAND: where: msg" and return 1. */
int command_fail(const char *command, const err *e);

/* Write all of b to standard output; returns the exit status. */
int command_print(const char *command, const buf *b);

/* Run `work` with an arena of its own and print what it puts into `out`, or its error. Returns the
 * exit status. */
typedef status command_work(void *ctx, arena *a, buf *out, err *e);
int command_output(const char *command, command_work *work, void *ctx);

/* "1,2,3", or the content of a file of ids separated by commas or white space (a JSON array is
 * fine). ids in the arena. */
status command_parse_ids(arena *a, str text, const char *name, int32_t **ids, int *n, err *e);
status command_read_ids(arena *a, const char *ids, const char *ids_file, int32_t **out, int *n,
                        err *e);

#endif
