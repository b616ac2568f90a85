/* cuda_backend: open and close, reserve, and the op table. */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/waiting.cuh"

#include "backend/backend_priv.h"

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t scratch_bytes(const backend_limits *l)
{
    int64_t n = 0;
    n = max64(n, cuda_linear_scratch(l));
    n = max64(n, cuda_linear_swiglu_scratch(l));
    n = max64(n, cuda_moe_ffn_scratch(l));
    n = max64(n, cuda_block_scratch(l));
    n = max64(n, cuda_topk_scratch(l));
    n = max64(n, cuda_attn_scratch(l));
    n = max64(n, cuda_gdn_scratch(l));
    n = max64(n, cuda_draft_scratch(l));
    n = max64(n, cuda_sample_scratch(l));
    return n;
}

static status cuda_reserve(backend *b, const backend_limits *l, err *e)
{
    cuda_backend *cb = cuda_of(b);
    int64_t n = scratch_bytes(l);
    TRY(cuda_settle(cb));
    if (n > cb->scratch.n_bytes) {
        TRY(cuda_sync(b));
        dev_buf scratch = {};
        TRY(cuda_take(cb, n, &scratch, e));
        cuda_graph_clear(cb); /* captured with the old addresses */
        cuda_release(b, &cb->scratch);
        cb->scratch = scratch;
        TRY(cuda_fill(b, scratch, 0, n)); /* tiles are read whole, whatever rows they hold */
    }
    cb->limits = *l;
    return ERR_OK;
}

static void cuda_close(backend *b)
{
    cuda_backend *cb = cuda_of(b);
    if (!cb) return;
    if (cb->stream) cudaStreamSynchronize(cb->stream);
    cuda_graph_clear(cb);
    cuda_release(b, &cb->scratch);
    cuda_release(b, &cb->counters);
    cuda_slices_close(cb);
    workers_close(cb->packers);
    cuda_close_arena(cb);
    if (cb->upload) cudaStreamDestroy(cb->upload);
    if (cb->stream) cudaStreamDestroy(cb->stream);
    /* A faulted context keeps its memory until it goes, and nothing more can be done with it. */
    if (cb->broken != ERR_OK) cudaDeviceReset();
    mem_free(cb);
}

/* An op that takes nothing over from the op before it. */
template <auto OP, typename Args> static status settled(backend *b, const Args *a)
{
    TRY(cuda_settle(cuda_of(b)));
    return OP(b, a);
}

static status settled_upload(backend *b, dev_buf dst, const void *src, int64_t n_bytes)
{
    TRY(cuda_settle(cuda_of(b)));
    return cuda_upload(b, dst, src, n_bytes);
}
static status settled_download(backend *b, void *dst, dev_buf src, int64_t n_bytes)
{
    TRY(cuda_settle(cuda_of(b)));
    return cuda_download(b, dst, src, n_bytes);
}
static status settled_copy(backend *b, dev_buf dst, dev_buf src, int64_t n_bytes)
{
    TRY(cuda_settle(cuda_of(b)));
    return cuda_copy(b, dst, src, n_bytes);
}
static status settled_fill(backend *b, dev_buf dst, int byte, int64_t n_bytes)
{
    TRY(cuda_settle(cuda_of(b)));
    return cuda_fill(b, dst, byte, n_bytes);
}
static status settled_sync(backend *b)
{
    TRY(cuda_settle(cuda_of(b)));
    return cuda_sync(b);
}

static backend_ops make_table(void)
{
    backend_ops t = {};
    t.alloc = cuda_alloc;
    t.release = cuda_release;
    t.upload = settled_upload;
    t.download = settled_download;
    t.copy = settled_copy;
    t.fill = settled_fill;
    t.sync = settled_sync;
    t.weight_open = cuda_weight_open;
    t.weight_close = cuda_weight_close;
    t.reserve = cuda_reserve;
    t.graph_replay = cuda_graph_replay;
    t.graph_begin = cuda_graph_begin;
    t.graph_end = cuda_graph_end;
    t.graph_drop = cuda_graph_drop;
    t.open_arena = cuda_open_arena;
    t.embed = settled<cuda_embed, embed_args>;
    t.rmsnorm = cuda_rmsnorm; /* may take over the sums before it */
    t.linear = cuda_any_linear;
    t.linear_swiglu = settled<cuda_any_linear_swiglu, linear_swiglu_args>;
    t.gather_rows = settled<cuda_gather_rows, gather_rows_args>;
    t.tap_store = settled<cuda_tap_store, tap_store_args>;
    t.rope_table = settled<cuda_rope_table, rope_table_args>;
    t.attn_prep = settled<cuda_attn_prep, attn_prep_args>;
    t.attn = settled<cuda_attn, attn_args>;
    t.gdn_prep = settled<cuda_gdn_prep, gdn_prep_args>;
    t.gdn_scan = cuda_gdn_scan; /* and this one the prep */
    t.gdn_commit = settled<cuda_gdn_commit, gdn_commit_args>;
    t.moe_route = cuda_moe_route; /* these two a norm, a router, and their routing */
    t.moe_ffn = cuda_any_moe_ffn;
    t.draft_kv_write = settled<cuda_draft_kv_write, draft_kv_write_args>;
    t.draft_attn_prep = settled<cuda_draft_attn_prep, draft_attn_prep_args>;
    t.draft_attn = settled<cuda_draft_attn, draft_attn_args>;
    t.draft_attend = settled<cuda_draft_attend, draft_attend_args>;
    t.draft_conv = settled<cuda_draft_conv, draft_conv_args>;
    t.draft_enter = settled<cuda_draft_enter, draft_enter_args>;
    t.draft_leave = settled<cuda_draft_leave, draft_leave_args>;
    t.topk = settled<cuda_topk, topk_args>;
    t.draft_select = settled<cuda_draft_select, draft_select_args>;
    t.sample = settled<cuda_sample, sample_args>;
    t.accept = settled<cuda_accept, accept_args>;
    t.count_prompt = settled<cuda_count_prompt, count_prompt_args>;
    t.mark = settled<cuda_mark, mark_args>;
    t.close = cuda_close;
    return t;
}

