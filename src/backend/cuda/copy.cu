/* copy: rows of the residual stream picked out (gather_rows) or kept for the draft (tap_store). */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/launch_early.cuh"

enum { COPY_THREADS = 256 };

/* gather_rows_kernel: y[m] = x[index[m]].
 *
 * Grid     (M); block 256
 * Moves    M rows of E floats each way */
__global__ void gather_rows_kernel(const float *x, const int32_t *index, float *y, int E)
{
    launch_join();
    const float *from = x + int64_t(index[blockIdx.x]) * E;
    float *to = y + int64_t(blockIdx.x) * E;
    for (int i = threadIdx.x; i < E; i += COPY_THREADS) to[i] = from[i];
}

status cuda_gather_rows(backend *b, const gather_rows_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (a->M == 0) return cb->broken;
    CUDA_TRY(cb, launch_early(cb->sm == 90, gather_rows_kernel, dim3(a->M), COPY_THREADS, 0,
                              cb->stream, buf_of<float>(a->x), buf_of<int32_t>(a->index),
                              buf_of<float>(a->y), a->E));
    return cb->broken;
}

/* tap_store_kernel: taps[t, col..] = bf16(h[t]).
 *
 * Grid     (T); block 256
 * Moves    T rows of E, 4 bytes in and 2 out */
__global__ void tap_store_kernel(const float *h, bf16 *taps, int E, int64_t n_cols)
{
    launch_join();
    const float *from = h + int64_t(blockIdx.x) * E;
    bf16 *to = taps + blockIdx.x * n_cols;
    for (int i = threadIdx.x; i < E; i += COPY_THREADS) to[i] = __float2bfloat16_rn(from[i]);
}

status cuda_tap_store(backend *b, const tap_store_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (a->T == 0) return cb->broken;
    CUDA_TRY(cb,
             launch_early(cb->sm == 90, tap_store_kernel, dim3(a->T), COPY_THREADS, 0, cb->stream,
                          buf_of<float>(a->h), buf_of<bf16>(a->taps) + a->col, a->E, a->n_cols));
    return cb->broken;
}
