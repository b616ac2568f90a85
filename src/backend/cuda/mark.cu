/* The device's clock between ops (ops.h:mark_args). */
#include "backend/cuda/cuda_check.cuh"

/* mark_kernel: one thread.
 *
 * Does     the op of ops.h:mark_args
 * Why      launched the usual way, and letting nobody begin early: what is timed on either side of
 *          it shares no moment */
__global__ void mark_kernel(uint64_t *at)
{
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(*at)::"memory");
}

extern "C" status cuda_mark(backend *b, const mark_args *a)
{
    cuda_backend *cb = cuda_of(b);
    mark_kernel<<<1, 1, 0, cb->stream>>>(buf_of<uint64_t>(a->at));
    return CUDA_LAUNCHED(cb);
}
