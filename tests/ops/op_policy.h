/* op_policy: random policies and counts, and the reading of filters and noise (ops.h,
 * sample_args): written by sorting, in double. */
#ifndef RIPTIDE_TESTS_OP_POLICY_H
#define RIPTIDE_TESTS_OP_POLICY_H

#include "base/rng.h"
#include "ops/op_call.h"

/* By slot: the three buffers of sample_lanes. */
enum { POLICY, POLICY_BIAS, POLICY_COUNTS, POLICY_N };

static inline sample_policy *policy_of(const op_call *c, int at, int slot)
{
    return (sample_policy *)c->buf[at + POLICY].host + slot;
}
static inline sample_bias *policy_bias(const op_call *c, int at, int slot)
{
    return (sample_bias *)c->buf[at + POLICY_BIAS].host + slot * OPS_BIAS_MAX;
}

static inline float policy_choice(uint64_t *s, int n, const float *from)
{
    return from[test_random(s) % (uint64_t)n];
}
#define CHOOSE(s, ...) \
    policy_choice(s, sizeof((float[]){__VA_ARGS__}) / sizeof(float), (float[]){__VA_ARGS__})

/* Random settings; half of the lanes have penalties, some are greedy, some neutral. */
static inline void policy_random(sample_policy *p, uint64_t *s)
{
    *p = (sample_policy){.seed = test_random(s), .choice = (uint32_t)(test_random(s) % 3)};
    p->temperature = CHOOSE(s, 0, 0.2f, 0.7f, 1, 1, 1.5f);
    p->top_k = (int32_t)CHOOSE(s, 0, 0, 1, 3, 20, 40, 1000000);
    p->top_p = CHOOSE(s, 1, 1, 0.95f, 0.8f, 0.3f, 0.01f);
    p->min_p = CHOOSE(s, 0, 0, 0.02f, 0.2f, 1);
    p->repetition = 1;
    if (test_random(s) % 2) {
        p->repetition = CHOOSE(s, 1, 1.1f, 1.5f, 0.8f);
        p->presence = CHOOSE(s, 0, 0.5f, -0.5f);
        p->frequency = CHOOSE(s, 0, 0.25f, -0.25f);
    }
    p->n_bias = (int32_t)CHOOSE(s, 0, 0, 1, 5, 60);
}

/* Add the buffers of S slots; counts are `role`, or empty. */
static inline int policy_add(op_call *c, int V, bool has_counts, op_role role)
{
    int at = c->n_bufs;
    op_add(c, "policy", OP_IN, OP_BYTES, OP_SLOT, 0, sizeof(sample_policy));
    op_add(c, "bias", OP_IN, OP_BYTES, OP_SLOT, 0, OPS_BIAS_MAX * sizeof(sample_bias));
    if (has_counts) {
        op_add(c, "counts", role, OP_I32, OP_SLOT, 0, V);
    } else {
        op_add_empty(c, "counts");
    }
    for (int slot = 0; slot < c->lanes[0].S; slot++) {
        uint64_t s = op_stream(c, at, slot);
        policy_random(policy_of(c, at, slot), &s);
        for (int i = 0; i < policy_of(c, at, slot)->n_bias; i++) { /* distinct ids */
            int step = V > 200 ? 3 : 1;
            if (i * step >= V) policy_of(c, at, slot)->n_bias = i;
            policy_bias(c, at, slot)[i] = (sample_bias){(i * step + slot) % V,
                                                        (float)(op_noise(&s) * 2)};
        }
        for (int i = 0; has_counts && i < V; i++) {
            uint64_t x = test_random(&s);
            uint32_t word = x % 8 == 0 ? (uint32_t)(x >> 8) % 4 : 0;
            if ((x >> 16) % 8 == 0) word |= SAMPLE_IN_PROMPT;
            op_i32(c, at + POLICY_COUNTS)[(int64_t)slot * V + i] = (int32_t)word;
        }
    }
    return at;
}

static inline sample_lanes policy_lanes(const dev_buf *d)
{
    return (sample_lanes){d[POLICY], d[POLICY_BIAS], d[POLICY_COUNTS]};
}

/* y after bias and penalties; n_block = occurrences among the block's own tokens. */
static inline double policy_adjust(const op_call *c, int at, int slot, int V, int id, double y,
                                   int n_block)
{
    const sample_policy *p = policy_of(c, at, slot);
    for (int i = 0; i < p->n_bias; i++) {
        if (policy_bias(c, at, slot)[i].id == id) y += (double)policy_bias(c, at, slot)[i].value;
    }
    if (c->buf[at + POLICY_COUNTS].n == 0) return y;
    uint32_t word = (uint32_t)op_i32(c, at + POLICY_COUNTS)[(int64_t)slot * V + id];
    double count = (double)(word & 0x7fffffffu) + n_block;
    if (count > 0 || word >> 31) {
        y = y > 0 ? y / (double)p->repetition : y * (double)p->repetition;
    }
    return y - (double)p->frequency * count - (count > 0 ? (double)p->presence : 0);
}

