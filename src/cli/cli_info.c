/* riptide info: what a model is and what it would take, before anything is loaded, or of one that
 * is at the hub, fetched. */
#include <string.h>

#include "base/json.h"
#include "cli/command_priv.h"
#include "engine/engine_cycle.h"
#include "engine/engine_flags.h"
#include "engine/engine_hub.h"
#include "engine/memory_plan.h"
#include "load/load.h"

static void put_bytes(json_writer *w, const char *key, int64_t n)
{
    json_key(w, key);
    json_int(w, n);
}

static void put_memory(json_writer *w, const memory_plan *p, int64_t block)
{
    json_key(w, "memory");
    json_open_object(w);
    put_bytes(w, "weights_bytes", p->weights);
    put_bytes(w, "draft_bytes", p->draft);
    put_bytes(w, "kv_bytes", p->kv);
    put_bytes(w, "draft_kv_bytes", p->draft_kv);
    put_bytes(w, "state_bytes", p->states);
    put_bytes(w, "scratch_bytes", p->scratch);
    put_bytes(w, "cache_bytes", p->cache);
    put_bytes(w, "turn_bytes", p->turns);
    put_bytes(w, "total_bytes", p->total);
    json_close_object(w);
    json_key(w, "plan");
    json_open_object(w);
    put_bytes(w, "limit_bytes", p->limit);
    put_bytes(w, "kv_blocks", p->n_blocks);
    put_bytes(w, "block_bytes", block);
    put_bytes(w, "cached_states", p->n_cells);
    json_close_object(w);
}

/* How many tensors there are of each type, and their bytes. */
static void put_types(json_writer *w, const weights *all)
{
    int64_t n[DTYPE_COUNT] = {0}, bytes[DTYPE_COUNT] = {0};
    for (int i = 0; i < weights_count(all); i++) {
        const tensor *t;
        weights_name(all, i, &t);
        n[t->type]++;
        bytes[t->type] += t->n_bytes;
    }
    json_key(w, "types");
    json_open_object(w);
    for (int t = 0; t < DTYPE_COUNT; t++) {
        if (n[t] == 0) continue;
        json_key(w, dtype_name((dtype)t));
        json_open_object(w);
        put_bytes(w, "tensors", n[t]);
        put_bytes(w, "bytes", bytes[t]);
        json_close_object(w);
    }
    json_close_object(w);
}

static void put_architecture(json_writer *w, const load_model *m)
{
    buf arch;
    buf_init(&arch);
    load_put_arch_json(m, &arch);
    json_raw(w, arch.failed ? STR("null") : buf_str(&arch));
    if (arch.failed) w->out->failed = true;
    buf_fini(&arch);
}

/* A model of which the cache has less than all: what was seen of it. */
static status describe_remote(const load_model *m, const hub_model *h, const char *name, buf *out)
{
    json_writer w;
    json_writer_init(&w, out);
    json_open_object(&w);
    json_key(&w, "model");
    json_c_string(&w, name);
    json_key(&w, "path");
    json_null(&w);
    json_key(&w, "commit");
    json_c_string(&w, h->commit);
    json_key(&w, "format");
    json_c_string(&w, m->format);
    put_bytes(&w, "files", h->n_files);
    put_bytes(&w, "bytes", h->n_bytes);
    put_bytes(&w, "missing_bytes", h->n_missing);
    json_key(&w, "architecture");
    put_architecture(&w, m);
    json_key(&w, "family_draft");
    const char *draft = engine_hub_draft_of(&m->target);
    if (draft)
        json_c_string(&w, draft);
    else
        json_null(&w);
    json_close_object(&w);
    buf_put_byte(out, '\n');
    return ERR_OK;
}

