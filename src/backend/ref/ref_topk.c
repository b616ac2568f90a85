#include "backend/ref/ref_priv.h"

static float capped(float x, float scale, float softcap)
{
    double y = (double)scale * (double)x;
    if (softcap > 0) y = (double)softcap * tanh(y / (double)softcap);
    return (float)y;
}

void ref_topk_row(const float *x, int64_t V, int k, float scale, float softcap, int32_t *ids,
                  float *vals)
{
    int n = 0;
    for (int64_t i = 0; i < V; i++) {
        float y = capped(x[i], scale, softcap);
        if (n == k && !(y > vals[k - 1])) continue;
        int at = n < k ? n++ : k - 1;
        for (; at > 0 && y > vals[at - 1]; at--) {
            vals[at] = vals[at - 1];
            ids[at] = ids[at - 1];
        }
        vals[at] = y;
        ids[at] = (int32_t)i;
    }
    for (; n < k; n++) {
        ids[n] = -1;
        vals[n] = -INFINITY;
    }
}

static void topk_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const topk_args *a = ctx;
    for (int64_t m = begin; m < end; m++) {
        ref_topk_row(ref_f32(a->logits) + m * a->V, a->V, a->k, a->scale, a->softcap,
                     (int32_t *)a->ids.ptr + m * a->k, ref_f32(a->vals) + m * a->k);
    }
}

status ref_topk(backend *b, const topk_args *a)
{
    workers_for(ref_of(b)->pool, a->M, 1, topk_rows, (void *)(uintptr_t)a);
    return ERR_OK;
}
