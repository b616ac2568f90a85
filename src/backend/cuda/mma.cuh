/* mma: the tensor core step that every linear is a chain of.
 *
 * mma.sync m16n8k16, bf16 in, f32 sum. A is the weight (16 outputs x 16 K), B the activations
 * (16 K x 8 rows). With r = lane / 4 and c = lane % 4 * 2 a lane holds
 *   A  a0: (r, c..c+1)  a1: (r+8, c..c+1)  a2: (r, c+8..c+9)  a3: (r+8, c+8..c+9)
 *   B  b0: (k = c..c+1, n = r)             b1: (k = c+8..c+9, n = r)
 *   C  c0, c1: (r, c..c+1)                 c2, c3: (r+8, c..c+1) */
#ifndef RIPTIDE_BACKEND_CUDA_MMA_CUH
#define RIPTIDE_BACKEND_CUDA_MMA_CUH

#include "backend/cuda/cuda_priv.h"
#include "backend/cuda/vec_load.cuh"

__device__ static inline void mma_bf16(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Four 8x8 matrices of bf16; lane i names row i % 8 of matrix i / 8. From rows of x (K
 * contiguous) register j is B's half j: two k16 steps of 8 rows. */
__device__ static inline void load_matrix_x4(uint32_t *r, const void *shared)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(shared))
                 : "memory");
}

#endif
