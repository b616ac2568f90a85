/* links: load */
/* Any bytes as a GGUF file: refused with a message, or every value and every tensor lies inside,
 * is found by its name, and its last row can be read. Its metadata as a model's are refused with a
 * message, or an architecture whose tensors can be listed and multiplied without overflow. The same
 * for its first half, and for all of it as the head of a file of a terabyte. */
#include "base/asserts.h"
#include "base/mem.h"
#include "load/arch_tensors_priv.h"
#include "load/gguf_config_priv.h"
#include "load/gguf_texts_priv.h"
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

static status check_shape(void *ctx, const arch_tensor *t, err *e)
{
    tensor shape = {.n_dims = t->n_dims};
    int64_t n;
    (void)ctx;
    (void)e;
    memcpy(shape.shape, t->shape, sizeof shape.shape);
    ASSERT(tensor_count(&shape, &n) && n > 0 && n < INT64_MAX / 64);
    return ERR_OK;
}

static void check_model(gguf *g)
{
    gguf_set parts = {.files = &g, .n = 1};
    gguf_config c;
    load_model m = {0};
    err e = {0};
    status s = gguf_config_parse(&c, &parts, &e);
    ASSERT(s == ERR_OK || e.msg[0]);
    if (s == ERR_OK && c.is_draft) {
        ASSERT(c.draft.n_taps >= 1 && c.draft.taps[0] >= 0 && c.draft.mask_id < c.draft.V);
        arch_tensors_draft(&c.draft, check_shape, NULL, NULL);
    } else if (s == ERR_OK) {
        const arch_target *a = &c.target;
        ASSERT(a->H % a->G == 0 && a->gdn_Hv % a->gdn_Hk == 0 && a->n_rot % 2 == 0);
        for (int i = 0; i < a->n_eos; i++) ASSERT(a->eos[i] >= 0 && a->eos[i] < a->V);
        arch_tensors_target(a, check_shape, NULL, NULL);
    }
    arena_init(&m.mem, 64 << 20);
    e.msg[0] = 0;
    ASSERT(gguf_texts_read(&m, g, &e) == ERR_OK || e.msg[0]);
    arena_fini(&m.mem);
}

/* The first bytes of a longer file: what is seen of it has no data, and only what is missing makes
 * it short. */
static void check_head(const uint8_t *data, size_t n, int64_t n_file)
{
    load_model m;
    err e = {0};
    bool is_short = false;
    uint8_t *head = mem_new(n);
    ASSERT(head);
    if (n > 0) memcpy(head, data, n);
    status s = load_model_peek_head(&m, "fuzz", head, (int64_t)n, n_file, &is_short, &e);
    ASSERT(s == ERR_OK || e.msg[0]);
    ASSERT(!is_short || (s != ERR_OK && (int64_t)n < n_file));
    load_model_close(&m);
    mem_free(head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    gguf *g = NULL;
    err e = {0};
    check_head(data, n / 2, (int64_t)n);
    check_head(data, n, (int64_t)1 << 40);
    status s = gguf_open_bytes(&g, data, (int64_t)n, "fuzz", &e);
    if (s != ERR_OK) {
        ASSERT(!g && (s == ERR_FORMAT || s == ERR_UNSUPPORTED) && e.msg[0] && e.pos <= (long)n);
        return 0;
    }
    for (int i = 0; i < gguf_count_keys(g); i++) check_value(g, gguf_key_at(g, i), data, data + n);
    for (int i = 0; i < gguf_count(g); i++) check_item(g, gguf_at(g, i), data, data + n);
    check_model(g);
    gguf_close(g);
    return 0;
}
