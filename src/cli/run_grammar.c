/* --json-schema, --grammar and --regex of `riptide run`. */
#include "base/file.h"
#include "base/json.h"
#include "cli/run_priv.h"
#include "grammar/schema_check.h"

enum { SCHEMA_DEPTH_MAX = 128, ANSWER_DEPTH_MAX = 1024 };

static status read_schema(run_grammar *g, const char *path, arena *a, err *e)
{
    str text;
    TRY(file_read(a, path, GRAMMAR_BYTES_MOST, &text, e));
    TRY(json_parse(a, text, path, SCHEMA_DEPTH_MAX, 0, &g->schema, e));
    return grammar_open_schema(&g->grammar, g->schema, NULL, NULL, e);
}

status run_grammar_open(run_grammar *g, const run_flags *f, arena *a, err *e)
{
    str text;
    *g = (run_grammar){0};
    if (!!f->json_schema + !!f->grammar + !!f->regex > 1)
        return err_set(e, ERR_INVALID, "--json-schema, --grammar, --regex", -1, "give one of them");
    if (f->json_schema) return read_schema(g, f->json_schema, a, e);
    if (f->regex) return grammar_open_regex(&g->grammar, str_from(f->regex), e);
    if (!f->grammar) return ERR_OK;
    TRY(file_read(a, f->grammar, GRAMMAR_BYTES_MOST, &text, e));
    return grammar_open_gbnf(&g->grammar, text, e);
}

void run_grammar_close(run_grammar *g)
{
    grammar_close(g->grammar);
    *g = (run_grammar){0};
}

status run_grammar_check(const run_grammar *g, str text, err *e)
{
    arena a;
    const json *value = NULL;
    bool valid = false;
    int64_t close = str_find(text, STR("</think>"), 0);
    if (!g->schema) return ERR_OK;
    if (close >= 0) text = str_skip(text, (size_t)close + sizeof "</think>" - 1);
    arena_init(&a, 0);
    status s = json_parse(&a, text, "answer", ANSWER_DEPTH_MAX, 0, &value, e);
    if (s == ERR_OK) s = schema_check(g->schema, g->schema, value, &valid, e);
    if (s == ERR_OK && !valid)
        s = err_set(e, ERR_FORMAT, "answer", -1, "does not satisfy the schema");
    arena_fini(&a);
    return s;
}

bool run_is_open_think(const tokenizer *t, const token_ids *prompt)
{
    int32_t open = tokenizer_find_added(t, STR("<think>"));
    for (int i = prompt->n - 1; i >= 0; i--) {
        if (prompt->ptr[i] == open) return open >= 0;
        if (str_trim(vocab_bytes(tokenizer_vocab(t), prompt->ptr[i])).len > 0) return false;
    }
    return false;
}
