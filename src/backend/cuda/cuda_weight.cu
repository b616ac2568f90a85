/* cuda_weight: weights from the file into device memory, repacked there (dequant.cuh). */
#include <float.h>
#include <math.h>

#include "backend/cuda/block_pack_priv.h"
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/dequant.cuh"
#include "backend/cuda/linear_tile_priv.h"
#include "backend/cuda/vec_load.cuh"

enum { REPACK_THREADS = 128 };

/* A piece of an expert (or of the only matrix): rows that lie in a slice, and where they go. */
typedef struct {
    const uint8_t *codes;  /* rows of row_bytes */
    const uint8_t *scales; /* rows of K / group values; biases alike */
    const uint8_t *biases;
    dtype type, scale_type;
    int64_t row_bytes, K;
    int n_rows; /* there; the last block of 16 may be filled up with zeros */
    int bits, group, n_bricks, brick_bytes;
    uint8_t *to; /* brick 0 of the piece's first row */
} repack_args;

__device__ static inline float scale_value(const uint8_t *p, int64_t i, dtype type)
{
    if (type == DTYPE_F32) return reinterpret_cast<const float *>(p)[i];
    if (type == DTYPE_F16) return __half2float(reinterpret_cast<const __half *>(p)[i]);
    return __bfloat162float(reinterpret_cast<const bf16 *>(p)[i]);
}

/* Element (row, k) of an unquantised piece as bf16 bits; zero outside. */
__device__ static inline uint32_t plain_bits(const repack_args &a, int row, int64_t k)
{
    if (row >= a.n_rows || k >= a.K) return 0;
    const uint8_t *p = a.codes + row * a.row_bytes;
    if (a.type == DTYPE_BF16) return reinterpret_cast<const uint16_t *>(p)[k];
    return __bfloat16_as_ushort(__float2bfloat16_rn(scale_value(p, k, a.type)));
}

/* repack_plain_kernel: BF16, F16, F32 rows to bf16 bricks.
 *
 * Grid     (16-output blocks x bricks); block 128: warp f writes fragment f
 * Moves    each weight once each way */
__global__ void repack_plain_kernel(const repack_args a)
{
    int block = blockIdx.x / a.n_bricks, kb = blockIdx.x % a.n_bricks;
    int lane = threadIdx.x & 31, f = threadIdx.x >> 5;
    uint32_t w[4];
    for (int j = 0; j < 4; j++) {
        int row = block * PICK_BRICK_N + (lane >> 2) + (j & 1) * 8;
        int64_t k = int64_t(kb) * PICK_BRICK_K + f * 16 + (lane & 3) * 2 + (j >> 1) * 8;
        w[j] = plain_bits(a, row, k) | plain_bits(a, row, k + 1) << 16;
    }
    uint8_t *to = a.to + int64_t(blockIdx.x) * a.brick_bytes;
    *reinterpret_cast<uint4 *>(to + f * 512 + lane * 16) = make_uint4(w[0], w[1], w[2], w[3]);
}

__device__ static inline uint32_t code_at(const repack_args &a, int row, int64_t k)
{
    if (row >= a.n_rows || k >= a.K) return 0;
    return dequant_code(a.codes + row * a.row_bytes, k, a.bits);
}

/* repack_affine_kernel: rows of codes to planes.
 *
 * Grid     (16-output blocks x bricks) / 4; block 128: a warp a brick, a lane its own words
 * Moves    each code once each way */
