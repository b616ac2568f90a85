/* riptide logits: the numbers behind a prompt, for parity tests. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/command_priv.h"
#include "engine/engine_cycle.h"
#include "engine/engine_flags.h"
#include "load/safetensors.h"

enum { LAYERS_MAX = ARCH_LAYERS_MAX, ENTRIES_MAX = LAYERS_MAX + 3, PROBE_ROWS = 64 };

typedef struct {
    engine_flags f;
    const char *ids, *ids_file, *out;
    int64_t rows;
    bool wants_layers;
} logits_flags;

static safetensors_entry entry(const char *name, dtype type, int64_t rows, int64_t cols,
                               const void *data)
{
    return (safetensors_entry){
        .name = name,
        .t = {.type = type, .n_dims = cols > 0 ? 2 : 1, .shape = {rows, cols}, .data = data}};
}

/* Run the probe and write what it gives; all arrays in the arena. */
static status probe(const logits_flags *f, cycle *c, const int32_t *ids, int n, arena *a, err *e)
{
    const arch_target *t = &cycle_files(c)->target;
    int rows = f->rows == 0 || f->rows > n ? n : (int)f->rows, B1 = cycle_block(c) - 1,
        n_entries = 0;
    size_t V = (size_t)t->V, E = (size_t)t->E;
    cycle_probe_args p = {.ids = ids, .n = n, .rows = rows};
    safetensors_entry *entries = arena_new_array(a, ENTRIES_MAX, sizeof *entries);
    char(*names)[32] = arena_new_array(a, LAYERS_MAX, sizeof *names);
    p.logits = arena_new_array(a, (size_t)rows * V, sizeof(float));
    if (f->wants_layers)
        p.layers = arena_new_array(a, (size_t)t->n_layers * (size_t)n * E, sizeof(float));
    if (B1 > 0) {
        p.draft_logits = arena_new_array(a, (size_t)B1 * V, sizeof(float));
        p.draft_path = arena_new_array(a, (size_t)B1, sizeof(int32_t));
    }
    if (!entries || !names || !p.logits || (f->wants_layers && !p.layers) ||
        (B1 > 0 && (!p.draft_logits || !p.draft_path)))
        return err_set(e, ERR_NOMEM, "logits", -1, "%d rows of %d logits", rows, t->V);
    for (int i = 0; i < n; i++)
        if (ids[i] >= t->V)
            return err_set(e, ERR_INVALID, "ids", i, "token id %d is not below %d", (int)ids[i],
                           t->V);
    status s = cycle_probe(c, &p, e);
    if (s != ERR_OK) {
        if (e->code == ERR_OK) *e = cycle_backend(c)->last;
        return s;
    }
    entries[n_entries++] = entry("logits", DTYPE_F32, rows, t->V, p.logits);
    for (int i = 0; p.layers && i < t->n_layers; i++) {
        snprintf(names[i], sizeof names[i], "layer.%d", i);
        entries[n_entries++] = entry(names[i], DTYPE_F32, n, t->E,
                                     p.layers + (size_t)i * (size_t)n * E);
    }
    if (B1 > 0) {
        entries[n_entries++] = entry("draft_logits", DTYPE_F32, B1, t->V, p.draft_logits);
        entries[n_entries++] = entry("draft_path", DTYPE_I32, B1, 0, p.draft_path);
    }
    return safetensors_write(f->out, entries, n_entries, e);
}

static status logits(const logits_flags *f, arena *a, err *e)
{
    engine_options o;
    int32_t *ids;
    int n;
    if (!f->out) return err_set(e, ERR_INVALID, "--out", -1, "no file named");
    if (!f->ids == !f->ids_file)
        return err_set(e, ERR_INVALID, "--ids", -1, "give --ids or --ids-file");
    TRY(engine_flags_resolve(&f->f, a, &o, e));
    TRY(command_read_ids(a, f->ids, f->ids_file, &ids, &n, e));
    cycle_options co = engine_cycle_options(&o);
    co.n_slots = 1;
    co.max_context = n + OPS_ROWS_MAX;
    co.max_draft = -1;
    co.logit_rows = PROBE_ROWS;
    if (o.prefill_rows > 0 && o.prefill_rows < PROBE_ROWS) co.logit_rows = o.prefill_rows;
    co.keeps_layers = f->wants_layers;
    cycle *c = NULL;
    TRY(cycle_open(&c, &co, e));
    status s = probe(f, c, ids, n, a, e);
    cycle_close(c);
    return s;
}

int command_logits(int argc, char **argv)
{
    logits_flags f = {0};
    engine_flags_init(&f.f, 1);
    option_row rows[ENGINE_FLAG_ROWS + 6] = {{0}};
    int n = engine_flags_rows(&f.f, rows);
    option_row own[] = {
        {"ids", OPTION_TEXT, &f.ids, .help = "token ids, 1,2,3"},
        {"ids-file", OPTION_TEXT, &f.ids_file, .help = "file of token ids"},
        {"rows", OPTION_INT, &f.rows, .min = 0, .max = 1 << 24,
         .help = "last rows to write (0: all)"},
        {"layers", OPTION_FLAG, &f.wants_layers, .help = "also write every layer's output"},
        {"out", OPTION_TEXT, &f.out,
         .help = "safetensors file to write; draft_logits and draft_path are of the block "
                 "whose anchor is the last id"},
    };
    memcpy(rows + n, own, sizeof own);
    int code = command_parse(
        rows, "riptide logits --model M (--ids 1,2,3 | --ids-file F) --out FILE.safetensors", argc,
        argv);
    if (code >= 0) return code;
    arena a;
    err e = {0};
    arena_init(&a, 0);
    status s = logits(&f, &a, &e);
    arena_fini(&a);
    return s == ERR_OK ? 0 : command_fail(argv[0], &e);
}