/* ---- filters ------------------------------------------------------------------------------ */

typedef struct {
    double z;
    int id, place;
    bool is_kept;
} policy_item;

/* Descending z, ties by id. */
static inline int policy_order(const void *a, const void *b)
{
    const policy_item *x = a, *y = b;
    if (x->z != y->z) return x->z > y->z ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* The smallest distance of a value before the cut from one behind it, where they are not equal:
 * when f32 makes these two equal, or turns them round, the lower id may be another item. */
static inline double policy_gap(const policy_item *item, int n, int cut)
{
    int before = cut - 1, behind = cut;
    if (cut >= n) return INFINITY;
    while (before >= 0 && item[before].z == item[cut].z) before--;
    while (behind < n && item[behind].z == item[cut - 1].z) behind++;
    return fmin(before >= 0 ? item[before].z - item[cut].z : INFINITY,
                behind < n ? item[cut - 1].z - item[behind].z : INFINITY);
}

/* Sort the items, mark survivors. Returns how close the nearest decision was: the smallest
 * distance of a threshold to what it cut, where those are not equal numbers. */
static inline double policy_filter(const sample_policy *p, policy_item *item, int n)
{
    double closest = INFINITY, mass = 0, run = 0;
    qsort(item, (size_t)n, sizeof *item, policy_order);
    int n_kept = n;
    while (n_kept > 1 && item[n_kept - 1].z == -INFINITY) n_kept--;
    if (p->min_p > 0) {
        double least = item[0].z + log((double)p->min_p);
        for (int i = 0; i < n_kept; i++) {
            if (i > 0) closest = fmin(closest, fabs(item[i].z - least));
        }
        while (n_kept > 1 && item[n_kept - 1].z < least) n_kept--;
    }
    if (p->top_k > 0 && n_kept > p->top_k) {
        closest = fmin(closest, policy_gap(item, n_kept, p->top_k));
        n_kept = p->top_k;
    }
    if (p->top_p < 1) {
        for (int i = 0; i < n_kept; i++) mass += exp(item[i].z - item[0].z);
        int n_run = 0;
        while (n_run < n_kept) {
            run += exp(item[n_run++].z - item[0].z) / mass;
            if (n_run < n_kept) closest = fmin(closest, fabs(run - (double)p->top_p));
            if (run >= (double)p->top_p) break;
        }
        closest = fmin(closest, policy_gap(item, n_kept, n_run));
        n_kept = n_run;
    }
    for (int i = 0; i < n; i++) item[i].is_kept = i < n_kept;
    return closest;
}

static inline double policy_noise(const sample_policy *p, int64_t pos, int id)
{
    return rng_gumbel(rng_bits(rng_row_key(p->seed, p->choice, pos), (uint32_t)id));
}

/* The chosen item of n adjusted values y (in place z): greedy, or filtered and with noise; ties
 * to the lower place. *doubt: f32 arithmetic may well choose `other` instead. */
static inline int policy_pick(const sample_policy *p, policy_item *item, int n, int64_t pos,
                              int other, double tolerance, bool *doubt)
{
    double value_other = -INFINITY, best_value = -INFINITY, size = 0, closest = INFINITY;
    int best = -1, best_place = 0;
    for (int i = 0; i < n; i++) {
        if (p->temperature > 0) item[i].z /= (double)p->temperature;
        if (item[i].z > -INFINITY) size = fmax(size, fabs(item[i].z));
    }
    if (p->temperature > 0) {
        closest = policy_filter(p, item, n);
    } else {
        for (int i = 0; i < n; i++) item[i].is_kept = true;
    }
    for (int i = 0; i < n; i++) {
        if (!item[i].is_kept) continue;
        double value = item[i].z + (p->temperature > 0 ? policy_noise(p, pos, item[i].id) : 0);
        if (item[i].id == other) value_other = value;
        if (best < 0 || value > best_value || (value == best_value && item[i].place < best_place)) {
            best = item[i].id;
            best_place = item[i].place;
            best_value = value;
        }
    }
    double slack = tolerance * fmax(size, 1);
    bool is_near = value_other < best_value && best_value - value_other < slack;
    if (doubt) *doubt = is_near || closest < slack;
    return best;
}

#endif