__global__ void repack_affine_kernel(const repack_args a, int n_total)
{
    int brick = blockIdx.x * (REPACK_THREADS / 32) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (brick >= n_total) return;
    int block = brick / a.n_bricks, kb = brick % a.n_bricks;
    int main = dequant_main_bits(a.bits), ext = a.bits - main;
    uint32_t words[8] = {}; /* main plane, then ext */
    for (int p = 0; p < 16; p++) {
        int f = p >> 2, j = p & 3;
        int row = block * PICK_BRICK_N + (lane >> 2) + (j & 1) * 8;
        int64_t k = int64_t(kb) * PICK_BRICK_K + f * 16 + (lane & 3) * 2 + (j >> 1) * 8;
        uint32_t lo = code_at(a, row, k), hi = code_at(a, row, k + 1);
        uint32_t mask = (1u << main) - 1;
        int per = 16 / main;
        words[p / per] |= ((lo & mask) | (hi & mask) << 16) << (p % per * main);
        if (ext > 0) {
            per = 16 / ext;
            words[main + p / per] |= ((lo >> main) | (hi >> main) << 16) << (p % per * ext);
        }
    }
    /* 8 bits: the plane is two halves of 4 words a lane. */
    int first = a.bits == 8 ? 4 : main;
    uint8_t *to = a.to + int64_t(brick) * a.brick_bytes;
    for (int i = 0; i < first; i++) {
        reinterpret_cast<uint32_t *>(to)[lane * first + i] = words[i];
    }
    int rest = a.bits - first;
    for (int i = 0; i < rest; i++) {
        reinterpret_cast<uint32_t *>(to + 128 * first)[lane * rest + i] = words[first + i];
    }
}

/* A magnitude as an integer that orders alike; NaN above all. */
__device__ static inline uint32_t magnitude(float x)
{
    return __float_as_uint(x) & 0x7fffffffu;
}

/* repack_scales_kernel: scales and biases to pairs of bf16, 16 rows side by side in each brick;
 * largest |scale| of the weight into *largest.
 *
 * Grid     (bricks x groups in a brick) x 16 threads, in blocks of 128 */
__global__ void repack_scales_kernel(const repack_args a, int n_total, uint32_t *largest)
{
    int i = blockIdx.x * REPACK_THREADS + threadIdx.x;
    if (i >= n_total) return;
    int in_brick = a.group == 32 ? 2 : 1;
    int r = i % 16, h = i / 16 % in_brick, brick = i / 16 / in_brick;
    int row = brick / a.n_bricks * PICK_BRICK_N + r;
    int64_t k = int64_t(brick % a.n_bricks) * PICK_BRICK_K + h * 32;
    uint32_t pair = 0;
    if (row < a.n_rows && k < a.K) {
        int64_t at = row * (a.K / a.group) + k / a.group;
        float scale = scale_value(a.scales, at, a.scale_type);
        pair = pack_bf16(scale, scale_value(a.biases, at, a.scale_type));
        atomicMax(largest, magnitude(bf16_low(pair)));
    }
    uint8_t *to = a.to + int64_t(brick) * a.brick_bytes + dequant_code_bytes(a.bits) +
                  h * DEQUANT_SCALE_BYTES;
    /* Row r and row r + 8 lie side by side. */
    reinterpret_cast<uint32_t *>(to)[(r & 7) * 2 + (r >> 3)] = pair;
}

/* finish_scales_kernel: scales to what the kernels multiply codes by (dequant.cuh), 2^k taken out
 * of scales and biases.
 *
 * Grid     (bricks x groups in a brick) x 16 threads, in blocks of 128 */
__global__ void finish_scales_kernel(uint8_t *bricks, int64_t n_total, int bits, int brick_bytes,
                                     int in_brick, int k)
{
    int64_t i = int64_t(blockIdx.x) * REPACK_THREADS + threadIdx.x;
    if (i >= n_total) return;
    uint8_t *at = bricks + i / 16 / in_brick * brick_bytes + dequant_code_bytes(bits) +
                  i / 16 % in_brick * DEQUANT_SCALE_BYTES + i % 16 * 4;
    uint32_t pair = *reinterpret_cast<uint32_t *>(at);
    int up = DEQUANT_CODE_EXPONENT - (i % 2 ? dequant_odd_at(bits) : 0) - k;
    *reinterpret_cast<uint32_t *>(at) = pack_bf16(scalbnf(bf16_low(pair), up),
                                                  scalbnf(bf16_high(pair), -k));
}

