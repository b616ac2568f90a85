/* links: load */
/* Any bytes as a safetensors file: refused, or every tensor lies inside and is found by its name.
 * An input that starts with 'h' is a header's text instead, in front of which the length and behind
 * which as many bytes of data stand as its second byte says, so that mutations get past both. */
#include "base/asserts.h"
#include "base/mem.h"
#include "load/safetensors_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_tensor(const safetensors *s, const char *name, const tensor *t,
                         const uint8_t *from, const uint8_t *to)
{
    const uint8_t *p = t->data;
    int64_t count;
    ASSERT(name[0] && t->type != DTYPE_NONE && t->type != DTYPE_AFFINE);
    ASSERT(t->n_dims >= 0 && t->n_dims <= TENSOR_DIMS_MAX && tensor_count(t, &count));
    ASSERT(p >= from && t->n_bytes >= 0 && t->n_bytes <= to - p);
    ASSERT(count * (dtype_bits(t->type) / 8) == t->n_bytes);
    ASSERT(safetensors_find(s, name) == t);
    if (t->n_dims != 2 || t->shape[0] == 0 || t->shape[1] == 0 || t->shape[1] > 256) return;
    float row[256];
    tensor_row_f32(t, t->shape[0] - 1, row);
}

static void check_file(const uint8_t *bytes, size_t n)
{
    safetensors *s = NULL;
    err e = {0};
    status st = safetensors_open_bytes(&s, bytes, (int64_t)n, "fuzz", &e);
    if (st != ERR_OK) {
        ASSERT(!s && st == ERR_FORMAT && e.msg[0] && e.pos <= (long)n);
        return;
    }
    int64_t sum = 0;
    for (int i = 0; i < safetensors_count(s); i++) {
        const tensor *t;
        const char *name = safetensors_name(s, i, &t);
        check_tensor(s, name, t, bytes + 8, bytes + n);
        sum += t->n_bytes;
    }
    ASSERT(sum <= (int64_t)n - 8 - 2);
    safetensors_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 2 || data[0] != 'h') {
        check_file(data, n);
        return 0;
    }
    uint64_t length = n - 2;
    size_t n_file = 8 + (n - 2) + data[1];
    uint8_t *made = mem_new(n_file);
    ASSERT(made);
    memcpy(made, &length, 8);
    memcpy(made + 8, data + 2, n - 2);
    check_file(made, n_file);
    mem_free(made);
    return 0;
}
