/* op_check: what every case of every op must satisfy.
 *
 * ref equals the reading of the formula; every backend equals ref within the case's bounds; and
 * on every backend a row's bits stay when the lanes are permuted, when a lane is alone, when a
 * lane's first rows are missing, when padding rows are added, and with two threads.
 *
 * RIPTIDE_TEST_BACKENDS lists the backends ("cpu:avx2,cuda"); without it all that open.
 * RIPTIDE_TEST_CASES is how many cases of each op run, the first ones, where a machine is too slow
 * for all (an emulated one). */
#ifndef RIPTIDE_TESTS_OP_CHECK_H
#define RIPTIDE_TESTS_OP_CHECK_H

#include <malloc.h>

#include "ops/op_run.h"

typedef struct {
    const char *name;
    int n_cases;
    /* Build case i over `lanes`, or over its own when NULL. */
    void (*build)(op_call *c, int i, const op_lanes *lanes);
    void (*read)(op_call *c); /* fills `want`; NULL = no reading */
    bool can_slice;           /* a lane's later rows don't need its earlier ones in the same call */
    bool is_block;            /* lanes own B rows each; there is no padding */
} op_entry;

typedef struct {
    const char *name;
    backend *one, *two; /* with 1 thread, with 2 */
} op_pair;

enum { OP_PAIRS_MAX = 8 };
typedef struct {
    int n; /* [0] is ref */
    op_pair pair[OP_PAIRS_MAX];
    double worst[OP_PAIRS_MAX], worst_read;
} op_backends;

/* What all the cases stay within. */
static const backend_limits op_limits = {.T = 320,
                                         .L = 64,
                                         .rows_per_lane = 16,
                                         .E = 5120,
                                         .K = 5120,
                                         .N = 2048,
                                         .F = 1024,
                                         .moe_F = 256,
                                         .shared_F = 256,
                                         .X = 64,
                                         .K_experts = 8,
                                         .V = 5000,
                                         .M = 1024,
                                         .H = 32,
                                         .G = 2,
                                         .D = 256,
                                         .gdn_Hk = 4,
                                         .gdn_Hv = 8,
                                         .gdn_dk = 128,
                                         .gdn_dv = 128,
                                         .max_position = 4096};

static inline bool op_open(op_pair *p, const char *name, bool must)
{
    err e = {0};
    backend_options o = {.name = name, .n_threads = 1};
    status s = backend_open(&p->one, &o, &e);
    if (s != ERR_OK && !must) return false;
    CHECK_OK(s, &e);
    o.n_threads = 2;
    CHECK_OK(backend_open(&p->two, &o, &e), &e);
    CHECK_OK(p->one->ops->reserve(p->one, &op_limits, &e), &e);
    CHECK_OK(p->two->ops->reserve(p->two, &op_limits, &e), &e);
    p->name = name;
    return true;
}

static inline op_backends *op_all(void)
{
    static op_backends all;
    static char given[200];
    static const char *const known[] = {"cpu:scalar",     "cpu:avx2", "cpu:avx512",
                                        "cpu:avx512vnni", "cpu:amx",  "cuda"};
    if (all.n > 0) return &all;
    /* Big blocks come and go: let the heap keep their pages. */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    const char *list = getenv("RIPTIDE_TEST_BACKENDS");
    op_open(&all.pair[all.n++], "ref", true);
    if (list) {
        snprintf(given, sizeof given, "%s", list);
        for (char *at = strtok(given, ","); at && all.n < OP_PAIRS_MAX; at = strtok(NULL, ",")) {
            if (strcmp(at, "ref") != 0) all.n += op_open(&all.pair[all.n], at, true);
        }
    } else {
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
            all.n += op_open(&all.pair[all.n], known[i], false);
        }
    }
    print_message("backends:");
    for (int i = 0; i < all.n; i++) print_message(" %s", all.pair[i].name);
    print_message("\n");
    return &all;
}

static inline void op_begin(op_call *c, const op_entry *op, int i, uint64_t seed,
                            const op_lanes *lanes)
{
    memset(c, 0, sizeof *c);
    arena_init(&c->mem, 0);
    c->seed = seed + (uint64_t)i * 1000003;
    c->i_case = i;
    c->V = 100;
    c->bound_f32 = 2e-6;
    c->bound_act = 6e-3;
    c->bound_read = 3e-7;
    op->build(c, i, lanes);
}

/* ---- a row's bits ------------------------------------------------------------------------- */

static inline int op_lane_of_key(const op_lanes *s, int key)
{
    for (int l = 0; l < s->L; l++) {
        if (s->lane[l].key == key) return l;
    }
    return -1;
}

static inline int op_lane_of_slot(const op_lanes *s, int slot)
{
    for (int l = 0; l < s->L; l++) {
        if (s->lane[l].slot == slot) return l;
    }
    return -1;
}

/* The unit of `full` that must hold the bits of unit u of `part`; -1: the unit must be as it was
 * before the call; -2: nothing is said about it. */
