/* Gated DeltaNet (model-spec 2.5), the recurrent rule in prompt, decode, verify and replay.
 *
 * A verify pass leaves states alone and its inputs in the layer's own buffers; model_commit then
 * moves each state by the accepted rows. */
#include "model/model_priv.h"

status layer_gdn_run(model *m, const layer_weights *w)
{
    const backend_ops *op = m->be->ops;
    const arch_target *a = &m->arch;
    const layer_gdn_weights *p = &w->gdn;
    model_scratch *s = &m->s;
    const gdn_inputs *in = m->advance ? &s->gdn : &m->verify[w->index];
    TRY(op->linear(m->be, &(linear_args){.x = s->x,
                                         .T = m->rows.T,
                                         .n_parts = 4,
                                         .part = {{&p->qkv, in->p, LINEAR_ACT},
                                                  {&p->z, s->z, LINEAR_ACT},
                                                  {&p->a, s->a, LINEAR_ACT},
                                                  {&p->b, s->b, LINEAR_ACT}}}));
    TRY(op->gdn_prep(m->be, &(gdn_prep_args){.p = in->p,
                                             .a = s->a,
                                             .b = s->b,
                                             .conv_w = p->conv_w,
                                             .neg_A = p->neg_A,
                                             .dt_bias = p->dt_bias,
                                             .conv_state = m->conv[w->index],
                                             .rows = m->rows,
                                             .qkv = in->qkv,
                                             .g = in->g,
                                             .beta = in->beta,
                                             .Hk = a->gdn_Hk,
                                             .Hv = a->gdn_Hv,
                                             .dk = a->gdn_dk,
                                             .dv = a->gdn_dv}));
    TRY(op->gdn_scan(m->be, &(gdn_scan_args){.qkv = in->qkv,
                                             .g = in->g,
                                             .beta = in->beta,
                                             .p = in->p,
                                             .z = s->z,
                                             .norm_w = p->norm,
                                             .state = m->state[w->index],
                                             .conv_state = m->conv[w->index],
                                             .rows = m->rows,
                                             .out = s->mixed,
                                             .eps = a->rms_eps,
                                             .Hk = a->gdn_Hk,
                                             .Hv = a->gdn_Hv,
                                             .dk = a->gdn_dk,
                                             .dv = a->gdn_dv,
                                             .advance = m->advance}));
    return op->linear(m->be, &(linear_args){.x = s->mixed,
                                            .T = m->rows.T,
                                            .n_parts = 1,
                                            .part = {{&p->out, s->h, LINEAR_ADD}}});
}

status model_commit(model *m, dev_buf n_commit)
{
    const arch_target *a = &m->arch;
    for (int i = 0; i < m->n_gdn; i++) {
        const gdn_inputs *in = &m->verify[i];
        TRY(m->be->ops->gdn_commit(m->be, &(gdn_commit_args){.qkv = in->qkv,
                                                             .g = in->g,
                                                             .beta = in->beta,
                                                             .p = in->p,
                                                             .state = m->state[i],
                                                             .conv_state = m->conv[i],
                                                             .rows = m->rows,
                                                             .n_commit = n_commit,
                                                             .Hk = a->gdn_Hk,
                                                             .Hv = a->gdn_Hv,
                                                             .dk = a->gdn_dk,
                                                             .dv = a->gdn_dv}));
    }
    return ERR_OK;
}
