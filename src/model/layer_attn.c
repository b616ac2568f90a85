/* Full attention with output gate (model-spec 2.3). K and V go through the cache's format before
 * attention reads them, in prefill as in decode. */
#include <math.h>

#include "model/model_priv.h"

status layer_attn_run(model *m, const layer_weights *w)
{
    const backend_ops *op = m->be->ops;
    const arch_target *a = &m->arch;
    const layer_attn_weights *p = &w->attn;
    model_scratch *s = &m->s;
    TRY(op->linear(m->be, &(linear_args){.x = s->x,
                                         .T = m->rows.T,
                                         .n_parts = 3,
                                         .part = {{&p->q, s->qg, LINEAR_ACT},
                                                  {&p->k, s->k, LINEAR_ACT},
                                                  {&p->v, s->v, LINEAR_ACT}}}));
    TRY(op->attn_prep(m->be, &(attn_prep_args){.qg = s->qg,
                                               .k = s->k,
                                               .v = s->v,
                                               .q_norm = p->q_norm,
                                               .k_norm = p->k_norm,
                                               .cs = s->cs,
                                               .q = s->q,
                                               .kv = m->kv[w->index],
                                               .rows = m->rows,
                                               .eps = a->rms_eps,
                                               .H = a->H,
                                               .G = a->G,
                                               .D = a->D,
                                               .n_pairs = a->n_rot / 2,
                                               .has_gate = a->has_output_gate}));
    TRY(op->attn(m->be, &(attn_args){.q = s->q,
                                     .qg = s->qg,
                                     .kv = m->kv[w->index],
                                     .rows = m->rows,
                                     .out = s->mixed,
                                     .scale = (float)(1.0 / sqrt((double)a->D)),
                                     .H = a->H,
                                     .G = a->G,
                                     .D = a->D,
                                     .has_gate = a->has_output_gate}));
    return op->linear(m->be, &(linear_args){.x = s->mixed,
                                            .T = m->rows.T,
                                            .n_parts = 1,
                                            .part = {{&p->o, s->h, LINEAR_ADD}}});
}
