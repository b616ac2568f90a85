/* option: one table row per flag; parses argv and the environment and prints help.
 *
 * A flag --max-context is also RIPTIDE_MAX_CONTEXT; argv wins, and a variable set to nothing counts
 * as not set. The only getenv of the program. */
#ifndef RIPTIDE_BASE_OPTION_H
#define RIPTIDE_BASE_OPTION_H

#include "base/err.h"
#include "base/str.h"

typedef enum {
    OPTION_FLAG,   /* bool *; --name and --no-name */
    OPTION_INT,    /* int64_t *; within [min, max] */
    OPTION_DOUBLE, /* double *; within [min, max] */
    OPTION_TEXT,   /* const char ** */
    OPTION_SIZE,   /* int64_t *; binary suffixes K M G, also KB KiB; within [min, max] */
    OPTION_CHOICE, /* const char **; one of the '|' separated words in `choices` */
    OPTION_SEED,   /* uint64_t * */
} option_type;

typedef struct {
    const char *name; /* without dashes; NULL ends a table */
    option_type type;
    void *target;        /* holds the default beforehand */
    double min, max;     /* INT, DOUBLE, SIZE */
    const char *choices; /* CHOICE */
    const char *help;
    bool *was_set; /* NULL, or told when argv or the environment gave it */
} option_row;

/* Parse argv[1..]. `rest` (may be NULL) takes the first positional arguments, up to max_rest;
 * without it a positional argument is an error. "--" ends options. --help sets *wants_help.
 *
 * Returns  INVALID with where = the flag */
status option_parse(const option_row *rows, int argc, char **argv, const char **rest, int max_rest,
                    int *n_rest, bool *wants_help, err *e);
void option_print_help(const option_row *rows, const char *usage);

/* The environment variable RIPTIDE_<NAME> (or `name` itself when `is_plain`), or NULL. */
const char *option_env(const char *name, bool is_plain);

#endif
