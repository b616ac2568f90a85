/* Dense SwiGLU or mixture of experts with a gated shared expert (model-spec 2.6). */
#include "model/model_priv.h"

static status run_moe(model *m, const layer_ffn_weights *f)
{
    const backend_ops *op = m->be->ops;
    const arch_target *a = &m->arch;
    model_scratch *s = &m->s;
    int T = m->rows.T;
    bool has_shared = a->shared_F > 0;
    TRY(op->linear(m->be, &(linear_args){.x = s->x,
                                         .T = T,
                                         .n_parts = 1,
                                         .part = {{&f->router, s->router, LINEAR_F32}}}));
    TRY(op->moe_route(m->be, &(moe_route_args){.logits = s->router,
                                               .ids = s->expert_ids,
                                               .w = s->expert_w,
                                               .T = T,
                                               .X = a->X,
                                               .K = a->K}));
    return op->moe_ffn(m->be, &(moe_ffn_args){.x = s->x,
                                              .ids = s->expert_ids,
                                              .w = s->expert_w,
                                              .gate = &f->gate,
                                              .up = &f->up,
                                              .down = &f->down,
                                              .s_gate = has_shared ? &f->s_gate : NULL,
                                              .s_up = has_shared ? &f->s_up : NULL,
                                              .s_down = has_shared ? &f->s_down : NULL,
                                              .s_sigmoid = has_shared ? &f->s_sigmoid : NULL,
                                              .h = s->h,
                                              .T = T,
                                              .E = a->E,
                                              .X = a->X,
                                              .K = a->K,
                                              .F = a->moe_F,
                                              .shared_F = a->shared_F});
}

status layer_ffn_run(model *m, const layer_weights *w)
{
    const backend_ops *op = m->be->ops;
    const layer_ffn_weights *f = &w->ffn;
    if (m->arch.family == ARCH_QWEN35_MOE) return run_moe(m, f);
    model_scratch *s = &m->s;
    TRY(op->linear_swiglu(
        m->be, &(linear_swiglu_args){
                   .x = s->x, .gate = &f->gate, .up = &f->up, .y = s->f, .T = m->rows.T}));
    return op->linear(m->be, &(linear_args){.x = s->f,
                                            .T = m->rows.T,
                                            .n_parts = 1,
                                            .part = {{&f->down, s->h, LINEAR_ADD}}});
}
