#include "backend/ref/ref_priv.h"

void ref_rope_rotate(double *x, const float *cs, int n_pairs)
{
    for (int j = 0; j < n_pairs; j++) {
        double c = (double)cs[2 * j], s = (double)cs[2 * j + 1];
        double lo = x[j], hi = x[j + n_pairs];
        x[j] = lo * c - hi * s;
        x[j + n_pairs] = hi * c + lo * s;
    }
}

/* Interleaved MRoPE: which of the axes t, h, w turns pair j. */
static int axis_of(const int section[3], int j)
{
    if (j % 3 == 1 && j < 3 * section[1]) return 1;
    if (j % 3 == 2 && j < 3 * section[2]) return 2;
    return 0;
}

status ref_rope_table(backend *b, const rope_table_args *a)
{
    (void)b;
    const int32_t *pos = ref_i32(a->pos);
    float *cs = ref_f32(a->cs);
    for (int j = 0; j < a->n_pairs; j++) {
        double freq = pow(a->theta, -(double)j / a->n_pairs);
        const int32_t *axis = pos + (int64_t)axis_of(a->section, j) * a->T;
        for (int64_t t = 0; t < a->T; t++) {
            double angle = a->f32_angles ? (double)((float)axis[t] * (float)freq)
                                         : (double)axis[t] * freq;
            cs[(t * a->n_pairs + j) * 2] = (float)cos(angle);
            cs[(t * a->n_pairs + j) * 2 + 1] = (float)sin(angle);
        }
    }
    return ERR_OK;
}