/* widen_kernel: n values of a scale type to f32. */
__global__ void widen_kernel(const uint8_t *from, dtype type, int64_t n, float *to)
{
    int64_t i = int64_t(blockIdx.x) * REPACK_THREADS + threadIdx.x;
    if (i < n) to[i] = scale_value(from, i, type);
}

/* ---- tables ------------------------------------------------------------------------------- */

static status table_widen(cuda_backend *cb, const void *from, dtype type, int64_t n, float *to)
{
    int64_t size = dtype_bits(type) / 8, step = CUDA_SLICE_BYTES / size;
    for (int64_t at = 0; at < n; at += step) {
        int64_t m = n - at < step ? n - at : step;
        cuda_slice s;
        TRY(cuda_slice_take(cb, &s));
        memcpy(s.host, static_cast<const char *>(from) + at * size, static_cast<size_t>(m * size));
        TRY(cuda_slice_send(cb, m * size));
        widen_kernel<<<static_cast<unsigned>(div_up<int64_t>(m, REPACK_THREADS)), REPACK_THREADS, 0,
                       cb->upload>>>(static_cast<uint8_t *>(s.device), type, m, to + at);
        TRY(CUDA_LAUNCHED(cb));
        TRY(cuda_slice_give(cb));
    }
    return ERR_OK;
}

static status table_upload(cuda_backend *cb, const tensor *t, dev_weight *w)
{
    TRY(cuda_slices_copy(cb, w->data.ptr, t->data, t->n_bytes));
    if (t->type != DTYPE_AFFINE) return ERR_OK;
    int64_t n = w->N * (w->K / w->group);
    TRY(table_widen(cb, t->scales, t->scale_type, n, buf_of<float>(w->scales)));
    return table_widen(cb, t->biases, t->scale_type, n, buf_of<float>(w->biases));
}

/* ---- bricks ------------------------------------------------------------------------------- */

typedef struct {
    int64_t row_bytes, scale_row_bytes; /* in the file */
    int64_t n_blocks;
    int n_bricks, bits, brick_bytes;
} brick_plan;

static brick_plan plan_of(const dev_weight *w, const tensor *t)
{
    brick_plan p = {};
    p.bits = linear_weight_bits(w);
    p.n_blocks = div_up<int64_t>(w->N, PICK_BRICK_N);
    p.n_bricks = static_cast<int>(div_up<int64_t>(w->K, PICK_BRICK_K));
    if (w->type == DTYPE_AFFINE) {
        p.row_bytes = quant_affine_row_bytes(w->K, w->bits);
        p.scale_row_bytes = w->K / w->group * (dtype_bits(t->scale_type) / 8);
    } else {
        p.row_bytes = w->K * (dtype_bits(w->type) / 8);
    }
    p.brick_bytes = dequant_brick_bytes(p.bits, w->group == 32);
    return p;
}

/* A word of cb->counters that no op uses: the largest scale of the weight in hand. */
static uint32_t *largest_scale(cuda_backend *cb)
{
    return buf_of<uint32_t>(cb->counters) + CUDA_COUNTERS;
}

static status repack_launch(cuda_backend *cb, const repack_args *a)
{
    int n_blocks = div_up<int>(a->n_rows, PICK_BRICK_N), n_total = n_blocks * a->n_bricks;
    if (a->type != DTYPE_AFFINE) {
        repack_plain_kernel<<<n_total, REPACK_THREADS, 0, cb->upload>>>(*a);
        return CUDA_LAUNCHED(cb);
    }
    repack_affine_kernel<<<div_up(n_total, REPACK_THREADS / 32), REPACK_THREADS, 0, cb->upload>>>(
        *a, n_total);
    TRY(CUDA_LAUNCHED(cb));
    n_total *= (a->group == 32 ? 2 : 1) * 16;
    repack_scales_kernel<<<div_up<int>(n_total, REPACK_THREADS), REPACK_THREADS, 0, cb->upload>>>(
        *a, n_total, largest_scale(cb));
    return CUDA_LAUNCHED(cb);
}

