/* tags: threads */
/* Long contexts: segments shared by several workers merge to what one worker gets alone. */
#include "backend/backend_priv.h"
#include "backend/cpu/cpu_priv.h"
#include "base/arena.h"
#include "cpu_tables.h"

enum { D = 32, H = 2, G = 1, N_POS = 3300, BLOCKS = (N_POS + 63) / 64 };

typedef struct {
    arena mem;
    float *k, *v, *q, *out;
    int32_t table[BLOCKS], row_lane[8], row_pos[8], lane_row[2], lane_slot[1];
} context;

static void context_open(context *c, uint64_t *seed)
{
    *c = (context){0};
    arena_init(&c->mem, 0);
    c->k = arena_new(&c->mem, sizeof(float) * BLOCKS * 64 * D);
    c->v = arena_new(&c->mem, sizeof(float) * BLOCKS * 64 * D);
    c->q = arena_new(&c->mem, sizeof(float) * 8 * H * D);
    c->out = arena_new(&c->mem, sizeof(float) * 8 * H * D);
    fill_normal(seed, c->k, BLOCKS * 64 * D, 1);
    fill_normal(seed, c->v, BLOCKS * 64 * D, 1);
    fill_normal(seed, c->q, 8 * H * D, 1);
    for (int i = 0; i < BLOCKS; i++) c->table[i] = BLOCKS - 1 - i;
}

/* Rows [first, first + n) of the 8 that end at position N_POS - 1. */
static void run_rows(context *c, int n_threads, int first, int n, float *out)
{
    backend *b;
    err e;
    backend_options o = {.name = "cpu", .n_threads = n_threads};
    backend_limits l = {.T = 8, .L = 1, .H = H, .G = G, .D = D, .max_position = N_POS};
    CHECK_OK(cpu_backend_open(&b, NULL, &o, &e), &e);
    CHECK_OK(b->ops->reserve(b, &l, &e), &e);
    for (int i = 0; i < n; i++) c->row_pos[i] = N_POS - 8 + first + i;
    c->lane_row[1] = n;
    attn_args a = {
        .q = {c->q + first * H * D, 0}, .out = {c->out, 0}, .scale = 0.2f, .H = H, .G = G, .D = D};
    a.kv = (kv_layer){.format = KV_F32, .k = {c->k, 0}, .v = {c->v, 0}};
    a.rows = (ops_rows){.T = n,
                        .L = 1,
                        .max_rows = n,
                        .max_len = N_POS,
                        .row_lane = {c->row_lane, 0},
                        .row_pos = {c->row_pos, 0},
                        .lane_row = {c->lane_row, 0},
                        .lane_slot = {c->lane_slot, 0},
                        .table = {c->table, 0},
                        .table_stride = BLOCKS};
    CHECK_STATUS(b->ops->attn(b, &a), ERR_OK);
    memcpy(out, c->out, sizeof(float) * (size_t)(n * H * D));
    b->ops->close(b);
}

TEST(shared_segments_give_the_bits_of_one_worker)
{
    context c;
    uint64_t seed = test_seed();
    static float want[8 * H * D], got[8 * H * D];
    context_open(&c, &seed);
    run_rows(&c, 1, 0, 8, want);
    for (int n_threads = 2; n_threads <= 5; n_threads++) {
        run_rows(&c, n_threads, 0, 8, got);
        assert_memory_equal(got, want, sizeof got);
        for (int r = 0; r < 8; r += 3) {
            run_rows(&c, n_threads, r, 1, got);
            assert_memory_equal(got, want + r * H * D, sizeof(float) * H * D);
        }
    }
    arena_fini(&c.mem);
}

TEST(a_long_context_is_the_plain_softmax)
{
    context c;
    uint64_t seed = test_seed();
    static float out[8 * H * D];
    context_open(&c, &seed);
    run_rows(&c, 2, 0, 8, out);
    for (int r = 0; r < 8; r += 7) {
        static double p[N_POS];
        double sum = 0, want[D] = {0};
        const float *q = c.q + r * H * D;
        for (int s = 0; s <= N_POS - 8 + r; s++) {
            const float *k = c.k + (c.table[s / 64] * 64 + s % 64) * D;
            double dot = 0;
            for (int d = 0; d < D; d++) dot += (double)q[d] * (double)k[d];
            p[s] = exp(dot * (double)0.2f);
            sum += p[s];
        }
        for (int s = 0; s <= N_POS - 8 + r; s++)
            for (int d = 0; d < D; d++)
                want[d] += p[s] / sum * (double)c.v[(c.table[s / 64] * 64 + s % 64) * D + d];
        for (int d = 0; d < D; d++) assert_true(fabs((double)out[r * H * D + d] - want[d]) < 2e-6);
    }
    arena_fini(&c.mem);
}
