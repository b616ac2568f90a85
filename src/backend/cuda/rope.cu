/* Rotation angles (ops.h:rope_table_args): double, as f32 angles cost 3e-5 of the logits at 30K
 * positions; a draft's as it was trained with. */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/launch_early.cuh"

typedef struct {
    const int32_t *pos;
    float2 *cs;
    double log_theta;
    int n_pairs, section_h, section_w, T;
    bool f32_angles;
} rope_params;

/* rope_kernel: one (cos, sin).
 *
 * Does     the op of ops.h:rope_table_args
 * Grid     a thread an entry of cs
 * Moves    writes 8 bytes an entry
 * Numbers  frequency, angle, cosine and sine in double, rounded once: entries do not depend on T
 * Why      the frequency is made anew for each entry: exp in double is nothing beside a launch */
__global__ void rope_kernel(rope_params p)
{
    launch_join();
    int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= static_cast<int64_t>(p.T) * p.n_pairs) return;
    int j = static_cast<int>(i % p.n_pairs);
    int64_t t = i / p.n_pairs;
    int axis = 0;
    if (j % 3 == 1 && j < 3 * p.section_h) axis = 1;
    if (j % 3 == 2 && j < 3 * p.section_w) axis = 2;
    double freq = exp(-static_cast<double>(j) / p.n_pairs * p.log_theta);
    int pos = p.pos[axis * static_cast<int64_t>(p.T) + t];
    double angle = p.f32_angles ? __fmul_rn(static_cast<float>(pos), static_cast<float>(freq))
                                : static_cast<double>(pos) * freq;
    double s, c;
    sincos(angle, &s, &c);
    p.cs[i] = make_float2(static_cast<float>(c), static_cast<float>(s));
}

extern "C" status cuda_rope_table(backend *b, const rope_table_args *a)
{
    cuda_backend *cb = cuda_of(b);
    rope_params p = {};
    p.pos = buf_of<int32_t>(a->pos);
    p.cs = buf_of<float2>(a->cs);
    p.log_theta = log(a->theta);
    p.n_pairs = a->n_pairs;
    p.section_h = a->section[1];
    p.section_w = a->section[1] ? a->section[2] : 0;
    p.T = a->T;
    p.f32_angles = a->f32_angles;
    int64_t n = static_cast<int64_t>(a->T) * a->n_pairs;
    if (n == 0) return cb->broken;
    dim3 grid(static_cast<unsigned>(div_up<int64_t>(n, 128)));
    CUDA_TRY(cb, launch_early(cb->sm == 90, rope_kernel, grid, 128, 0, cb->stream, p));
    return cb->broken;
}