/* Rows [from, from + n) of one matrix, all in one slice: codes, scales, biases. */
static status brick_rows_upload(cuda_backend *cb, const tensor *m, const dev_weight *w, int expert,
                                int64_t from, int64_t n)
{
    brick_plan p = plan_of(w, m);
    bool is_affine = w->type == DTYPE_AFFINE;
    int64_t codes = n * p.row_bytes, scales = n * p.scale_row_bytes;
    int64_t scales_at = scratch_round(codes), biases_at = scales_at + scratch_round(scales);
    cuda_slice s;
    TRY(cuda_slice_take(cb, &s));
    char *host = static_cast<char *>(s.host);
    const char *data = static_cast<const char *>(m->data);
    memcpy(host, data + from * p.row_bytes, static_cast<size_t>(codes));
    if (is_affine) {
        int64_t at = from * p.scale_row_bytes;
        memcpy(host + scales_at, static_cast<const char *>(m->scales) + at,
               static_cast<size_t>(scales));
        memcpy(host + biases_at, static_cast<const char *>(m->biases) + at,
               static_cast<size_t>(scales));
    }
    TRY(cuda_slice_send(cb, is_affine ? biases_at + scales : codes));
    int64_t block = expert * p.n_blocks + from / PICK_BRICK_N;
    const uint8_t *device = static_cast<uint8_t *>(s.device);
    repack_args a = {};
    a.codes = device;
    a.scales = device + scales_at;
    a.biases = device + biases_at;
    a.type = w->type;
    a.scale_type = m->scale_type;
    a.row_bytes = p.row_bytes;
    a.K = w->K;
    a.n_rows = static_cast<int>(n);
    a.bits = w->bits;
    a.group = w->group;
    a.n_bricks = p.n_bricks;
    a.brick_bytes = p.brick_bytes;
    a.to = buf_of<uint8_t>(w->data) + block * p.n_bricks * p.brick_bytes;
    TRY(repack_launch(cb, &a));
    return cuda_slice_give(cb);
}

/* Rows that fit in a slice, whole blocks of 16; 0 when not even one block does. */
static int64_t brick_rows_cap(const brick_plan *p)
{
    int64_t room = CUDA_SLICE_BYTES - 3 * 256; /* three pieces, each rounded up */
    return room / (p->row_bytes + 2 * p->scale_row_bytes) / PICK_BRICK_N * PICK_BRICK_N;
}

static status bricks_upload(cuda_backend *cb, const tensor *t, const dev_weight *w)
{
    brick_plan p = plan_of(w, t);
    int64_t step = brick_rows_cap(&p);
    CUDA_TRY(cb, cudaMemsetAsync(largest_scale(cb), 0, 4, cb->upload));
    for (int x = 0; x < w->X; x++) {
        tensor m = w->use == WEIGHT_EXPERTS ? tensor_slice(t, x) : *t;
        for (int64_t from = 0; from < w->N; from += step) {
            int64_t n = w->N - from < step ? w->N - from : step;
            TRY(brick_rows_upload(cb, &m, w, x, from, n));
        }
    }
    return ERR_OK;
}

