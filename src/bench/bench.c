#include "bench/bench.h"

#include <stdio.h>
#include <string.h>

#include "bench/bench_priv.h"

typedef struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} bench_row;

static const bench_row table[] = {
    {"make-model", bench_make_model, "write a random-weight checkpoint of a real shape"},
    {"decode-profile", bench_decode_profile, "time, bytes and share of the floor per stage"},
    {"agent-replay", bench_agent_replay, "a growing session and what the prompt cache makes of it"},
    {"abba", bench_abba, "two builds or settings in rounds A B B A, a verdict for each metric"},
    {"backend", bench_backend, "what an engine takes for the kinds of work that agents give it"},
    {"oracle", bench_oracle, "the same answers by every way there is to compute them"},
    {"soak", bench_soak, "many clients at random, for long, every answer compared"},
    {"score", bench_score, "perplexity, first tokens and KL divergence against ref"},
};

static void print_usage(FILE *to)
{
    fprintf(to, "usage: riptide bench COMMAND [flags]; riptide bench COMMAND --help\n\n");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        fprintf(to, "  %-15s %s\n", table[i].name, table[i].help);
}

int bench_parse(const option_row *rows, const char *usage, int argc, char **argv)
{
    bool wants_help = false;
    err e = {0};
    status s = option_parse(rows, argc, argv, NULL, 0, NULL, &wants_help, &e);
    if (wants_help) {
        option_print_help(rows, usage);
        return 0;
    }
    if (s == ERR_OK) return -1;
    bench_fail(argv[0], &e);
    return 2;
}

int bench_fail(const char *command, const err *e)
{
    char text[512];
    err_format(e, text, sizeof text);
    fprintf(stderr, "riptide bench %s: %s\n", command, text);
    return 1;
}

status bench_print_record(buf *record, err *e)
{
    status s = ERR_OK;
    if (record->failed)
        s = err_set(e, ERR_NOMEM, "output", -1, "out of memory");
    else if (fwrite(record->ptr, 1, record->len, stdout) != record->len || fflush(stdout) != 0)
        s = err_set(e, ERR_IO, "standard output", -1, "write failed");
    buf_fini(record);
    return s;
}

int bench_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int bench_command(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(name, table[i].name) == 0) return table[i].run(argc - 1, argv + 1);
    bool asked = strcmp(name, "--help") == 0 || strcmp(name, "help") == 0;
    if (argc > 1 && !asked) fprintf(stderr, "riptide bench: there is no command \"%s\"\n", name);
    print_usage(asked ? stdout : stderr);
    return asked ? 0 : 2;
}