static inline int64_t op_twin(const op_call *full, const op_call *part, const op_buf *b, int64_t u,
                              bool is_slice)
{
    const op_lanes *p = &part->lanes[b->group], *f = &full->lanes[b->group];
    int lane;
    switch (b->axis) {
    case OP_ROW: {
        int index;
        if ((lane = op_row_lane(p, u, &index)) < 0) return -2;
        int twin = op_lane_of_key(f, p->lane[lane].key);
        int64_t row = index - f->lane[twin].first;
        for (int l = 0; l < twin; l++) row += f->lane[l].n_rows;
        return row;
    }
    case OP_LANE: return is_slice ? -2 : op_lane_of_key(f, p->lane[u].key);
    case OP_SLOT:
        if ((lane = op_lane_of_slot(p, (int)u)) < 0) return -1;
        return is_slice ? -2 : u;
    case OP_BLOCK: {
        const int32_t *table = op_i32(part, part->rows_at[b->group] + OP_TABLE);
        int at = 0;
        while (table[at] != u) at++;
        if (op_lane_of_slot(p, at / p->stride) < 0) return -1;
        return is_slice ? -2 : u;
    }
    default: return is_slice ? -2 : u;
    }
}

static inline void op_same_bits(const op_call *full, const op_result *rf, const op_call *part,
                                const op_result *rp, bool is_slice, const char *what)
{
    for (int i = 0; i < part->n_bufs; i++) {
        const op_buf *b = &part->buf[i];
        if (b->role == OP_IN || b->n == 0) continue;
        int64_t size = b->unit * op_dev_size(b->type, rp->act);
        for (int64_t u = 0; u * b->unit < b->n; u++) {
            int64_t twin = op_twin(full, part, b, u, is_slice);
            if (twin == -2) continue;
            const char *want = twin == -1 ? rp->before[i] + u * size : rf->after[i] + twin * size;
            if (memcmp(rp->after[i] + u * size, want, (size_t)size) != 0) {
                fail_msg("%s:%s case %d %s: unit %lld has other bits %s", rp->backend, rp->isa,
                         part->i_case, b->name, (long long)u,
                         twin == -1 ? "though it is nobody's" : what);
            }
        }
    }
}

/* The case over other lanes, on every backend against its result rf[k] of the full call. */
static inline void op_try_lanes(const op_entry *op, const op_call *full, const op_result *rf,
                                op_backends *all, const op_lanes *lanes, bool is_slice,
                                const char *what)
{
    op_call part;
    op_begin(&part, op, full->i_case, full->seed - (uint64_t)full->i_case * 1000003, lanes);
    for (int k = 0; k < all->n; k++) {
        op_result rp = op_run(all->pair[k].two, &part);
        op_same_bits(full, &rf[k], &part, &rp, is_slice, what);
    }
    arena_fini(&part.mem);
}

static inline void op_check_company(const op_entry *op, const op_call *full, const op_result *rf,
                                    op_backends *all)
{
    const op_lanes *own = &full->lanes[0];
    op_lanes s = *own;
    for (int l = 0; l < s.L; l++) s.lane[l] = own->lane[s.L - 1 - l];
    if (!op->is_block) s.n_pad = 3;
    op_lanes_count(&s);
    if (s.T <= op_limits.T) {
        op_try_lanes(op, full, rf, all, &s, false, "in other order with padding");
    }
    int step = own->L > 4 ? own->L / 3 : 1;
    for (int l = 0; l < own->L; l += step) {
        s = *own;
        s.L = 1;
        s.n_pad = 0;
        s.lane[0] = own->lane[l];
        op_lanes_count(&s);
        op_try_lanes(op, full, rf, all, &s, false, "alone");
    }
    if (!op->can_slice) return;
    s = *own;
    for (int l = 0; l < s.L; l++) {
        int drop = s.lane[l].n_rows / 2;
        s.lane[l].first += drop;
        s.lane[l].n_rows -= drop;
    }
    op_lanes_count(&s);
    if (s.T < own->T) {
        op_try_lanes(op, full, rf, all, &s, true, "without the lane's earlier rows");
    }
}

/* ---- all of it ---------------------------------------------------------------------------- */

static inline void op_check_case(const op_entry *op, int i, uint64_t seed, op_backends *all)
{
    op_call c;
    op_result r[OP_PAIRS_MAX];
    op_begin(&c, op, i, seed, NULL);
    ASSERT(c.lanes[0].T <= op_limits.T);
    for (int k = 0; k < all->n; k++) r[k] = op_run(all->pair[k].one, &c);
    if (op->read) {
        op->read(&c);
        double d = op_compare_reading(&c, &r[0]);
        if (d > all->worst_read) all->worst_read = d;
    }
    for (int k = 0; k < all->n; k++) {
        double d = k > 0 ? op_compare(&c, &r[k], &r[0]) : 0;
        if (d > all->worst[k]) all->worst[k] = d;
        op_result r2 = op_run(all->pair[k].two, &c);
        op_same_bits(&c, &r[k], &c, &r2, false, "with two threads");
    }
    op_check_company(op, &c, r, all);
    arena_fini(&c.mem);
}

static inline void op_check(const op_entry *op)
{
    uint64_t seed = test_seed();
    op_backends *all = op_all();
    all->worst_read = 0;
    memset(all->worst, 0, sizeof all->worst);
    const char *given = getenv("RIPTIDE_TEST_CASES");
    int n = given ? atoi(given) : op->n_cases;
    if (n > op->n_cases) n = op->n_cases;
    assert_true(n > 0);
    for (int i = 0; i < n; i++) op_check_case(op, i, seed, all);
    print_message("%-16s %3d cases", op->name, n);
    if (op->read) print_message("  ref-formula %.1e", all->worst_read);
    for (int k = 1; k < all->n; k++) print_message("  %s %.1e", all->pair[k].name, all->worst[k]);
    print_message("\n");
}

#endif
