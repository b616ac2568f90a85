/* vec_load: 16-byte accesses and asynchronous copies to shared memory. */
#ifndef RIPTIDE_BACKEND_CUDA_VEC_LOAD_CUH
#define RIPTIDE_BACKEND_CUDA_VEC_LOAD_CUH

#include "backend/cuda/cuda_priv.h"

/* 16 bytes that are read once: past L1, so that they push nothing out of it. */
__device__ static inline uint4 load_once(const void *p)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

/* Whether a buffer can be read 16 bytes at a time. */
static inline bool vec_is_whole(dev_buf b)
{
    return reinterpret_cast<uintptr_t>(b.ptr) % 16 == 0;
}

__device__ static inline uint32_t shared_address(const void *p)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

/* Copy 16 bytes from global to shared memory; `on` false writes zeros and reads nothing. */
__device__ static inline void copy_async_16(void *shared, const void *global, bool on)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
                 "l"(global), "r"(on ? 16 : 0)
                 : "memory");
}

__device__ static inline void copy_async_16(void *shared, const void *global)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)),
                 "l"(global)
                 : "memory");
}

__device__ static inline void copy_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Wait until at most PENDING of this thread's groups are under way. Other threads' copies are
 * visible only after a barrier behind it. */
template <int PENDING> __device__ static inline void copy_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

/* Two floats as packed bf16, each rounded to nearest even; `lo` in the low half. */
__device__ static inline uint32_t pack_bf16(float lo, float hi)
{
    __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    uint32_t u;
    memcpy(&u, &v, 4);
    return u;
}

__device__ static inline float bf16_low(uint32_t u)
{
    return __uint_as_float(u << 16);
}
__device__ static inline float bf16_high(uint32_t u)
{
    return __uint_as_float(u & 0xffff0000u);
}

#endif
