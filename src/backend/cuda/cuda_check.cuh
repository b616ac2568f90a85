/* cuda_check: a CUDA error becomes ERR_DEVICE (or NOMEM) with file:line in backend.last.
 *
 * ERR_DEVICE is sticky: a context that has faulted stays faulted, and every later call says so. */
#ifndef RIPTIDE_BACKEND_CUDA_CHECK_CUH
#define RIPTIDE_BACKEND_CUDA_CHECK_CUH

#include "backend/cuda/cuda_priv.h"

/* Record `r` against `what`; returns the status it stands for. OK when r is cudaSuccess and the
 * device has not failed before. */
static inline status cuda_status(cuda_backend *cb, cudaError_t r, const char *what,
                                 const char *file, int line)
{
    if (r == cudaSuccess) return cb->broken;
    const char *name = strrchr(file, '/');
    char where[96];
    snprintf(where, sizeof where, "%s:%d", name ? name + 1 : file, line);
    if (r == cudaErrorMemoryAllocation) {
        cudaGetLastError(); /* an allocation that fails leaves the device sound */
        return err_set(&cb->base.last, ERR_NOMEM, where, -1, "%s: %s", what, cudaGetErrorString(r));
    }
    /* The first failure is the one that names the place. */
    if (cb->broken == ERR_OK)
        err_set(&cb->base.last, ERR_DEVICE, where, -1, "%s: %s", what, cudaGetErrorString(r));
    cb->broken = ERR_DEVICE;
    return ERR_DEVICE;
}

/* Return from the calling function when a runtime call fails. */
#define CUDA_TRY(cb, call)                                                       \
    do {                                                                         \
        status cuda_try_ = cuda_status((cb), (call), #call, __FILE__, __LINE__); \
        if (cuda_try_ != ERR_OK) return cuda_try_;                               \
    } while (0)

/* The status after a launch. Faults inside a kernel show at the next sync or download. */
#define CUDA_LAUNCHED(cb) cuda_status((cb), cudaPeekAtLastError(), __func__, __FILE__, __LINE__)

#endif
