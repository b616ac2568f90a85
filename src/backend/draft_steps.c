#include "backend/draft_steps.h"

status draft_steps_attend(const draft_steps *s, backend *b, const draft_attend_args *a)
{
    TRY(s->linear(b, &(linear_args){.x = a->x,
                                    .T = a->prep.M,
                                    .n_parts = 3,
                                    .part = {{a->q, a->attn.q, LINEAR_ACT},
                                             {a->k, a->attn.k, LINEAR_ACT},
                                             {a->v, a->attn.v, LINEAR_ACT}}}));
    TRY(s->draft_attn_prep(b, &a->prep));
    return s->draft_attn(b, &a->attn);
}

status draft_steps_enter(const draft_steps *s, backend *b, const draft_enter_args *a)
{
    int M = a->L * a->B;
    TRY(s->rmsnorm(
        b, &(rmsnorm_args){.x = a->h, .w = a->norm, .y = a->x, .T = M, .E = a->E, .eps = a->eps}));
    TRY(s->linear(
        b, &(linear_args){
               .x = a->x, .T = M, .n_parts = 1, .part = {{a->kernel, a->delta, LINEAR_ACT}}}));
    return s->draft_conv(b, &(draft_conv_args){.u = a->x,
                                               .delta = a->delta,
                                               .base = a->base,
                                               .y = a->y,
                                               .L = a->L,
                                               .B = a->B,
                                               .E = a->E,
                                               .group = a->group,
                                               .side = 0});
}

status draft_steps_leave(const draft_steps *s, backend *b, const draft_leave_args *a)
{
    TRY(s->linear(
        b, &(linear_args){
               .x = a->x, .T = a->L * a->B, .n_parts = 1, .part = {{a->w, a->u, LINEAR_ACT}}}));
    return s->draft_conv(b, &(draft_conv_args){.u = a->u,
                                               .delta = a->delta,
                                               .base = a->base,
                                               .h = a->h,
                                               .L = a->L,
                                               .B = a->B,
                                               .E = a->E,
                                               .group = a->group,
                                               .side = 1,
                                               .adds = true});
}
