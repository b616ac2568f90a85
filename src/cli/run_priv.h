/* run: the flags of `riptide run`, shared by its one-shot and its interactive form. */
#ifndef RIPTIDE_CLI_RUN_PRIV_H
#define RIPTIDE_CLI_RUN_PRIV_H

#include "base/arena.h"
#include "base/option.h"
#include "engine/engine_flags.h"

typedef struct {
    engine_flags engine;
    const char *prompt, *messages, *ids, *ids_file, *stop;
    const char *json_schema, *grammar, *regex; /* files, and a text */
    bool is_raw, no_thinking, ignore_eos, wants_json;
    int64_t max_tokens, top_k, n, reasoning_budget;
    double temperature, top_p, min_p, repetition, presence, frequency;
    uint64_t seed;
    bool has_temperature, has_top_p, has_top_k, has_min_p, has_repetition, has_presence, has_seed;
} run_flags;

void run_flags_init(run_flags *f);
int run_flags_rows(run_flags *f, option_row *rows);

/* The model's defaults with what was given over them; a random seed where none was. */
policy run_flags_policy(const run_flags *f, const engine_info *info);
uint64_t run_random_seed(void);

/* run_grammar.c: what the answer must look like. */
typedef struct {
    grammar *grammar;   /* owned; NULL: anything */
    const json *schema; /* in the arena, or NULL */
} run_grammar;

/* From --json-schema, --grammar or --regex. Returns what reading and compiling return. */
status run_grammar_open(run_grammar *g, const run_flags *f, arena *a, err *e);
void run_grammar_close(run_grammar *g);
/* Whether a finished answer is what the schema asks for. Behind reasoning, if it has any. */
status run_grammar_check(const run_grammar *g, str text, err *e);
/* The prompt ends with an open <think>. */
bool run_is_open_think(const tokenizer *t, const token_ids *prompt);

#endif
