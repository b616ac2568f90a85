/* riptide info: what a model is and what it would take, before anything is loaded. */
#include <string.h>

#include "base/json.h"
#include "cli/command_priv.h"
#include "engine/engine_flags.h"
#include "load/load.h"
#include "model/model.h"

static void put_memory(json_writer *w, const model_memory *m, int64_t draft)
{
    json_key(w, "memory");
    json_open_object(w);
    json_key(w, "weights_bytes");
    json_int(w, m->weights);
    json_key(w, "draft_weights_bytes");
    json_int(w, draft);
    json_key(w, "kv_bytes");
    json_int(w, m->kv);
    json_key(w, "state_bytes");
    json_int(w, m->states);
    json_key(w, "scratch_bytes");
    json_int(w, m->scratch);
    json_key(w, "total_bytes");
    json_int(w, m->weights + draft + m->kv + m->states + m->scratch);
    json_close_object(w);
}

static status plan(const engine_options *o, const load_model *target, const load_model *draft,
                   model_options *mo, model_memory *out, err *e)
{
    int verify = draft ? draft->draft.block : 1;
    if (o->draft_rows >= 0 && o->draft_rows + 1 < verify) verify = o->draft_rows + 1;
    int64_t context = o->max_context;
    if (context == 0 || context > target->target.max_position)
        context = target->target.max_position;
    int rows = o->prefill_rows > context ? (int)context : o->prefill_rows;
    if (rows < o->n_lanes * verify) rows = o->n_lanes * verify;
    *mo = (model_options){.n_slots = o->n_lanes,
                          .max_rows = rows,
                          .verify_rows = verify,
                          .logit_rows = o->n_lanes * verify,
                          .max_context = context,
                          .kv = o->kv == ENGINE_KV_INT8   ? KV_INT8
                                : o->kv == ENGINE_KV_BF16 ? KV_BF16
                                                          : KV_F32,
                          .n_taps = draft ? draft->draft.n_taps : 0,
                          .taps = draft ? draft->draft.taps : NULL,
                          .has_penalties = true};
    dtype act = o->backend && strncmp(o->backend, "cuda", 4) == 0 ? DTYPE_BF16 : DTYPE_F32;
    return model_plan(target, mo, act, out, e);
}

static status describe(const engine_options *o, const load_model *target, const load_model *draft,
                       buf *out, err *e)
{
    model_options mo;
    model_memory mem;
    TRY(plan(o, target, draft, &mo, &mem, e));
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
    json_key(&w, "architecture");
    buf arch;
    buf_init(&arch);
    load_put_arch_json(target, &arch);
    json_raw(&w, buf_str(&arch));
    json_key(&w, "draft");
    if (draft) {
        buf_clear(&arch);
        load_put_arch_json(draft, &arch);
        json_raw(&w, buf_str(&arch));
    } else {
        json_null(&w);
    }
    bool failed = arch.failed;
    buf_fini(&arch);
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
    put_memory(&w, &mem, draft ? weights_bytes(draft->weights) : 0);
    json_close_object(&w);
    buf_put_byte(out, '\n');
    return failed ? err_set(e, ERR_NOMEM, "info", -1, "output") : ERR_OK;
}

static status info(const engine_flags *f, arena *a, buf *out, err *e)
{
    engine_options o;
    load_model target = {0}, draft = {0};
    TRY(engine_flags_resolve(f, a, &o, e));
    TRY(load_model_open(&target, o.model, e));
    status s = ERR_OK;
    if (target.is_draft) s = err_set(e, ERR_INVALID, o.model, -1, "is a draft; name its target");
    if (s == ERR_OK && o.draft) s = load_model_open(&draft, o.draft, e);
    if (s == ERR_OK && o.draft) s = load_check_pair(&target.target, &draft.draft, e);
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
    if (code >= 0) return code;
    arena a;
    buf out;
    err e = {0};
    arena_init(&a, 0);
    buf_init(&out);
    status s = info(&f, &a, &out, &e);
    code = s == ERR_OK ? command_print(argv[0], &out) : command_fail(argv[0], &e);
    buf_fini(&out);
    arena_fini(&a);
    return code;
}