/* Once all scales are there: the power of two that keeps them finite, and their last form. */
static status scales_finish(cuda_backend *cb, const tensor *t, dev_weight *w)
{
    uint32_t bits = 0;
    CUDA_TRY(cb, cudaMemcpyAsync(&bits, largest_scale(cb), 4, cudaMemcpyDeviceToHost, cb->upload));
    CUDA_TRY(cb, cudaStreamSynchronize(cb->upload));
    float largest;
    int exponent = 0;
    memcpy(&largest, &bits, 4);
    if (largest <= FLT_MAX) frexpf(largest, &exponent); /* largest < 2^exponent */
    int k = exponent > DEQUANT_SCALE_EXPONENT ? exponent - DEQUANT_SCALE_EXPONENT : 0;
    if (largest == 0) k = 0;
    brick_plan p = plan_of(w, t);
    int in_brick = w->group == 32 ? 2 : 1;
    int64_t n = w->X * p.n_blocks * p.n_bricks * in_brick * 16;
    finish_scales_kernel<<<static_cast<unsigned>(div_up<int64_t>(n, REPACK_THREADS)),
                           REPACK_THREADS, 0, cb->upload>>>(buf_of<uint8_t>(w->data), n, p.bits,
                                                            p.brick_bytes, in_brick, k);
    TRY(CUDA_LAUNCHED(cb));
    w->layout = k;
    return ERR_OK;
}

/* ---- block types --------------------------------------------------------------------------- */

/* Packing on all cores of the host: what a worker needs for a row, and the job in hand. */
typedef struct {
    tensor t;
    uint8_t *codes; /* owned, with groups: [workers][K] and [workers][2 n_groups] */
    float *groups;
    int64_t first; /* panel or row that the slice begins with */
    uint8_t *to;
    float *scales, *biases; /* of rows */
} pack_job;

static uint8_t *codes_of(const pack_job *j, int worker)
{
    return j->codes + worker * j->t.shape[j->t.n_dims - 1];
}

static float *groups_of(const pack_job *j, int worker)
{
    return j->groups + worker * 2 * block_format_of(&j->t).n_groups;
}

static void pack_panels(void *ctx, int64_t begin, int64_t end, int worker)
{
    const pack_job *j = static_cast<const pack_job *>(ctx);
    block_format f = block_format_of(&j->t);
    for (int64_t i = begin; i < end; i++)
        block_pack_panel(&j->t, j->first + i, codes_of(j, worker), groups_of(j, worker),
                         j->to + i * block_panel_bytes(&f));
}

static void pack_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    const pack_job *j = static_cast<const pack_job *>(ctx);
    block_format f = block_format_of(&j->t);
    int64_t row_bytes = j->t.shape[j->t.n_dims - 1] * f.bits / 8;
    for (int64_t i = begin; i < end; i++)
        block_pack_row(&j->t, j->first + i, codes_of(j, worker), groups_of(j, worker),
                       j->to + i * row_bytes, j->scales + i * f.n_groups,
                       j->biases + i * f.n_groups);
}

/* Panels of 32 outputs, as many at a time as fit in a slice. */
static status panels_upload(cuda_backend *cb, const tensor *t, const dev_weight *w, pack_job *j)
{
    block_format f = block_format_of(t);
    int64_t each = block_panel_bytes(&f), n_panels = div_up<int64_t>(w->N, BLOCK_PANEL_N);
    int64_t step = CUDA_SLICE_BYTES / each;
    char *to = static_cast<char *>(w->data.ptr);
    for (int x = 0; x < w->X; x++) {
        j->t = w->use == WEIGHT_EXPERTS ? tensor_slice(t, x) : *t;
        for (int64_t from = 0; from < n_panels; from += step) {
            int64_t n = n_panels - from < step ? n_panels - from : step;
            cuda_slice s;
            TRY(cuda_slice_take(cb, &s));
            j->first = from;
            j->to = static_cast<uint8_t *>(s.host);
            workers_for(cb->packers, n, 1, pack_panels, j);
            CUDA_TRY(cb, cudaMemcpyAsync(to, s.host, static_cast<size_t>(n * each),
                                         cudaMemcpyHostToDevice, cb->upload));
            TRY(cuda_slice_give(cb));
            to += n * each;
        }
    }
    return ERR_OK;
}

