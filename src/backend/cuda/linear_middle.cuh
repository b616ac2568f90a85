/* linear_middle.cuh: the kernel for 17 to 64 rows of 4-bit weights on Hopper. Instantiated in
 * linear_bits4.cu. */
#ifndef RIPTIDE_BACKEND_CUDA_LINEAR_MIDDLE_CUH
#define RIPTIDE_BACKEND_CUDA_LINEAR_MIDDLE_CUH

#include "backend/cuda/linear_wide.cuh"

/* GROUPS warp groups that compute, each one m64 block, and a warp that copies. A stage is two
 * bricks of each of a tile's 16-output blocks, and their K of x. */
template <int BITS, int COLUMNS_, int GROUPS_> struct middle_shape {
    static constexpr int GROUPS = GROUPS_, COLUMNS = COLUMNS_, NT = COLUMNS / 8;
    static constexpr int BLOCKS = GROUPS * 4, COMPUTE = GROUPS * 128;
    static constexpr int PER_PROCESSOR = GROUPS > 2 ? 1 : 2;
    /* Where registers are short a whole group copies, whose registers go to the others: at launch
     * a thread has LAUNCHED, all that a processor has for blocks of whole fours of warps. */
    static constexpr bool HANDS_REGISTERS = PER_PROCESSOR == 1;
    static constexpr int THREADS = COMPUTE + (HANDS_REGISTERS ? 128 : 32);
    static constexpr int FEWER = 24, MORE = 88, LAUNCHED = 65536 / THREADS / 8 * 8;
    static_assert(!HANDS_REGISTERS || COMPUTE * MORE + 128 * FEWER <= THREADS * LAUNCHED,
                  "setmaxnreg would wait forever");
    static constexpr int BRICK = dequant_brick_bytes(BITS, true); /* room for a brick */
    static constexpr int X_BYTES = COLUMNS * TILE_X_ROW_BYTES;    /* of one brick */
    static constexpr int STAGE = (2 * X_BYTES + 2 * BLOCKS * BRICK + 1023) / 1024 * 1024;
    static constexpr int SUM_BYTES = 0; /* wide_shared's: no sums of earlier slices */
    static constexpr int BARRIER_BYTES = 128;
    static constexpr int ROOM = (PER_PROCESSOR == 1 ? 226 : 112) * 1024 - 1024 - BARRIER_BYTES;
    static constexpr int STAGES = ROOM / STAGE < 6 ? ROOM / STAGE : 6;
    static_assert(2 * STAGES * 8 <= BARRIER_BYTES, "a full and an empty a stage");
    static constexpr int SHARED = STAGES * STAGE + BARRIER_BYTES + 1024;
    static constexpr int HAND_BYTES = COMPUTE / 2 * NT * 16; /* the sums of up */
    static_assert(STAGES >= 2, "copies must run ahead of the products");
    static_assert(BLOCKS <= 32, "a lane of the copying warp each");
    static_assert(HAND_BYTES + COMPUTE / 2 * COLUMNS <= STAGES * STAGE,
                  "what is handed over fits where stages were, and what leaves behind it");
};

#if WGMMA_ON

/* What a lane of the copying warp copies for every stage: block b's bricks; lane 0 also x. */
typedef struct {
    const uint8_t *from;
    int brick_bytes; /* 0 for outputs beyond N: the stage keeps what lies in it */
    int first, end;  /* bricks of the job */
    int row;
    bool has_x;
} middle_source;

template <class S>
__device__ static inline void middle_copy_weights(const wide_shared<S> &s, const middle_source &m,
                                                  int kb, int stage)
{
    int n = kb + 1 < m.end ? 2 : 1, n_bytes = n * m.brick_bytes;
    /* Expected before they come. */
    tma_arrive_expect(&s.full[stage], n_bytes + (m.has_x ? n * S::X_BYTES : 0));
    if (n_bytes == 0) return;
    uint8_t *to = s.stages + stage * S::STAGE + 2 * S::X_BYTES;
    tma_copy(to + (threadIdx.x & 31) * 2 * S::BRICK, m.from + int64_t(kb - m.first) * m.brick_bytes,
             n_bytes, &s.full[stage]);
}
template <class S>
__device__ static inline void middle_copy_x(const wide_shared<S> &s, const middle_source &m, int kb,
                                            int stage, const CUtensorMap *map)
{
    if (!m.has_x) return;
    uint8_t *to = s.stages + stage * S::STAGE;
    tma_copy_box(to, map, kb * PICK_BRICK_K, m.row, &s.full[stage]);
    if (kb + 1 < m.end)
        tma_copy_box(to + S::X_BYTES, map, (kb + 1) * PICK_BRICK_K, m.row, &s.full[stage]);
}

