/* embed: rows of a table, as exact as the file's own values. */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/dequant.cuh"
#include "backend/cuda/launch_early.cuh"

enum { EMBED_THREADS = 128 };

/* embed_kernel: one value a thread.
 *
 * Does     ops.h:embed_args
 * Grid     (E / 128, T); block 128
 * Numbers  product and sum of an affine value each rounded in f32, as quant.h says */
__global__ void embed_kernel(const dequant_table table, const int32_t *ids, float *out, float scale)
{
    launch_join();
    int64_t i = int64_t(blockIdx.x) * EMBED_THREADS + threadIdx.x;
    if (i >= table.K) return;
    float v = dequant_table_at(table, ids[blockIdx.y], i);
    out[blockIdx.y * table.K + i] = __fmul_rn(v, scale);
}

status cuda_embed(backend *b, const embed_args *a)
{
    cuda_backend *cb = cuda_of(b);
    /* grid.y ends at 65535 */
    for (int t = 0; t < a->T; t += 32768) {
        int n = a->T - t < 32768 ? a->T - t : 32768;
        dim3 grid(static_cast<unsigned>(div_up<int64_t>(a->table->K, EMBED_THREADS)), n);
        CUDA_TRY(cb, launch_early(cb->sm == 90, embed_kernel, grid, EMBED_THREADS, 0, cb->stream,
                                  dequant_table_of(a->table), buf_of<int32_t>(a->ids) + t,
                                  buf_of<float>(a->out) + t * a->table->K, a->scale));
    }
    return cb->broken;
}
