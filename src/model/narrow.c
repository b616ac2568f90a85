#include "model/narrow.h"

#include "base/mem.h"
#include "model/model_priv.h"
#include "tensor/half.h"

struct narrow {
    model *m;
    int64_t n;      /* values of a layer's state */
    float *wide;    /* owned [n] */
    uint16_t *half; /* owned [n] */
};

static int64_t n_values(const arch_target *a)
{
    return (int64_t)a->gdn_Hv * a->gdn_dk * a->gdn_dv;
}

int64_t narrow_bytes(const arch_target *a)
{
    return n_values(a) * (int64_t)(sizeof(float) + sizeof(uint16_t));
}

status narrow_open(narrow **out, model *m, err *e)
{
    narrow *n = mem_new(sizeof *n);
    if (n) {
        *n = (narrow){.m = m, .n = n_values(&m->arch)};
        n->wide = mem_new_array((size_t)n->n, sizeof *n->wide);
        n->half = mem_new_array((size_t)n->n, sizeof *n->half);
    }
    if (!n || !n->wide || !n->half) {
        narrow_close(n);
        return err_set(e, ERR_NOMEM, "states", -1, "room for BF16 states");
    }
    *out = n;
    return ERR_OK;
}

void narrow_close(narrow *n)
{
    if (!n) return;
    mem_free(n->wide);
    mem_free(n->half);
    mem_free(n);
}

static dev_buf state_at(const narrow *n, int slot, int layer)
{
    return dev_buf_at(n->m->state[layer], slot * n->n * 4);
}

/* The layer's state into n->half. */
static status read_state(narrow *n, int slot, int layer)
{
    backend *be = n->m->be;
    TRY(be->ops->download(be, n->wide, state_at(n, slot, layer), n->n * 4));
    for (int64_t i = 0; i < n->n; i++) n->half[i] = half_to_bf16(n->wide[i]);
    return ERR_OK;
}

static status write_state(narrow *n, int slot, int layer)
{
    backend *be = n->m->be;
    half_row_from_bf16(n->half, n->wide, n->n);
    return be->ops->upload(be, state_at(n, slot, layer), n->wide, n->n * 4);
}

status narrow_round(narrow *n, int slot)
{
    for (int i = 0; i < n->m->n_gdn; i++) {
        TRY(read_state(n, slot, i));
        TRY(write_state(n, slot, i));
    }
    return ERR_OK;
}

status narrow_save(narrow *n, int slot, int layer, dev_buf to)
{
    backend *be = n->m->be;
    TRY(read_state(n, slot, layer));
    return be->ops->upload(be, to, n->half, n->n * 2);
}

status narrow_load(narrow *n, dev_buf from, int slot, int layer)
{
    backend *be = n->m->be;
    TRY(be->ops->download(be, n->half, from, n->n * 2));
    return write_state(n, slot, layer);
}