/* Rows of a table as affine ones with f32 scales and biases: three pieces of a slice. */
static status rows_upload(cuda_backend *cb, const tensor *t, const dev_weight *w, pack_job *j)
{
    block_format f = block_format_of(t);
    int64_t codes = w->K * f.bits / 8, groups = f.n_groups * 4;
    int64_t step = CUDA_SLICE_BYTES / (codes + 2 * groups);
    j->t = *t;
    for (int64_t from = 0; from < w->N; from += step) {
        int64_t n = w->N - from < step ? w->N - from : step;
        cuda_slice s;
        TRY(cuda_slice_take(cb, &s));
        j->first = from;
        j->to = static_cast<uint8_t *>(s.host);
        j->scales = reinterpret_cast<float *>(j->to + n * codes);
        j->biases = j->scales + n * f.n_groups;
        workers_for(cb->packers, n, 16, pack_rows, j);
        const struct {
            dev_buf to;
            int64_t row_bytes;
            const void *host;
        } pieces[] = {{w->data, codes, j->to},
                      {w->scales, groups, j->scales},
                      {w->biases, groups, j->biases}};
        for (int i = 0; i < 3; i++) {
            char *to = static_cast<char *>(pieces[i].to.ptr) + from * pieces[i].row_bytes;
            CUDA_TRY(cb, cudaMemcpyAsync(to, pieces[i].host,
                                         static_cast<size_t>(n * pieces[i].row_bytes),
                                         cudaMemcpyHostToDevice, cb->upload));
        }
        TRY(cuda_slice_give(cb));
    }
    return ERR_OK;
}

static status block_upload(cuda_backend *cb, const tensor *t, const dev_weight *w)
{
    pack_job j = {};
    if (!cb->packers) TRY(workers_open(&cb->packers, 0, &cb->base.last));
    int64_t n_workers = workers_count(cb->packers), n_groups = block_format_of(t).n_groups;
    j.codes = static_cast<uint8_t *>(
        mem_new(static_cast<size_t>(n_workers * (w->K + 8 * n_groups))));
    if (!j.codes)
        return err_set(&cb->base.last, ERR_NOMEM, "cuda weight", -1, "rows of %lld",
                       static_cast<long long>(w->K));
    j.groups = reinterpret_cast<float *>(j.codes + n_workers * w->K); /* K is a multiple of 16 */
    status s = w->use == WEIGHT_TABLE ? rows_upload(cb, t, w, &j) : panels_upload(cb, t, w, &j);
    mem_free(j.codes);
    return s;
}

static status block_check(const tensor *t, weight_use use, err *e)
{
    char text[80];
    block_format f = block_format_of(t);
    bool fits = t->shape[t->n_dims - 1] % 32 == 0 && block_panel_bytes(&f) <= CUDA_SLICE_BYTES;
    if (fits && block_is_packable(t)) return ERR_OK;
    return err_set(e, ERR_UNSUPPORTED, "cuda weight", -1, "%s%s",
                   tensor_format(t, text, sizeof text),
                   use == WEIGHT_TABLE ? " as a table" : ": its groups do not stay whole");
}

/* ---- open and close ----------------------------------------------------------------------- */

static status weight_check(const tensor *t, weight_use use, err *e)
{
    char text[80];
    int n_dims = use == WEIGHT_EXPERTS ? 3 : 2;
    bool is_known = dtype_is_block(t->type) || t->type == DTYPE_F32 || t->type == DTYPE_F16 ||
                    t->type == DTYPE_BF16 ||
                    (t->type == DTYPE_AFFINE && quant_affine_is_valid(t->bits, t->group));
    if (!is_known || t->n_dims != n_dims) {
        return err_set(e, ERR_UNSUPPORTED, "cuda weight", -1, "%s as a weight of %d dimensions",
                       tensor_format(t, text, sizeof text), n_dims);
    }
    int64_t K = t->shape[n_dims - 1];
    if (K > 1 << 24 || t->shape[n_dims - 2] > 1 << 30 ||
        (t->type == DTYPE_AFFINE && K % t->group != 0)) {
        return err_set(e, ERR_UNSUPPORTED, "cuda weight", -1, "%s",
                       tensor_format(t, text, sizeof text));
    }
    return dtype_is_block(t->type) ? block_check(t, use, e) : ERR_OK;
}