static const backend_ops table = make_table();

/* The device, its numbers, streams and buffers into cb. */
static status device_open(cuda_backend *cb, const cudaDeviceProp *prop, err *e)
{
    cb->n_sms = prop->multiProcessorCount;
    cb->smem_block_max = static_cast<int>(prop->sharedMemPerBlockOptin);
    cb->l2_bytes = prop->l2CacheSize;
    cudaError_t r = cudaSetDevice(cb->device);
    if (r == cudaSuccess) r = cudaStreamCreateWithFlags(&cb->stream, cudaStreamNonBlocking);
    if (r == cudaSuccess) r = cudaStreamCreateWithFlags(&cb->upload, cudaStreamNonBlocking);
    if (r != cudaSuccess) {
        status s = cuda_status(cb, r, "device", __FILE__, __LINE__);
        return err_set(e, s, "cuda", -1, "%s", cudaGetErrorString(r));
    }
    TRY(cuda_slices_open(cb, e));
    TRY(cuda_alloc(&cb->base, (CUDA_COUNTERS + 1) * 4, &cb->counters, e));
    status s = linear_open(cb);
    if (s == ERR_OK) s = moe_ffn_open(cb);
    if (s == ERR_OK) s = moe_router_open(cb);
    if (s == ERR_OK) s = cuda_sync(&cb->base); /* the counters are zero for any stream */
    if (s != ERR_OK) return err_set(e, s, "cuda", -1, "%.200s", cb->base.last.msg);
    size_t free_bytes = 0, all = 0;
    r = cudaMemGetInfo(&free_bytes, &all);
    if (r != cudaSuccess) {
        s = cuda_status(cb, r, "cudaMemGetInfo", __FILE__, __LINE__);
        return err_set(e, s, "cuda", -1, "%s", cudaGetErrorString(r));
    }
    cb->base.memory_free = static_cast<int64_t>(free_bytes);
    return ERR_OK;
}

extern "C" status cuda_backend_open(backend **b, const char *isa, const backend_options *o, err *e)
{
    (void)o; /* n_threads is for processors */
    int n_devices = 0;
    cudaError_t r = cudaGetDeviceCount(&n_devices);
    if (r != cudaSuccess || n_devices == 0) {
        cudaGetLastError();
        return err_set(e, ERR_UNSUPPORTED, "backend", -1, "no NVIDIA GPU: %s",
                       r == cudaSuccess ? "none is visible" : cudaGetErrorString(r));
    }
    cudaDeviceProp prop;
    r = cudaGetDeviceProperties(&prop, 0);
    if (r != cudaSuccess) {
        return err_set(e, ERR_UNSUPPORTED, "backend", -1, "the GPU: %s", cudaGetErrorString(r));
    }
    int sm = prop.major * 10 + prop.minor;
    char name[32];
    snprintf(name, sizeof name, "sm_%d", sm);
    if (isa && strcmp(isa, "sm_80") == 0)
        sm = 80; /* any newer GPU runs the kernels of sm_80 */
    else if (isa && strcmp(isa, name) != 0) {
        return err_set(e, strncmp(isa, "sm_", 3) == 0 ? ERR_UNSUPPORTED : ERR_INVALID, "backend",
                       -1, "this GPU is '%s', not '%.20s'", name, isa);
    }
    if (prop.major < 8) {
        return err_set(e, ERR_UNSUPPORTED, "backend", -1, "%.60s is %s; want sm_80 or newer",
                       prop.name, name);
    }
    cuda_backend *cb = static_cast<cuda_backend *>(mem_new(sizeof *cb));
    if (!cb) return err_set(e, ERR_NOMEM, "backend", -1, "cuda: %zu bytes", sizeof *cb);
    cb->base.ops = &table;
    cb->base.name = "cuda";
    snprintf(cb->base.isa, sizeof cb->base.isa, "sm_%d", sm);
    cb->sm = sm;
    cb->base.act = DTYPE_BF16;
    cb->base.quantises_drafts = true;
    cb->base.n_threads = 1;
    cb->base.has_graphs = true;
    ahead_clear(&cb->ahead);
    status s = device_open(cb, &prop, e);
    if (s != ERR_OK) {
        cuda_close(&cb->base);
        return s;
    }
    *b = &cb->base;
    return ERR_OK;
}
