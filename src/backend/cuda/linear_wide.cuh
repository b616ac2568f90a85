/* linear_wide.cuh: the kernel for many rows on Hopper. Instantiated once a width in
 * linear_bits*.cu. */
#ifndef RIPTIDE_BACKEND_CUDA_LINEAR_WIDE_CUH
#define RIPTIDE_BACKEND_CUDA_LINEAR_WIDE_CUH

#include "backend/cuda/linear_tile.cuh"
#include "backend/cuda/tma.cuh"
#include "backend/cuda/wgmma.cuh"

/* Two warp groups that compute, each two m64 blocks, and a warp that copies. HAS_SLICES: the block
 * adds several slices itself, with the sums so far in registers up to 64 columns, most of them in
 * shared memory for 128. */
template <int BITS, int COLUMNS_, bool HAS_SLICES> struct wide_shape {
    static constexpr int BLOCKS = 16, COLUMNS = COLUMNS_, NT = COLUMNS / 8;
    /* From 64 columns on the copying warp brings a whole group, whose registers go to the others.
     */
    static constexpr bool HANDS_REGISTERS = COLUMNS >= 64;
    static constexpr int COMPUTE = 256, THREADS = COMPUTE + (HANDS_REGISTERS ? 128 : 32);
    static constexpr int BRICK = dequant_brick_bytes(BITS, true); /* room for a brick */
    static constexpr int X_BYTES = COLUMNS * TILE_X_ROW_BYTES;
    /* x starts on 1024 bytes in every stage: the swizzle counts rows from there. */
    static constexpr int STAGE = (X_BYTES + BLOCKS * BRICK + 1023) / 1024 * 1024;
    /* Fours of a block's sums that stay in registers: all there is room for. */
    static constexpr int KEPT = HAS_SLICES && COLUMNS > 64 ? (COLUMNS > 112 ? 4 : 6) : NT;
    static constexpr int SUM_BYTES = COMPUTE * 2 * (NT - KEPT) * 16;
    static constexpr int BARRIER_BYTES = 128;
    /* Two blocks of a processor when a block is small. */
    static constexpr int ROOM = (COLUMNS <= 32 ? 112 : 226) * 1024 - SUM_BYTES - 1024 -
                                BARRIER_BYTES;
    static constexpr int STAGES = ROOM / STAGE < 6 ? ROOM / STAGE : 6;
    static constexpr int SHARED = STAGES * STAGE + SUM_BYTES + BARRIER_BYTES + 1024;
    static_assert(STAGES >= 2, "copies must run ahead of the products");
};

#if WGMMA_ON

/* A block's shared memory. full: a stage's bytes have come; empty: all who compute are done. */
template <class S> struct wide_shared {
    uint8_t *stages;
    float4 *sums;
    uint64_t *full, *empty;
};

template <class S> __device__ static inline wide_shared<S> wide_shared_init(uint8_t *raw)
{
    uint8_t *at = raw + (-shared_address(raw) & 1023);
    wide_shared<S> s;
    s.stages = at;
    s.sums = reinterpret_cast<float4 *>(at + S::STAGES * S::STAGE);
    s.full = reinterpret_cast<uint64_t *>(at + S::STAGES * S::STAGE + S::SUM_BYTES);
    s.empty = s.full + S::STAGES;
    if (threadIdx.x == 0) {
        for (int i = 0; i < S::STAGES; i++) {
            tma_barrier_init(&s.full[i], S::BLOCKS);
            tma_barrier_init(&s.empty[i], S::COMPUTE);
        }
        tma_barrier_fence();
    }
    __syncthreads(); /* barriers stand before anyone uses them */
    return s;
}

/* The copying warp: lane b < 16 copies block b's brick, lane 0 the box of x besides. Each lane
 * arrives for what it copies itself, so that no copy hangs on another lane's word. */
