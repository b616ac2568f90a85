/* run: the flags of `riptide run`, shared by its one-shot and its interactive form. */
#ifndef RIPTIDE_CLI_RUN_PRIV_H
#define RIPTIDE_CLI_RUN_PRIV_H

#include "base/option.h"
#include "engine/engine_flags.h"

typedef struct {
    engine_flags engine;
    const char *prompt, *messages, *ids, *ids_file, *stop;
    bool is_raw, no_thinking, ignore_eos, wants_json;
    int64_t max_tokens, top_k, n;
    double temperature, top_p, min_p, repetition, presence, frequency;
    uint64_t seed;
    bool has_temperature, has_top_p, has_top_k, has_min_p, has_repetition, has_presence, has_seed;
} run_flags;

void run_flags_init(run_flags *f);
int run_flags_rows(run_flags *f, option_row *rows);

/* The model's defaults with what was given over them; a random seed where none was. */
policy run_flags_policy(const run_flags *f, const engine_info *info);
uint64_t run_random_seed(void);

#endif
