/* bench: what the subcommands share. */
#ifndef RIPTIDE_BENCH_BENCH_PRIV_H
#define RIPTIDE_BENCH_BENCH_PRIV_H

#include "base/buf.h"
#include "base/option.h"

/* argv[0] = the subcommand. Return the exit status. */
int bench_make_model(int argc, char **argv);
int bench_decode_profile(int argc, char **argv);
int bench_agent_replay(int argc, char **argv);
int bench_abba(int argc, char **argv);
int bench_backend(int argc, char **argv);
int bench_oracle(int argc, char **argv);
int bench_soak(int argc, char **argv);
int bench_score(int argc, char **argv);

/* Parse flags only. Returns -1 to go on, else the exit status (help: 0, wrong flag: 2). */
int bench_parse(const option_row *rows, const char *usage, int argc, char **argv);
/* Print the error to standard error; returns 1. */
int bench_fail(const char *command, const err *e);
/* Print a --json record to standard output and give its memory back.
 *
 * Returns  NOMEM for one that did not fit into memory; IO */
status bench_print_record(buf *record, err *e);
/* For qsort of doubles, ascending. */
int bench_by_value(const void *a, const void *b);

#endif
