/* links: load */
/* Any text as config.json: refused with a message, or an architecture within its bounds, whose
 * tensors can be listed and multiplied without overflow. */
#include "base/asserts.h"
#include "load/arch_tensors_priv.h"
#include "load/hf_config_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

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

static void check_target(const arch_target *a)
{
    ASSERT(a->n_layers >= 1 && a->n_layers <= ARCH_LAYERS_MAX && a->H % a->G == 0);
    ASSERT(a->D % 2 == 0 && a->n_rot >= 2 && a->n_rot <= a->D && a->n_rot % 2 == 0);
    ASSERT(a->mrope_section[0] + a->mrope_section[1] + a->mrope_section[2] == a->n_rot / 2);
    ASSERT(a->gdn_Hv % a->gdn_Hk == 0 && a->n_eos >= 0 && a->n_eos <= ARCH_EOS_MAX);
    ASSERT(a->rope_theta >= 1 && a->rms_eps > 0 && a->max_position > 0);
    ASSERT(a->pad_id >= -1 && a->pad_id < a->V && a->K <= a->X);
    for (int i = 0; i < a->n_eos; i++) ASSERT(a->eos[i] >= 0 && a->eos[i] < a->V);
    arch_tensors_target(a, check_shape, NULL, NULL);
}

static void check_draft(const arch_draft *d)
{
    ASSERT(d->n_layers >= 1 && d->n_layers <= ARCH_LAYERS_MAX && d->H % d->G == 0);
    ASSERT(d->block >= 2 && d->block <= ARCH_BLOCK_MAX && d->mask_id >= 0 && d->mask_id < d->V);
    ASSERT(d->n_taps >= 1 && d->n_taps <= ARCH_TAPS_MAX);
    for (int i = 0; i < d->n_taps; i++)
        ASSERT(d->taps[i] >= (i ? d->taps[i - 1] + 1 : 0) && d->taps[i] < ARCH_LAYERS_MAX);
    for (int i = 0; i < d->n_layers; i++) ASSERT(!d->layer_is_sliding[i] || d->window > 0);
    if (d->is_v2) ASSERT(d->E % d->conv_group == 0 && d->select_top_k <= ARCH_SELECT_MAX);
    arch_tensors_draft(d, check_shape, NULL, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    arena mem;
    hf_config c;
    err e = {0};
    arena_init(&mem, 0);
    status s = hf_config_parse(&c, &mem, (str){(const char *)data, n}, "fuzz", &e);
    if (s != ERR_OK) {
        ASSERT(e.msg[0] && e.pos <= (long)n);
    } else {
        for (int i = 1; i < c.quant.n; i++)
            ASSERT(mlx_quant_find(&c.quant, c.quant.rows[i].module) == &c.quant.rows[i]);
        if (c.is_draft)
            check_draft(&c.draft);
        else
            check_target(&c.target);
    }
    arena_fini(&mem);
    return 0;
}
