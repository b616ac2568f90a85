/* cuda_mem: the only cudaMalloc; copies; the pinned slices that weights travel in. */
#include "backend/cuda/cuda_check.cuh"

/* Memory from cudaMalloc and pieces of the arena start on 256 bytes, which every kernel's 16-byte
 * accesses rely on. */
static status take_new(cuda_backend *cb, int64_t n_bytes, void **out, err *e)
{
    mem_guard_check();
    cudaError_t r = cudaMalloc(out, n_bytes > 0 ? static_cast<size_t>(n_bytes) : 16);
    if (r == cudaSuccess) return ERR_OK;
    status s = cuda_status(cb, r, "cudaMalloc", __FILE__, __LINE__);
    return err_set(e, s, "cuda", -1, "%lld bytes: %s", static_cast<long long>(n_bytes),
                   cudaGetErrorString(r));
}

status cuda_take(cuda_backend *cb, int64_t n_bytes, dev_buf *out, err *e)
{
    if (n_bytes < 0) {
        return err_set(e, ERR_INVALID, "cuda", -1, "%lld bytes", static_cast<long long>(n_bytes));
    }
    void *p = nullptr;
    int64_t more = scratch_round(n_bytes > 0 ? n_bytes : 1);
    if (cb->arena.ptr && more <= cb->arena.n_bytes - cb->arena_used) {
        mem_guard_check();
        p = static_cast<char *>(cb->arena.ptr) + cb->arena_used;
        cb->arena_used += more;
    } else {
        TRY(take_new(cb, n_bytes, &p, e));
    }
    out->ptr = p;
    out->n_bytes = n_bytes;
    return ERR_OK;
}

/* Zeroed once, so that nothing in it is ever read before it was written. */
status cuda_open_arena(backend *b, int64_t n_bytes, err *e)
{
    cuda_backend *cb = cuda_of(b);
    void *p = nullptr;
    if (cb->arena.ptr) return err_set(e, ERR_UNSUPPORTED, "cuda", -1, "there is an arena");
    TRY(take_new(cb, n_bytes, &p, e));
    cb->arena = dev_buf{p, n_bytes};
    status s = cuda_fill(b, cb->arena, 0, n_bytes);
    if (s == ERR_OK) s = cuda_sync(b);
    return s == ERR_OK ? s : err_set(e, s, "cuda", -1, "%.200s", cb->base.last.msg);
}

void cuda_close_arena(cuda_backend *cb)
{
    if (cb->arena.ptr) cudaFree(cb->arena.ptr);
    cb->arena = dev_buf{};
    cb->arena_used = 0;
}

/* Of the arena only the last piece comes back: all else in it lives until the end. */
static bool give_to_arena(cuda_backend *cb, const dev_buf *buf)
{
    char *base = static_cast<char *>(cb->arena.ptr), *p = static_cast<char *>(buf->ptr);
    if (!base || p < base || p >= base + cb->arena.n_bytes) return false;
    int64_t at = p - base;
    if (at + scratch_round(buf->n_bytes > 0 ? buf->n_bytes : 1) == cb->arena_used)
        cb->arena_used = at;
    return true;
}

status cuda_alloc(backend *b, int64_t n_bytes, dev_buf *out, err *e)
{
    cuda_backend *cb = cuda_of(b);
    dev_buf buf = {};
    TRY(cuda_take(cb, n_bytes, &buf, e));
    status s = cuda_status(cb,
                           cudaMemsetAsync(buf.ptr, 0, static_cast<size_t>(n_bytes), cb->stream),
                           "cudaMemsetAsync", __FILE__, __LINE__);
    if (s != ERR_OK) {
        cuda_release(b, &buf);
        return err_set(e, s, "cuda", -1, "%s", cb->base.last.msg);
    }
    *out = buf;
    return ERR_OK;
}

void cuda_release(backend *b, dev_buf *buf)
{
    cuda_backend *cb = cuda_of(b);
    if (buf->ptr && !give_to_arena(cb, buf))
        cuda_status(cb, cudaFree(buf->ptr), "cudaFree", __FILE__, __LINE__);
    *buf = dev_buf{};
}

status cuda_need(cuda_backend *cb, const char *op, int64_t n_bytes)
{
    if (n_bytes <= cb->scratch.n_bytes) return ERR_OK;
    return err_set(&cb->base.last, ERR_LIMIT, op, -1, "wants %lld bytes of scratch, reserved %lld",
                   static_cast<long long>(n_bytes), static_cast<long long>(cb->scratch.n_bytes));
}

/* ---- copies ------------------------------------------------------------------------------- */

status cuda_upload(backend *b, dev_buf dst, const void *src, int64_t n_bytes)
{
    cuda_backend *cb = cuda_of(b);
    if (n_bytes <= 0) return cb->broken;
    CUDA_TRY(cb, cudaMemcpyAsync(dst.ptr, src, static_cast<size_t>(n_bytes), cudaMemcpyHostToDevice,
                                 cb->stream));
    CUDA_TRY(cb, cudaStreamSynchronize(cb->stream));
    return ERR_OK;
}