/* The copying warp. Weights are on their way before the kernel in front is over. */
template <class S>
__device__ static inline void middle_copy(const wide_shared<S> &s, const tile_args &a,
                                          const tile_job &job, const CUtensorMap *map)
{
    const tile_part &p = a.part[job.part];
    int b = threadIdx.x & 31;
    if (b >= S::BLOCKS) return;
    int64_t n_blocks = (p.N + PICK_BRICK_N - 1) / PICK_BRICK_N;
    int64_t block = tile_block<S::BLOCKS>(p, job.group, b);
    middle_source m = {};
    m.from = p.bricks[tile_half<S::BLOCKS>(p, b)] +
             (block * p.n_bricks + job.first) * a.brick_bytes;
    m.brick_bytes = block < n_blocks ? a.brick_bytes : 0;
    m.first = job.first, m.end = job.end;
    m.row = job.rows.begin;
    m.has_x = b == 0;
    for (int i = 0; i < S::STAGES && job.first + 2 * i < job.end; i++)
        middle_copy_weights<S>(s, m, job.first + 2 * i, i);
    launch_wait();
    for (int i = 0; i < S::STAGES && job.first + 2 * i < job.end; i++)
        middle_copy_x<S>(s, m, job.first + 2 * i, i, map);
    int stage = 0, parity = 0;
    for (int kb = job.first + 2 * S::STAGES; kb < job.end; kb += 2) {
        tma_wait(&s.empty[stage], parity);
        middle_copy_weights<S>(s, m, kb, stage);
        middle_copy_x<S>(s, m, kb, stage, map);
        if (++stage == S::STAGES) stage = 0, parity ^= 1;
    }
}

/* acc (+)= a brick's products: a group of two k16 steps for each half of its K. frag[h] is what
 * half h of the brick before was multiplied from. */
template <int BITS, class S>
__device__ static inline void middle_half(float (&acc)[S::NT * 4], uint32_t (&frag)[8],
                                          const lane_codes<BITS> &codes, const lane_scales &scales,
                                          int h, uint64_t rows, bool adds)
{
    wgmma_hold(frag);
#pragma unroll
    for (int i = 0; i < 8; i++)
        frag[i] = dequant_pair<BITS>(codes, h * 8 + i, scales.scale[i & 1], scales.bias[i & 1]);
    wgmma_fence();
    /* 32 bytes further in a row for each step: 2 in units of 16 */
    wgmma_step(acc, &frag[0], rows + h * 4, adds);
    wgmma_step(acc, &frag[4], rows + h * 4 + 2, true);
    wgmma_commit();
}
__device__ static inline lane_scales middle_scales(const uint8_t *at)
{
    return dequant_scales(*reinterpret_cast<const uint2 *>(at + ((threadIdx.x & 31) >> 2) * 8));
}
/* `before`: a stage whose products are all done when those of the brick before this one are. */
template <int BITS, class S>
__device__ static inline void middle_step(float (&acc)[S::NT * 4], uint32_t (&frag)[2][8],
                                          const uint8_t *brick, uint64_t rows, bool has_two_groups,
                                          bool adds, uint64_t *before)
{
    lane_codes<BITS> codes = dequant_load<BITS>(brick, threadIdx.x & 31);
    brick += dequant_code_bytes(BITS);
    lane_scales scales = middle_scales(brick);
    wgmma_wait<1>(); /* the products that read frag[0] last are done */
    middle_half<BITS, S>(acc, frag[0], codes, scales, 0, rows, adds);
    if (has_two_groups) scales = middle_scales(brick + DEQUANT_SCALE_BYTES);
    wgmma_wait<1>(); /* all of the brick before are */
    if (before) tma_arrive(before);
    middle_half<BITS, S>(acc, frag[1], codes, scales, 1, rows, true);
}

/* A computing warp: all bricks of the job into acc. */
template <int BITS, class S>
__device__ static inline void middle_compute(float (&acc)[S::NT * 4], const wide_shared<S> &s,
                                             const tile_args &a, int first, int end)
{
    uint32_t frag[2][8];
    int own = 2 * S::X_BYTES + (threadIdx.x >> 5) * 2 * S::BRICK, brick_bytes = a.brick_bytes;
    const bool has_two_groups = a.has_two_groups;
    int stage = 0, before = S::STAGES - 1, parity = 0, kb = first;
    bool adds = false;
    for (; kb < end; kb++) {
        int second = (kb - first) & 1;
        const uint8_t *at = s.stages + stage * S::STAGE;
        uint64_t rows = wgmma_rows(at + second * S::X_BYTES);
        tma_wait(&s.full[stage], parity);
        middle_step<BITS, S>(acc, frag, at + own + second * brick_bytes, rows, has_two_groups, adds,
                             adds && !second ? &s.empty[before] : nullptr);
        adds = true;
        if (!second) continue;
        before = stage;
        if (++stage == S::STAGES) stage = 0, parity ^= 1;
    }
    wgmma_wait<0>();
    wgmma_hold(acc);
    wgmma_hold(frag[0]);
    wgmma_hold(frag[1]);
}