static status describe(const engine_options *o, const load_model *target, const load_model *draft,
                       buf *out, err *e)
{
    model_options mo;
    model_memory mem;
    memory_plan plan;
    cycle_options c = engine_cycle_options(o);
    bool is_cuda = o->backend && strncmp(o->backend, "cuda", 4) == 0;
    backend be = {.name = o->backend ? o->backend : "cpu",
                  .act = is_cuda ? DTYPE_BF16 : DTYPE_F32,
                  .quantises_drafts = !o->backend || strncmp(o->backend, "ref", 3) != 0};
    cycle_sizes sizes;
    TRY(cycle_settle_options(&c, target, draft, &be, e));
    TRY(cycle_plan(&c, target, draft, be.act, &mo, &mem, e));
    TRY(cycle_plan_sizes(&c, target, draft, &be, &sizes, e));
    memory_wish wish = engine_memory_wish(o, &sizes);
    TRY(memory_plan_make(&wish, &plan, e));
    json_writer w;
    json_writer_init(&w, out);
    json_open_object(&w);
    json_key(&w, "model");
    json_c_string(&w, target->name);
    json_key(&w, "path");
    json_c_string(&w, target->path);
    json_key(&w, "format");
    json_c_string(&w, target->format);
    json_key(&w, "tensors");
    json_int(&w, weights_count(target->weights));
    put_types(&w, target->weights);
    json_key(&w, "architecture");
    put_architecture(&w, target);
    json_key(&w, "draft");
    if (draft)
        put_architecture(&w, draft);
    else
        json_null(&w);
    json_key(&w, "settings");
    json_open_object(&w);
    json_key(&w, "lanes");
    json_int(&w, mo.n_slots);
    json_key(&w, "max_context");
    json_int(&w, mo.max_context);
    json_key(&w, "kv_format");
    json_c_string(&w, mo.kv == KV_INT8 ? "int8" : mo.kv == KV_BF16 ? "bf16" : "f32");
    json_key(&w, "verify_rows");
    json_int(&w, mo.verify_rows);
    json_key(&w, "prefill_rows");
    json_int(&w, mo.max_rows);
    json_close_object(&w);
    put_memory(&w, &plan, wish.sizes.block);
    json_close_object(&w);
    buf_put_byte(out, '\n');
    return ERR_OK;
}

/* Look at a model by its name. *path is NULL when that was all, else where the cache has it. */
static status look(const engine_flags *f, const hub_name *n, arena *a, const char **path, buf *out,
                   err *e)
{
    load_model seen = {0};
    hub_model m;
    engine_hub_wish w = {
        .revision = f->revision, .is_offline = f->offline, .path = f->model, .seen = &seen};
    status s = engine_hub_take(n, &w, a, &m, e);
    if (s == ERR_OK && !m.path) s = describe_remote(&seen, &m, f->model, out);
    load_model_close(&seen);
    if (s == ERR_OK) *path = m.path;
    return s;
}

static status info(void *flags, arena *a, buf *out, err *e)
{
    engine_options o;
    engine_flags f = *(const engine_flags *)flags;
    hub_name name;
    load_model target = {0}, draft = {0};
    if (f.model && engine_hub_is_name(f.model, &name)) {
        TRY(look(&f, &name, a, &f.model, out, e));
        if (!f.model) return ERR_OK;
    }
    f.offline = true; /* nothing is fetched for a description */
    TRY(engine_flags_resolve(&f, a, &o, e));
    TRY(load_model_open(&target, o.model, e));
    status s = ERR_OK;
    if (target.is_draft) s = err_set(e, ERR_INVALID, o.model, -1, "is a draft; name its target");
    if (s == ERR_OK && o.draft) s = load_model_open(&draft, o.draft, e);
    if (s == ERR_OK && o.draft) s = load_check_pair(&target.target, &draft.draft, e);
    if (s == ERR_OK && o.draft) s = load_check_vocabulary(&target, &draft, e);
    if (s == ERR_OK) s = describe(&o, &target, o.draft ? &draft : NULL, out, e);
    load_model_close(&draft);
    load_model_close(&target);
    return s;
}

int command_info(int argc, char **argv)
{
    engine_flags f;
    engine_flags_init(&f, 1);
    option_row rows[ENGINE_FLAG_ROWS + 1] = {{0}};
    engine_flags_rows(&f, rows);
    int code = command_parse(rows, "riptide info [--model M]", argc, argv);
    return code >= 0 ? code : command_output(argv[0], info, &f);
}
