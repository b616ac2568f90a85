/* bench: `riptide bench`: models of the real shapes with random weights, and measurements.
 *
 * One subcommand a row of the table in bench.c. */
#ifndef RIPTIDE_BENCH_BENCH_H
#define RIPTIDE_BENCH_BENCH_H

/* argv[0] = "bench", argv[1] = the subcommand. Returns the exit status. */
int bench_command(int argc, char **argv);

#endif