template <class S>
__device__ static inline void wide_copy(const wide_shared<S> &s, const tile_args &a,
                                        const tile_part &p, const tile_job &job,
                                        const CUtensorMap *map)
{
    int b = threadIdx.x & 31;
    if (b >= S::BLOCKS) return;
    int64_t n_blocks = (p.N + PICK_BRICK_N - 1) / PICK_BRICK_N;
    int64_t block = tile_block<S::BLOCKS>(p, job.group, b);
    /* Outputs beyond N keep what lies in the stage, and are not stored. */
    bool on = block < n_blocks;
    int n_bytes = (on ? a.brick_bytes : 0) + (b == 0 ? S::X_BYTES : 0);
    const uint8_t *from = p.bricks[tile_half<S::BLOCKS>(p, b)] + job.rows.expert * p.expert_bytes +
                          (block * p.n_bricks + job.first) * a.brick_bytes;
    int stage = 0, parity = 1; /* a fresh barrier counts as being past phase 1 */
    for (int kb = job.first; kb < job.end; kb++) {
        uint8_t *to = s.stages + stage * S::STAGE;
        tma_wait(&s.empty[stage], parity);
        tma_arrive_expect(&s.full[stage], n_bytes); /* expected before they come */
        if (b == 0) {
            tma_copy_box(to, map, kb * PICK_BRICK_K, job.rows.begin, &s.full[stage]);
        }
        if (on) tma_copy(to + S::X_BYTES + b * S::BRICK, from, a.brick_bytes, &s.full[stage]);
        from += a.brick_bytes;
        if (++stage == S::STAGES) stage = 0, parity ^= 1;
    }
}

/* The A fragments of one 16-output block of a brick: four k16 steps. */
template <int BITS>
__device__ static inline void wide_dequant(uint32_t (&frag)[16], const uint8_t *brick,
                                           bool has_two_groups)
{
    int lane = threadIdx.x & 31;
    if constexpr (BITS == DEQUANT_BF16) {
#pragma unroll
        for (int f = 0; f < 4; f++) load_words<4>(&frag[f * 4], brick + f * 512 + lane * 16);
    } else {
        lane_codes<BITS> codes = dequant_load<BITS>(brick, lane);
        lane_scales scales;
#pragma unroll
        for (int f = 0; f < 4; f++) {
            if (f == 0 || (f == 2 && has_two_groups)) {
                scales = dequant_scales(*reinterpret_cast<const uint2 *>(
                    brick + dequant_code_bytes(BITS) + f / 2 * DEQUANT_SCALE_BYTES +
                    (lane >> 2) * 8));
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                frag[f * 4 + j] = dequant_pair<BITS>(codes, f * 4 + j, scales.scale[j & 1],
                                                     scales.bias[j & 1]);
            }
        }
    }
}

/* Where four v of a thread's sums lies. */
template <class S> __device__ static inline int wide_sum_at(int v)
{
    return (v / S::NT * (S::NT - S::KEPT) + v % S::NT - S::KEPT) * S::COMPUTE + threadIdx.x;
}

/* A slice is over but not the last: the sums so far become its chain, or grow by it. */
template <class S>
__device__ static inline void wide_keep_slice(const float (&acc)[2][S::NT * 4], float4 *sums,
                                              float (&total)[2][S::NT * 4], bool is_first)
{
#pragma unroll
    for (int v = 0; v < 2 * S::NT; v++) {
        const float *s = &acc[v / S::NT][v % S::NT * 4];
        if (v % S::NT >= S::KEPT) {
            float4 t = make_float4(s[0], s[1], s[2], s[3]);
            float4 *at = &sums[wide_sum_at<S>(v)];
            if (!is_first) {
                float4 u = *at;
                t = make_float4(u.x + t.x, u.y + t.y, u.z + t.z, u.w + t.w);
            }
            *at = t;
        } else {
#pragma unroll
            for (int c = 0; c < 4; c++) {
                float &t = total[v / S::NT][v % S::NT * 4 + c];
                t = is_first ? s[c] : t + s[c];
            }
        }
    }
}

