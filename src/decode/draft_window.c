#include "decode/draft_window_priv.h"

#include "decode/dflash_priv.h"

static int64_t row_bytes(const draft *d)
{
    return (int64_t)d->arch.D * (dtype_bits(d->be->act) / 8);
}

int64_t draft_window_bytes(const draft *d)
{
    return 2 * (int64_t)d->n_layers * d->arch.G * OPS_BLOCK * row_bytes(d);
}

int64_t draft_window_reach(const draft *d)
{
    int64_t least = d->opt.max_context;
    for (int i = 0; i < d->n_layers; i++)
        if (d->layers[i].ring.R < least) least = d->layers[i].ring.R;
    return least;
}

/* One head's rows of a block: in at most two runs, as a ring's end may lie inside. */
static status copy_head(const draft *d, dev_buf ring, int R, int64_t pos, dev_buf window,
                        bool saves)
{
    int64_t size = row_bytes(d), at = pos % R, n = R - at < OPS_BLOCK ? R - at : OPS_BLOCK;
    for (int64_t done = 0; done < OPS_BLOCK; done += n, n = OPS_BLOCK - done) {
        dev_buf in_ring = dev_buf_at(ring, (done == 0 ? at : 0) * size);
        dev_buf in_window = dev_buf_at(window, done * size);
        TRY(d->be->ops->copy(d->be, saves ? in_window : in_ring, saves ? in_ring : in_window,
                             n * size));
        if (done > 0) break;
    }
    return ERR_OK;
}

static status copy_block(const draft *d, int slot, int64_t pos, dev_buf window, bool saves)
{
    int64_t size = row_bytes(d), at = 0;
    int G = d->arch.G;
    for (int i = 0; i < d->n_layers; i++) {
        const draft_ring *ring = &d->layers[i].ring;
        for (int part = 0; part < 2; part++) {
            for (int g = 0; g < G; g++, at += OPS_BLOCK * size) {
                int64_t head = ((int64_t)slot * G + g) * ring->R * size;
                TRY(copy_head(d, dev_buf_at(part ? ring->v : ring->k, head), ring->R, pos,
                              dev_buf_at(window, at), saves));
            }
        }
    }
    return ERR_OK;
}

status draft_window_save(const draft *d, int slot, int64_t pos, dev_buf to)
{
    return copy_block(d, slot, pos, to, true);
}

status draft_window_load(draft *d, dev_buf from, int slot, int64_t pos)
{
    return copy_block(d, slot, pos, from, false);
}