status cuda_download(backend *b, void *dst, dev_buf src, int64_t n_bytes)
{
    cuda_backend *cb = cuda_of(b);
    if (n_bytes > 0) {
        CUDA_TRY(cb, cudaMemcpyAsync(dst, src.ptr, static_cast<size_t>(n_bytes),
                                     cudaMemcpyDeviceToHost, cb->stream));
    }
    CUDA_TRY(cb, cudaStreamSynchronize(cb->stream));
    return ERR_OK;
}

status cuda_copy(backend *b, dev_buf dst, dev_buf src, int64_t n_bytes)
{
    cuda_backend *cb = cuda_of(b);
    if (n_bytes <= 0) return cb->broken;
    CUDA_TRY(cb, cudaMemcpyAsync(dst.ptr, src.ptr, static_cast<size_t>(n_bytes),
                                 cudaMemcpyDeviceToDevice, cb->stream));
    return ERR_OK;
}

status cuda_fill(backend *b, dev_buf dst, int byte, int64_t n_bytes)
{
    cuda_backend *cb = cuda_of(b);
    if (n_bytes <= 0) return cb->broken;
    CUDA_TRY(cb, cudaMemsetAsync(dst.ptr, byte, static_cast<size_t>(n_bytes), cb->stream));
    return ERR_OK;
}

status cuda_sync(backend *b)
{
    cuda_backend *cb = cuda_of(b);
    CUDA_TRY(cb, cudaStreamSynchronize(cb->stream));
    return ERR_OK;
}

/* ---- slices ------------------------------------------------------------------------------- */

status cuda_slices_open(cuda_backend *cb, err *e)
{
    for (int i = 0; i < 2; i++) {
        cudaError_t r = cudaMallocHost(&cb->pinned[i], CUDA_SLICE_BYTES);
        if (r == cudaSuccess) r = cudaMalloc(&cb->staged[i], CUDA_SLICE_BYTES);
        if (r == cudaSuccess) r = cudaMemset(cb->staged[i], 0, CUDA_SLICE_BYTES);
        if (r == cudaSuccess) {
            r = cudaEventCreateWithFlags(&cb->slice_free[i], cudaEventDisableTiming);
        }
        if (r != cudaSuccess) {
            status s = cuda_status(cb, r, "weight slices", __FILE__, __LINE__);
            return err_set(e, s, "cuda", -1, "weight slices: %s", cudaGetErrorString(r));
        }
    }
    return ERR_OK;
}

void cuda_slices_close(cuda_backend *cb)
{
    for (int i = 0; i < 2; i++) {
        if (cb->pinned[i]) cudaFreeHost(cb->pinned[i]);
        if (cb->staged[i]) cudaFree(cb->staged[i]);
        if (cb->slice_free[i]) cudaEventDestroy(cb->slice_free[i]);
        cb->pinned[i] = cb->staged[i] = nullptr;
        cb->slice_free[i] = nullptr;
    }
}

status cuda_slice_take(cuda_backend *cb, cuda_slice *s)
{
    /* An event that was never recorded counts as over. */
    CUDA_TRY(cb, cudaEventSynchronize(cb->slice_free[cb->slice]));
    s->host = cb->pinned[cb->slice];
    s->device = cb->staged[cb->slice];
    return ERR_OK;
}

status cuda_slice_send(cuda_backend *cb, int64_t n_bytes)
{
    CUDA_TRY(cb, cudaMemcpyAsync(cb->staged[cb->slice], cb->pinned[cb->slice],
                                 static_cast<size_t>(n_bytes), cudaMemcpyHostToDevice, cb->upload));
    return ERR_OK;
}

status cuda_slice_give(cuda_backend *cb)
{
    CUDA_TRY(cb, cudaEventRecord(cb->slice_free[cb->slice], cb->upload));
    cb->slice ^= 1;
    return ERR_OK;
}

status cuda_slices_finish(cuda_backend *cb)
{
    CUDA_TRY(cb, cudaStreamSynchronize(cb->upload));
    return ERR_OK;
}

status cuda_slices_copy(cuda_backend *cb, void *dst, const void *src, int64_t n_bytes)
{
    const int64_t step = CUDA_SLICE_BYTES;
    for (int64_t at = 0; at < n_bytes; at += step) {
        int64_t n = n_bytes - at < step ? n_bytes - at : step;
        cuda_slice s;
        TRY(cuda_slice_take(cb, &s));
        memcpy(s.host, static_cast<const char *>(src) + at, static_cast<size_t>(n));
        CUDA_TRY(cb, cudaMemcpyAsync(static_cast<char *>(dst) + at, s.host, static_cast<size_t>(n),
                                     cudaMemcpyHostToDevice, cb->upload));
        TRY(cuda_slice_give(cb));
    }
    return ERR_OK;
}
