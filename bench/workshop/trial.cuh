/* trial: what the workshop's programs share: device memory, noise, digests, timing.
 *
 * Programs under bench/workshop try kernels against those of the product, which they link from its
 * headers: there is no second copy. They stop with a message at the first failure. */
#ifndef RIPTIDE_BENCH_TRIAL_CUH
#define RIPTIDE_BENCH_TRIAL_CUH

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda_priv.h"

#define TRIAL_TRY(call)                                                       \
    do {                                                                      \
        cudaError_t trial_r_ = (call);                                        \
        if (trial_r_ != cudaSuccess) {                                        \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(trial_r_)); \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

typedef enum { TRIAL_I8, TRIAL_BF16, TRIAL_F32, TRIAL_CODES } trial_type;

/* One number of a stream that only its place and the seed decide. */
__device__ static inline uint32_t trial_bits(uint64_t i, uint32_t seed)
{
    uint64_t x = i * 0x9e3779b97f4a7c15ull + seed * 0xd1342543de82ef95ull;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 32;
    return static_cast<uint32_t>(x);
}

static __global__ void trial_noise_kernel(void *to, int64_t n, trial_type type, float size,
                                          uint32_t seed)
{
    int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
         i += step) {
        uint32_t u = trial_bits(i, seed);
        float x = (static_cast<float>(u) * (1.0f / 2147483648.0f) - 1.0f) * size;
        if (type == TRIAL_I8) static_cast<int8_t *>(to)[i] = static_cast<int8_t>(u >> 24);
        if (type == TRIAL_BF16) static_cast<bf16 *>(to)[i] = __float2bfloat16_rn(x);
        if (type == TRIAL_F32) static_cast<float *>(to)[i] = x;
        if (type == TRIAL_CODES) static_cast<float *>(to)[i] = (fabsf(x) + 0.1f * size) / 127.0f;
    }
}

/* n numbers of magnitude up to `size` (CODES: positive scales) in new memory of n_bytes at least.
 */
static inline void *trial_new(trial_type type, int64_t n, float size, uint32_t seed)
{
    int64_t each = type == TRIAL_I8 ? 1 : type == TRIAL_BF16 ? 2 : 4;
    void *p = nullptr;
    TRIAL_TRY(cudaMalloc(&p, n * each));
    trial_noise_kernel<<<512, 256>>>(p, n, type, size, seed);
    TRIAL_TRY(cudaGetLastError());
    return p;
}

static inline void *trial_copy(const void *host, int64_t n_bytes)
{
    void *p = nullptr;
    TRIAL_TRY(cudaMalloc(&p, n_bytes));
    TRIAL_TRY(cudaMemcpy(p, host, n_bytes, cudaMemcpyHostToDevice));
    return p;
}

/* FNV-1a of device memory. */
static inline uint64_t trial_digest(const void *device, int64_t n_bytes)
{
    uint8_t *host = static_cast<uint8_t *>(malloc(n_bytes));
    uint64_t h = 0xcbf29ce484222325ull;
    if (!host) exit(1);
    TRIAL_TRY(cudaMemcpy(host, device, n_bytes, cudaMemcpyDeviceToHost));
    for (int64_t i = 0; i < n_bytes; i++) h = (h ^ host[i]) * 0x100000001b3ull;
    free(host);
    return h;
}

static inline int trial_by_value(const void *p, const void *q)
{
    float x = *static_cast<const float *>(p), y = *static_cast<const float *>(q);
    return (x > y) - (x < y);
}

static inline float trial_median(float *t, int n)
{
    qsort(t, n, sizeof *t, trial_by_value);
    return t[n / 2];
}

/* Milliseconds between two points of the stream. */
typedef struct {
    cudaEvent_t from, to;
} trial_clock;

static inline trial_clock trial_clock_new(void)
{
    trial_clock c;
    TRIAL_TRY(cudaEventCreate(&c.from));
    TRIAL_TRY(cudaEventCreate(&c.to));
    return c;
}
static inline void trial_clock_free(trial_clock *c)
{
    cudaEventDestroy(c->from);
    cudaEventDestroy(c->to);
}
static inline float trial_ms(const trial_clock *c)
{
    float ms = 0.0f;
    TRIAL_TRY(cudaEventSynchronize(c->to));
    TRIAL_TRY(cudaEventElapsedTime(&ms, c->from, c->to));
    return ms;
}

int attention_sweep_main(int argc, char **argv);
int draft_attention_main(int argc, char **argv);

#endif