/* Bytes of a weight; *side: of a table's scales, and once more of its biases. */
static int64_t weight_bytes(const dev_weight *w, const tensor *t, int64_t *side)
{
    *side = 0;
    if (dtype_is_block(t->type)) return block_pack_bytes(t, w->use == WEIGHT_TABLE, side);
    if (w->use == WEIGHT_TABLE) {
        if (w->type == DTYPE_AFFINE) *side = w->N * (w->K / w->group) * 4;
        return t->n_bytes;
    }
    brick_plan p = plan_of(w, t);
    return w->X * p.n_blocks * p.n_bricks * p.brick_bytes;
}

status cuda_weight_open(backend *b, const tensor *t, weight_use use, dev_weight *out, err *e)
{
    cuda_backend *cb = cuda_of(b);
    TRY(weight_check(t, use, e));
    int n_dims = t->n_dims;
    dev_weight w = {};
    w.type = t->type;
    w.bits = t->type == DTYPE_AFFINE ? t->bits : 0;
    w.group = t->type == DTYPE_AFFINE ? t->group : 0;
    w.N = t->shape[n_dims - 2];
    w.K = t->shape[n_dims - 1];
    w.X = n_dims == 3 ? static_cast<int>(t->shape[0]) : 1;
    w.use = use;
    bool is_blocks = dtype_is_block(t->type);
    if (is_blocks) { /* tables become affine ones; layout is the code of zero */
        block_format f = block_format_of(t);
        if (use == WEIGHT_TABLE) w.type = DTYPE_AFFINE;
        w.bits = f.bits, w.group = f.group, w.layout = f.zero;
    } else if (use != WEIGHT_TABLE) {
        brick_plan p = plan_of(&w, t);
        if (brick_rows_cap(&p) < PICK_BRICK_N) {
            return err_set(e, ERR_UNSUPPORTED, "cuda weight", -1, "rows of %lld bytes are too long",
                           static_cast<long long>(p.row_bytes));
        }
    }
    int64_t side, bytes = scratch_round(weight_bytes(&w, t, &side));
    side = scratch_round(side);
    dev_buf mem = {};
    TRY(cuda_take(cb, bytes + 2 * side, &mem, e));
    w.owned = mem.ptr;
    w.n_bytes = mem.n_bytes;
    w.data = dev_buf{mem.ptr, bytes};
    if (side > 0) {
        w.scales = dev_buf{static_cast<char *>(mem.ptr) + bytes, side};
        w.biases = dev_buf{static_cast<char *>(mem.ptr) + bytes + side, side};
    }
    status s = is_blocks             ? block_upload(cb, t, &w)
               : use == WEIGHT_TABLE ? table_upload(cb, t, &w)
                                     : bricks_upload(cb, t, &w);
    if (s == ERR_OK && !is_blocks && use != WEIGHT_TABLE && w.type == DTYPE_AFFINE)
        s = scales_finish(cb, t, &w);
    if (s == ERR_OK) s = cuda_slices_finish(cb);
    if (s != ERR_OK) {
        cuda_release(b, &mem);
        return err_set(e, s, "cuda weight", -1, "%.200s", cb->base.last.msg);
    }
    *out = w;
    return ERR_OK;
}

void cuda_weight_close(backend *b, dev_weight *w)
{
    dev_buf mem = {w->owned, w->n_bytes};
    cuda_backend *cb = cuda_of(b);
    if (w->owned) { /* launches of other weights fetch ahead of this one */
        cuda_graph_clear(cb);
        ahead_clear(&cb->ahead);
    }
    cuda_release(b, &mem);
    *w = dev_weight{};
}
