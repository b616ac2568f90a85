/* cluster: blocks that run at the same time, see each other's shared memory and can meet (sm_90).
 * On older devices nobody calls these. */
#ifndef RIPTIDE_BACKEND_CUDA_CLUSTER_CUH
#define RIPTIDE_BACKEND_CUDA_CLUSTER_CUH

#include "backend/cuda/tma.cuh"
#include "backend/cuda/vec_load.cuh"

/* All threads of all blocks of the cluster: what was written before cluster_arrive is seen behind
 * cluster_wait. Before the first word is sent both must have been called once: a block may not
 * have begun. */
__device__ static inline void cluster_arrive()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ static inline void cluster_wait()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/* Where in block `block` of the cluster that lies which lies at `at` in this one. */
__device__ static inline uint32_t cluster_address(const void *at, int block)
{
    uint32_t to = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(to)
                 : "r"(shared_address(at)), "r"(block));
#else
    (void)at, (void)block;
#endif
    return to;
}

/* Words that come without a meeting of all blocks: the block that gets them counts their bytes on a
 * barrier of its own, for one phase. Nothing else that a sender wrote is waited for, which a
 * cluster_arrive would do (a trip to the second-level cache behind a store to memory).
 *
 * cluster_expect by one thread of each block, then cluster_arrive and cluster_wait by all; then
 * cluster_post by anybody; cluster_received by who reads the words. A block stays until it has
 * received all that is posted to it. */
__device__ static inline void cluster_expect(uint64_t *barrier, int n_bytes)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    tma_barrier_init(barrier, 1);
    tma_barrier_fence();
    tma_arrive_expect(barrier, n_bytes);
#else
    (void)barrier, (void)n_bytes;
#endif
}
__device__ static inline void cluster_received(uint64_t *barrier)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    tma_wait(barrier, 0);
#else
    (void)barrier;
#endif
}
/* v to the word of block `block` that lies where `at` lies in this one. */
__device__ static inline void cluster_post(float *at, uint64_t *barrier, int block, float v)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint32_t to = cluster_address(at, block), on = cluster_address(barrier, block);
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to),
        "r"(__float_as_uint(v)), "r"(on)
        : "memory");
#else
    (void)at, (void)barrier, (void)block, (void)v;
#endif
}
/* cluster_post of two words. */
__device__ static inline void cluster_post_two(void *at, uint64_t *barrier, int block, uint2 v)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint32_t to = cluster_address(at, block), on = cluster_address(barrier, block);
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, "
                 "%2}, [%3];" ::"r"(to),
                 "r"(v.x), "r"(v.y), "r"(on)
                 : "memory");
#else
    (void)at, (void)barrier, (void)block, (void)v;
#endif
}

/* cluster_post of four words, on 16 bytes. */
__device__ static inline void cluster_post_four(void *at, uint64_t *barrier, int block, float4 v)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint32_t to = cluster_address(at, block), on = cluster_address(barrier, block);
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, "
                 "%2, %3, %4}, [%5];" ::"r"(to),
                 "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(on)
                 : "memory");
#else
    (void)at, (void)barrier, (void)block, (void)v;
#endif
}

/* cluster_arrive of who has written nothing for others since the last meeting. */
__device__ static inline void cluster_arrive_only()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

/* This block's place in its cluster; 0 where there is none. */
__device__ static inline int cluster_rank()
{
    uint32_t rank = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    return static_cast<int>(rank);
}

/* Two words of block `block` of the cluster that lie where `at` lies in this one. */
__device__ static inline float2 cluster_read_two(const void *at, int block)
{
    float2 v = {};
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];"
                 : "=f"(v.x), "=f"(v.y)
                 : "r"(cluster_address(at, block))
                 : "memory");
#else
    (void)at, (void)block;
#endif
    return v;
}

/* v to the words of block `block` of the cluster that lie where `at` lies in this one. */
__device__ static inline void cluster_send_four(float4 *at, int block, float4 v)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint32_t to = cluster_address(at, block);
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(v.x), "f"(v.y),
                 "f"(v.z), "f"(v.w)
                 : "memory");
#else
    (void)at, (void)block, (void)v;
#endif
}

#endif
