/* op_device: a GPU for tests that go about ops themselves, and bytes to it and back. */
#ifndef RIPTIDE_TESTS_OP_DEVICE_H
#define RIPTIDE_TESTS_OP_DEVICE_H

#include "ops/op_cases.h"
#include "ops/op_check.h"

/* The cuda backend, opened once a program, with scratch for these limits; NULL without one. */
static inline backend *op_cuda(const backend_limits *limits)
{
    static backend *b;
    err e = {0};
    backend_options o = {.name = "cuda", .n_threads = 1};
    if (!b && backend_open(&b, &o, &e) != ERR_OK) return NULL;
    CHECK_OK(b->ops->reserve(b, limits, &e), &e);
    return b;
}

/* Bytes on the device, copies of `from`; NULL: all of them 0xff, which no number is. The caller
 * releases them. */
static inline dev_buf op_upload(backend *b, const void *from, int64_t n_bytes)
{
    err e = {0};
    dev_buf d = {0};
    CHECK_OK(b->ops->alloc(b, n_bytes, &d, &e), &e);
    if (from) CHECK_OK(b->ops->upload(b, d, from, n_bytes), &b->last);
    if (!from) CHECK_OK(b->ops->fill(b, d, 0xff, n_bytes), &b->last);
    return d;
}

/* A copy that lives as long as c. */
static inline char *op_download(backend *b, op_call *c, dev_buf d)
{
    char *p = op_new(c, d.n_bytes, 1);
    CHECK_OK(b->ops->download(b, p, d, d.n_bytes), &b->last);
    return p;
}

static inline uint16_t *op_noise_bf16(op_call *c, int64_t n, uint64_t *seed)
{
    uint16_t *x = op_new(c, n, sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = half_to_bf16((float)op_noise(seed));
    return x;
}

static inline float *op_noise_f32(op_call *c, int64_t n, uint64_t *seed)
{
    float *x = op_new(c, n, sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (float)op_noise(seed);
    return x;
}

#endif