/* After the last slice: acc = the sums so far + its chain. */
template <class S>
__device__ static inline void wide_add_kept(float (&acc)[2][S::NT * 4], const float4 *sums,
                                            const float (&total)[2][S::NT * 4])
{
#pragma unroll
    for (int v = 0; v < 2 * S::NT; v++) {
        float *s = &acc[v / S::NT][v % S::NT * 4];
        const float *t = &total[v / S::NT][v % S::NT * 4];
        float4 u;
        if (v % S::NT >= S::KEPT) {
            u = sums[wide_sum_at<S>(v)];
        } else {
            u = make_float4(t[0], t[1], t[2], t[3]);
        }
        s[0] = u.x + s[0], s[1] = u.y + s[1], s[2] = u.z + s[2], s[3] = u.w + s[3];
    }
}

/* A computing warp: all bricks of the job into acc. */
template <int BITS, class S, bool HAS_SLICES>
__device__ static inline void wide_compute(float (&acc)[2][S::NT * 4], const wide_shared<S> &s,
                                           const tile_args &a, const tile_part &p,
                                           const tile_job &job)
{
    float total[2][S::NT * 4];
    uint32_t frag[2][16];
    int warp = threadIdx.x >> 5;
    const bool has_two_groups = a.has_two_groups;
    int stage = 0, before = S::STAGES - 1, parity = 0, left = p.slice_bricks;
    bool is_first = true, adds = false;
    for (int kb = job.first; kb < job.end; kb++) {
        const uint8_t *at = s.stages + stage * S::STAGE;
        uint64_t rows = wgmma_rows(at);
        tma_wait(&s.full[stage], parity);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            wgmma_wait<1>(); /* the products that read frag[i] last are done */
            /* With i = 1 all of the brick before are: its stage may be filled anew. Every thread
             * says so for what it read itself: behind a __syncwarp one could speak for its warp,
             * but with one here the assembler runs all wgmma one by one. */
            if (i == 1 && kb > job.first) tma_arrive(&s.empty[before]);
            wgmma_hold(frag[i]);
            wide_dequant<BITS>(frag[i], at + S::X_BYTES + (i * 8 + warp) * S::BRICK,
                               has_two_groups);
            wgmma_hold(acc[i]);
            wgmma_fence();
#pragma unroll
            for (int f = 0; f < 4; f++) {
                /* 32 bytes further in a row: 2 in units of 16 */
                wgmma_step(acc[i], &frag[i][f * 4], rows + f * 2, adds || f > 0);
            }
            wgmma_commit();
        }
        adds = true;
        before = stage;
        if (++stage == S::STAGES) stage = 0, parity ^= 1;
        if (HAS_SLICES && --left == 0 && kb + 1 < job.end) {
            wgmma_wait<0>();
            wgmma_hold(acc[0]);
            wgmma_hold(acc[1]);
            wide_keep_slice<S>(acc, s.sums, total, is_first);
            left = p.slice_bricks;
            is_first = adds = false;
        }
    }
    wgmma_wait<0>();
    wgmma_hold(acc[0]);
    wgmma_hold(acc[1]);
    wgmma_hold(frag[0]);
    wgmma_hold(frag[1]);
    if (HAS_SLICES && !is_first) wide_add_kept<S>(acc, s.sums, total);
}

/* Outputs in bf16 leave by rows: a warp turns its 16 outputs x 8 rows a matrix through shared
 * memory of its own and writes whole sectors, where its registers have two bytes of a row each. */