/* A computing warp's work, up to the outputs. job lies in shared memory: registers are short until
 * the products are done. */
template <int BITS, class S>
__device__ static inline void middle_finish(const wide_shared<S> &s, const tile_args &a,
                                            const tile_job &job)
{
    float acc[S::NT * 4];
    middle_compute<BITS, S>(acc, s, a, job.first, job.end);
    launch_wait(); /* before anything is written */
    const tile_part &p = a.part[job.part];
    int warp = threadIdx.x >> 5;
    float(&sum)[S::NT][4] = reinterpret_cast<float(&)[S::NT][4]>(acc);
    int64_t block = tile_block<S::BLOCKS>(p, job.group, warp);
    if (p.is_split && p.slice_step == 0) { /* linear_merge_middle_kernel does the rest */
        float *at = tile_partial<S::COMPUTE, S::NT>(a, p, job.tile);
        tile_leave<S::COMPUTE, S::NT>(acc, at, job.slice);
        return;
    }
    bool has_pieces = p.N % 8 == 0 && (reinterpret_cast<uintptr_t>(p.y) & 15) == 0;
    uint8_t *own = s.stages + warp * wide_leave_shape<S>::WARP_BYTES;
    if (p.out == TILE_OUT_SWIGLU) {
        float up[S::NT][4];
        tile_hand_up<S::NT>(sum, up, reinterpret_cast<float4 *>(s.stages), S::COMPUTE / 2,
                            [] { tile_sync<S::COMPUTE>(); });
        if (warp >= S::BLOCKS / 2) return;
        if (has_pieces)
            wide_leave<S>(sum, up, p, block, job.rows, own + S::HAND_BYTES);
        else
            tile_store<S::NT>(sum, up, p, block, 0, job.rows);
    } else if (p.out == LINEAR_ACT && has_pieces) {
        tile_sync<S::COMPUTE>(); /* all bricks have been read */
        wide_leave<S>(sum, nullptr, p, block, job.rows, own);
    } else if (p.out == LINEAR_ADD) { /* two n-tiles at a time: registers are short */
        wide_leave_f32<S::NT, true, 2>(sum, p, block, job.rows);
    } else if (p.out == LINEAR_F32) {
        wide_leave_f32<S::NT, false, 2>(sum, p, block, job.rows, job.slice * p.slice_step);
    } else {
        tile_store<S::NT>(sum, nullptr, p, block, 0, job.rows);
    }
}
#endif

/* linear_middle_kernel: one slice, or the only one, of a tile of 320 or 128 outputs.
 *
 * Does     what linear_wide_kernel does, for up to 32 or 64 rows, on sm_90
 * Grid     tiles of rows x tiles along N (x slices where split), of all parts; block 768 or 288:
 *          a warp behind those that compute copies
 * Shared   stages of two bricks of each 16-output block and of x
 * Needs    as linear_wide_kernel; one slice a block; no experts
 * Moves    each weight byte once per tile of rows, x once per tile of outputs
 * Numbers  linear_tile_kernel's, bit for bit: wgmma runs the same chain
 * Chosen   cuda_pick_tile and cuda_pick_middle, on sm_90 for weights of 4 bits
 * Why      Of so few rows it is widening that takes the time: 20 warps hide what 8 wait for, and
 *          their sums of 64 rows leave the registers. 320 outputs make the 27B's launches one
 *          round of blocks, where 256 make one of 132 and a second of four. */
template <int BITS, int COLUMNS, int GROUPS>
__global__ void __launch_bounds__(middle_shape<BITS, COLUMNS, GROUPS>::THREADS,
                                  middle_shape<BITS, COLUMNS, GROUPS>::PER_PROCESSOR)
    linear_middle_kernel(const __grid_constant__ tile_args a,
                         const __grid_constant__ CUtensorMap map)
{
#if WGMMA_ON
    using S = middle_shape<BITS, COLUMNS, GROUPS>;
    extern __shared__ uint8_t shared_raw[];
    launch_next();
    __shared__ tile_job shared_job;
    tile_job job;
    if (!tile_job_init<COLUMNS, true>(job, a)) return;
    if (threadIdx.x == 0) shared_job = job; /* behind the barrier that follows */
    wide_shared<S> s = wide_shared_init<S>(shared_raw);
    if (threadIdx.x >= S::COMPUTE) {
        if constexpr (S::HANDS_REGISTERS) wgmma_fewer_registers<S::FEWER>();
        if (threadIdx.x < S::COMPUTE + 32) middle_copy<S>(s, a, job, &map);
    } else {
        if constexpr (S::HANDS_REGISTERS) wgmma_more_registers<S::MORE>();
        middle_finish<BITS, S>(s, a, shared_job);
    }
#endif
}

#endif
