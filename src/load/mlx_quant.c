#include "load/mlx_quant_priv.h"

#include <stdio.h>
#include <stdlib.h>

#include "load/keys_priv.h"
#include "load/names_priv.h"
#include "load/safetensors_priv.h"
#include "tensor/quant.h"

static void copy_short(char *out, size_t cap, str s)
{
    size_t n = s.len < cap - 1 ? s.len : cap - 1;
    memcpy(out, s.ptr, n);
    out[n] = '\0';
}

/* {group_size, bits, mode}; what an override leaves out is as usual. */
static void read_row(keys *k, mlx_quant_row *row)
{
    str mode;
    if (keys_str(k, "mode", &mode)) {
        row->has_mode = !str_is(mode, "affine");
        copy_short(row->mode, sizeof row->mode, mode);
    }
    if (row->has_mode) return;
    bool is_named = keys_int(k, "bits", 1, 32, &row->bits);
    is_named |= keys_int(k, "group_size", 1, 4096, &row->group);
    if (k->s != ERR_OK) return;
    if (row->bits == 0 || row->group == 0)
        keys_fail(k, ERR_FORMAT, row->bits ? "group_size" : "bits", "is missing");
    else if (is_named && !quant_affine_is_valid(row->bits, row->group))
        keys_fail(k, ERR_UNSUPPORTED, "bits",
                  "%d in groups of %d: affine has 2, 3, 4, 5, 6, 8 bits and groups of 32, 64, 128",
                  row->bits, row->group);
}

static int compare_module(const void *a, const void *b)
{
    return strcmp(((const mlx_quant_row *)a)->module, ((const mlx_quant_row *)b)->module);
}

static status read_override(const json *v, const mlx_quant_row *usual, arena *mem, const char *file,
                            mlx_quant_row *row, err *e)
{
    const char *where = safetensors_where(file);
    const char *name = arena_copy(mem, v->key.ptr, v->key.len);
    if (!name) return err_set(e, ERR_NOMEM, where, -1, "out of memory for overrides");
    *row = *usual;
    row->module = names_canonical(name);
    row->is_off = v->kind == JSON_FALSE;
    if (v->kind != JSON_OBJECT) return ERR_OK;
    char label[120];
    snprintf(label, sizeof label, "quantization.%.*s.", v->key.len > 90 ? 90 : (int)v->key.len,
             v->key.ptr);
    keys k;
    keys_init(&k, v, label, file, e);
    row->has_mode = false;
    read_row(&k, row);
    return k.s;
}

static status read_overrides(mlx_quant *q, arena *mem, const json *table, const char *file, err *e)
{
    const char *where = safetensors_where(file);
    mlx_quant_row *rows = arena_new_array(mem, (size_t)table->n, sizeof *rows);
    if (!rows) return err_set(e, ERR_NOMEM, where, -1, "out of memory for overrides");
    int n = 0;
    for (const json *v = table->first; v; v = v->next)
        if (v->kind == JSON_OBJECT || json_is_bool(v))
            TRY(read_override(v, &q->usual, mem, file, &rows[n++], e));
    qsort(rows, (size_t)n, sizeof *rows, compare_module);
    for (int i = 1; i < n; i++)
        if (strcmp(rows[i - 1].module, rows[i].module) == 0)
            return err_set(e, ERR_FORMAT, where, -1, "quantization has two overrides for '%.100s'",
                           rows[i].module);
    q->rows = rows;
    q->n = n;
    return ERR_OK;
}

/* {quant_method "fp8", fmt "e4m3", weight_block_size [128, 128]}; which modules are left out is
 * seen from the files. */
static status read_fp8(keys *k, mlx_quant *q)
{
    int64_t rows, columns;
    str format;
    if (keys_str(k, "fmt", &format) && !str_is(format, "e4m3"))
        keys_fail(k, ERR_UNSUPPORTED, "fmt", "is not e4m3");
    const json *block = keys_container(k, "weight_block_size", JSON_ARRAY);
    if (k->s != ERR_OK) return k->s;
    if (!block || block->n != 2 || !json_to_int64(json_at(block, 0), &rows) ||
        !json_to_int64(json_at(block, 1), &columns) || rows < 1 || columns < 1 || rows > 65536 ||
        columns > 65536) {
        keys_fail(k, ERR_UNSUPPORTED, "weight_block_size", "must be two counts: rows and columns");
        return k->s;
    }
    *q = (mlx_quant){.fp8_rows = (int)rows, .fp8_columns = (int)columns};
    return ERR_OK;
}

status mlx_quant_parse(mlx_quant *q, arena *mem, const json *root, const char *file, err *e)
{
    keys top, k;
    keys_init(&top, root, "", file, e);
    const json *table = keys_container(&top, "quantization", JSON_OBJECT);
    const char *label = "quantization.";
    if (!table) {
        table = keys_container(&top, "quantization_config", JSON_OBJECT);
        label = "quantization_config.";
    }
    if (top.s != ERR_OK || !table) return top.s;
    keys_init(&k, table, label, file, e);
    str method;
    if (keys_str(&k, "quant_method", &method) && str_is(method, "fp8")) return read_fp8(&k, q);
    if (keys_str(&k, "quant_method", &method) && !str_is(method, "mlx") && !keys_find(&k, "mode"))
        keys_fail(&k, ERR_UNSUPPORTED, "quant_method",
                  "is '%.*s': only MLX quantisation and fp8 can be read",
                  method.len > 40 ? 40 : (int)method.len, method.ptr);
    mlx_quant next = {.is_present = true};
    read_row(&k, &next.usual);
    TRY(k.s);
    TRY(read_overrides(&next, mem, table, file, e));
    *q = next;
    return ERR_OK;
}

const mlx_quant_row *mlx_quant_find(const mlx_quant *q, const char *module)
{
    mlx_quant_row key = {.module = module};
    const mlx_quant_row *row = NULL;
    if (q->n > 0) row = bsearch(&key, q->rows, (size_t)q->n, sizeof *q->rows, compare_module);
    return row ? row : &q->usual;
}