template <class S> struct wide_leave_shape {
    static constexpr int WARP_BYTES = S::COLUMNS * 32;
    static_assert(WARP_BYTES * (S::COMPUTE / 32) <= S::STAGES * S::STAGE, "fits where stages were");
};
/* Row r's 16-byte half h; the halves take turns so that 8 rows meet all banks. */
__device__ static inline int wide_leave_at(int r, int h)
{
    return r * 32 + ((h ^ (r >> 2 & 1)) << 4);
}
template <class S>
__device__ static inline void wide_leave(const float (&sum)[S::NT][4], const float (*up)[4],
                                         const tile_part &p, int64_t block, tile_rows rows,
                                         uint8_t *own)
{
    int lane = threadIdx.x & 31;
    float times = p.times[0], up_times = p.times[1];
#pragma unroll
    for (int n = 0; n < S::NT; n += 2) {
        uint32_t m[4]; /* rows 8 n .., outputs 0 to 7 and 8 to 15; rows 8 (n + 1) .. */
#pragma unroll
        for (int q = 0; q < 4; q++) {
            float v[2];
#pragma unroll
            for (int c = 0; c < 2; c++) {
                v[c] = sum[n + q / 2][(q & 1) * 2 + c] * times;
                if (up) v[c] = act_silu(v[c]) * (up[n + q / 2][(q & 1) * 2 + c] * up_times);
            }
            __nv_bfloat162 two = __floats2bfloat162_rn(v[0], v[1]);
            memcpy(&m[q], &two, 4);
        }
        store_matrix_x4_trans(
            own + wide_leave_at((n + (lane >> 4)) * 8 + (lane & 7), lane >> 3 & 1), m);
    }
    __syncwarp();
#pragma unroll
    for (int r = 0; r < S::COLUMNS; r += 16) {
        int at = r + (lane >> 1), h = lane & 1;
        int64_t n = block * PICK_BRICK_N + h * 8;
        if (at >= rows.count || n >= p.N) continue;
        int64_t row = rows.begin + at;
        if (p.y_row) row = p.y_row[row];
        *reinterpret_cast<uint4 *>(static_cast<bf16 *>(p.y) + row * p.N + n) =
            *reinterpret_cast<const uint4 *>(own + wide_leave_at(at, h));
    }
    __syncwarp(); /* read before the next block of outputs is written */
}

/* Outputs in f32, `skip` values behind their place: a warp's 16 of the rows, MANY n-tiles at
 * a time. Rows' numbers and what is to be added to are asked for together: one by one, each would
 * wait for memory behind the store before it. */
template <int NT, bool ADDS, int MANY = 4>
__device__ static inline void wide_leave_f32(const float (&sum)[NT][4], const tile_part &p,
                                             int64_t block, tile_rows rows, int64_t skip = 0)
{
    int lane = threadIdx.x & 31, column = (lane & 3) * 2;
    int64_t n = block * PICK_BRICK_N + (lane >> 2);
    float *y = static_cast<float *>(p.y) + n + skip;
    bool on[2] = {n < p.N, n + 8 < p.N};
#pragma unroll
    for (int from = 0; from < NT; from += MANY) {
        int row[MANY][2];
        float old[MANY][4];
#pragma unroll
        for (int i = 0; i < MANY && from + i < NT; i++)
#pragma unroll
            for (int c = 0; c < 2; c++) {
                int at = (from + i) * 8 + column + c;
                row[i][c] = rows.begin + at;
                if (at >= rows.count)
                    row[i][c] = -1;
                else if (p.y_row)
                    row[i][c] = p.y_row[row[i][c]];
            }
        if (ADDS) {
#pragma unroll
            for (int i = 0; i < MANY && from + i < NT; i++)
#pragma unroll
                for (int q = 0; q < 4; q++) {
                    old[i][q] = 0.0f;
                    if (row[i][q & 1] >= 0 && on[q >> 1])
                        old[i][q] = y[row[i][q & 1] * p.N + (q >> 1) * 8];
                }
        }
#pragma unroll
        for (int i = 0; i < MANY && from + i < NT; i++)
#pragma unroll
            for (int q = 0; q < 4; q++) {
                float s = sum[from + i][q] * p.times[0];
                if (ADDS) s = old[i][q] + s;
                if (row[i][q & 1] >= 0 && on[q >> 1]) y[row[i][q & 1] * p.N + (q >> 1) * 8] = s;
            }
    }
}

