/* dev_buf: a view of memory in a backend's address space. Copied freely; owns nothing.
 *
 * On `ref` and `cpu` ptr is host memory; on `cuda` it must not be read by the host. Whoever
 * called backend_ops.alloc owns the memory and gives it back with backend_ops.release. */
#ifndef RIPTIDE_BACKEND_DEV_BUF_H
#define RIPTIDE_BACKEND_DEV_BUF_H

#include <stdint.h>

typedef struct {
    void *ptr;
    int64_t n_bytes;
} dev_buf;

/* The view that starts `offset` bytes in. */
static inline dev_buf dev_buf_at(dev_buf b, int64_t offset)
{
    dev_buf v = {(char *)b.ptr + offset, b.n_bytes - offset};
    return v;
}

#endif
