/* links: load */
/* Any bytes as a GGUF file: refused with a message, or every value and every tensor lies inside,
 * is found by its name, and its last row can be read. */
#include "base/asserts.h"
#include "load/gguf_priv.h"
#include "tensor/block.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_value(const gguf *g, const gguf_value *v, const uint8_t *from, const uint8_t *to)
{
    int64_t at = 0, number;
    ASSERT(v->data >= from && v->n_bytes >= 0 && v->n_bytes <= to - v->data && v->n >= 0);
    for (int64_t i = 0; i < v->n; i++) {
        if (v->type == GGUF_STRING)
            gguf_next_string(v, &at);
        else
            gguf_int_at(v, i, &number);
    }
    if (v->type == GGUF_STRING) ASSERT(at == v->n_bytes);
    char key[GGUF_NAME_MOST + 1] = {0};
    memcpy(key, v->key.ptr, v->key.len);
    ASSERT(gguf_find(g, key) == v);
}

static void check_item(const gguf *g, const gguf_item *it, const uint8_t *from, const uint8_t *to)
{
    const tensor *t = &it->t;
    int64_t count;
    ASSERT(it->name[0] && gguf_find_tensor(g, it->name) == it);
    ASSERT(t->n_dims >= 1 && t->n_dims <= TENSOR_DIMS_MAX && tensor_count(t, &count) && count > 0);
    if (t->type == DTYPE_NONE) return;
    ASSERT((const uint8_t *)t->data >= from && t->n_bytes > 0);
    ASSERT(t->n_bytes <= to - (const uint8_t *)t->data);
    ASSERT(block_row_bytes(t->type, count) == t->n_bytes);
    float row[512];
    if (t->n_dims == 2 && t->shape[1] <= 512) tensor_row_f32(t, t->shape[0] - 1, row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    gguf *g = NULL;
    err e = {0};
    status s = gguf_open_bytes(&g, data, (int64_t)n, "fuzz", &e);
    if (s != ERR_OK) {
        ASSERT(!g && (s == ERR_FORMAT || s == ERR_UNSUPPORTED) && e.msg[0] && e.pos <= (long)n);
        return 0;
    }
    for (int i = 0; i < gguf_count_keys(g); i++) check_value(g, gguf_key_at(g, i), data, data + n);
    for (int i = 0; i < gguf_count(g); i++) check_item(g, gguf_at(g, i), data, data + n);
    gguf_close(g);
    return 0;
}
