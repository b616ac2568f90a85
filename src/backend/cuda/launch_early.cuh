/* launch_early: a kernel's blocks may start while the kernel before it in the stream still runs.
 *
 * On sm_90 a launch through launch_early needs no idle moment between two kernels: its blocks are
 * placed as soon as every block of the kernel before has called launch_next or ended. Such a
 * kernel must call launch_wait before it reads what another kernel wrote, and before it writes
 * anything. Earlier it may read what no kernel writes; and, if the kernel in front calls
 * launch_next behind its own launch_wait, what was there before that one. Whoever is launched the
 * usual way is not concerned.
 */
#ifndef RIPTIDE_BACKEND_CUDA_LAUNCH_EARLY_CUH
#define RIPTIDE_BACKEND_CUDA_LAUNCH_EARLY_CUH

#include "backend/cuda/cuda_priv.h"

/* All kernels before this one are over, and what they wrote is visible. */
__device__ static inline void launch_wait()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* The next kernel's blocks may be placed beside this one's. */
__device__ static inline void launch_next()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Both at once, at the start of a kernel that reads nothing but what others wrote. It serves the
 * kernel behind however this one was launched; which are launched early themselves was measured
 * (bench/notes_cuda.md): blocks that wait take room from those that run. */
__device__ static inline void launch_join()
{
    launch_next();
    launch_wait();
}

/* kernel<<<grid, threads, shared, stream>>>(args...), early when is_early. */
template <typename... Params, typename... Args>
static inline cudaError_t launch_early(bool is_early, void (*kernel)(Params...), dim3 grid,
                                       int threads, int shared, cudaStream_t stream,
                                       const Args &...args)
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(static_cast<unsigned>(threads));
    config.dynamicSmemBytes = static_cast<size_t>(shared);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = is_early ? 1 : 0;
    return cudaLaunchKernelEx(&config, kernel, args...);
}

/* The same in clusters of `cluster` blocks along x, for sm_90 alone; always early. */
template <typename... Params, typename... Args>
static inline cudaError_t launch_clusters_with(void (*kernel)(Params...), dim3 grid, int cluster,
                                               int threads, int shared, cudaStream_t stream,
                                               const Args &...args)
{
    cudaLaunchAttribute attribute[2] = {};
    attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute[0].val.programmaticStreamSerializationAllowed = 1;
    attribute[1].id = cudaLaunchAttributeClusterDimension;
    attribute[1].val.clusterDim.x = static_cast<unsigned>(cluster);
    attribute[1].val.clusterDim.y = 1;
    attribute[1].val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(static_cast<unsigned>(threads));
    config.dynamicSmemBytes = static_cast<size_t>(shared);
    config.stream = stream;
    config.attrs = attribute;
    config.numAttrs = 2;
    return cudaLaunchKernelEx(&config, kernel, args...);
}

/* The same without dynamic shared memory. */
template <typename... Params, typename... Args>
static inline cudaError_t launch_clusters(void (*kernel)(Params...), dim3 grid, int cluster,
                                          int threads, cudaStream_t stream, const Args &...args)
{
    return launch_clusters_with(kernel, grid, cluster, threads, 0, stream, args...);
}

#endif