/* A computing warp's work, up to the outputs. */
template <int BITS, class S, bool HAS_SLICES>
__device__ static inline void wide_finish(const wide_shared<S> &s, const tile_args &a,
                                          const tile_part &p, const tile_job &job)
{
    float acc[2][S::NT * 4];
    int warp = threadIdx.x >> 5;
    wide_compute<BITS, S, HAS_SLICES>(acc, s, a, p, job);
    float(&sum)[2][S::NT][4] = reinterpret_cast<float(&)[2][S::NT][4]>(acc);
    if (p.is_split) { /* linear_merge_kernel does the rest */
        float *at = tile_partial<S::COMPUTE, 2 * S::NT>(a, p, job.tile);
        tile_leave<S::COMPUTE, 2 * S::NT>(tile_flat(sum), at, job.slice);
        return;
    }
    int64_t block0 = tile_block<S::BLOCKS>(p, job.group, warp);
    int64_t block1 = tile_block<S::BLOCKS>(p, job.group, 8 + warp);
    bool is_bf16 = p.out == LINEAR_ACT || p.out == TILE_OUT_SWIGLU;
    if (is_bf16 && p.N % 8 == 0 && (reinterpret_cast<uintptr_t>(p.y) & 15) == 0) {
        tile_sync<S::COMPUTE>(); /* all bricks have been read */
        uint8_t *own = s.stages + warp * wide_leave_shape<S>::WARP_BYTES;
        if (p.out == TILE_OUT_SWIGLU) {
            wide_leave<S>(sum[0], sum[1], p, block0, job.rows, own);
        } else {
            wide_leave<S>(sum[0], nullptr, p, block0, job.rows, own);
            wide_leave<S>(sum[1], nullptr, p, block1, job.rows, own);
        }
        return;
    }
    if (p.out == LINEAR_ADD) {
        wide_leave_f32<S::NT, true>(sum[0], p, block0, job.rows);
        wide_leave_f32<S::NT, true>(sum[1], p, block1, job.rows);
    } else if (p.out == LINEAR_F32) {
        wide_leave_f32<S::NT, false>(sum[0], p, block0, job.rows);
        wide_leave_f32<S::NT, false>(sum[1], p, block1, job.rows);
    } else {
        tile_store_two<S::NT>(sum, p, block0, block1, 0, job.rows);
    }
}
#endif

/* linear_wide_kernel: one slice, or all slices, of a tile of 256 outputs.
 *
 * Does     what linear_tile_kernel does, for 32, 64, 96, 112 or 128 rows, on sm_90
 * Grid     tiles of rows x tiles along N (x slices where split), of all parts; block 288 or 384:
 *          warps 0 to 7 compute, warp 8 copies
 * Shared   stages of a brick of 16 output blocks and of x; sums of earlier slices
 * Needs    weights in bricks; rows of x in 16-byte pieces, `map` over them with boxes of 64 x
 *          COLUMNS, 128-byte swizzle; no x_row
 * Moves    each weight byte once per tile of rows, x once per 256 outputs
 * Numbers  linear_tile_kernel's, bit for bit: wgmma runs the same chain
 * Why      A comes from registers, so codes are widened right into the fragment; while one block
 *          of 64 outputs multiplies, the other is widened. Tiles of rows vary fastest in the
 *          grid, so that weights are read once while x stays in the second-level cache. */
template <int BITS, int COLUMNS, bool HAS_SLICES>
__global__ void __launch_bounds__(wide_shape<BITS, COLUMNS, HAS_SLICES>::THREADS,
                                  COLUMNS <= 32 && !HAS_SLICES ? 2 : 1)
    linear_wide_kernel(const __grid_constant__ tile_args a, const __grid_constant__ CUtensorMap map)
{
#if WGMMA_ON
    using S = wide_shape<BITS, COLUMNS, HAS_SLICES>;
    extern __shared__ uint8_t shared_raw[];
    launch_next();
    launch_wait();
    tile_job job;
    if (!tile_job_init<COLUMNS, true>(job, a)) return;
    const tile_part &p = a.part[job.part];
    wide_shared<S> s = wide_shared_init<S>(shared_raw);
    if (threadIdx.x >= S::COMPUTE) {
        if constexpr (S::HANDS_REGISTERS) wgmma_fewer_registers<24>();
        if (threadIdx.x < S::COMPUTE + 32) wide_copy<S>(s, a, p, job, &map);
    } else {
        if constexpr (S::HANDS_REGISTERS) wgmma_more_registers<240>();
        wide_finish<BITS, S, HAS_SLICES>(s, a, p, job);
    }
#endif
}

#endif
