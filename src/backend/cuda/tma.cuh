/* tma: Hopper's bulk copies to shared memory, and the barriers that they complete on.
 *
 * A barrier's phase ends when its arrivals and the bytes expected of it have all come; the wait
 * names the parity of the phase (0 for the first). Only code for sm_90 has these. */
#ifndef RIPTIDE_BACKEND_CUDA_TMA_CUH
#define RIPTIDE_BACKEND_CUDA_TMA_CUH

#include <cuda.h> /* CUtensorMap; the library itself is not linked */

#include "backend/cuda/vec_load.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

__device__ static inline void tma_barrier_init(uint64_t *barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(arrivals)
                 : "memory");
}
/* After the init, by the thread that did it, before the block's barrier. */
__device__ static inline void tma_barrier_fence()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ static inline void tma_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
                 : "memory");
}
/* Arrive, and let the phase wait for n_bytes of copies too. */
__device__ static inline void tma_arrive_expect(uint64_t *barrier, int n_bytes)
{
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(n_bytes)
        : "memory");
}
__device__ static inline void tma_wait(uint64_t *barrier, int parity)
{
    asm volatile("{.reg .pred p;\n"
                 "TMA_WAIT_%=:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra TMA_WAIT_%=;}" ::"r"(shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

/* n_bytes, a multiple of 16 on 16 bytes both sides. */
__device__ static inline void tma_copy(void *shared, const void *global, int n_bytes,
                                       uint64_t *barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(shared_address(shared)),
                 "l"(global), "r"(n_bytes), "r"(shared_address(barrier))
                 : "memory");
}
/* The map's box at (column, row); what lies outside the matrix arrives as zeros. */
__device__ static inline void tma_copy_box(void *shared, const CUtensorMap *map, int column,
                                           int row, uint64_t *barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(shared)),
                 "l"(map), "r"(column), "r"(row), "r"(shared_address(barrier))
                 : "memory");
}

#endif
#endif
