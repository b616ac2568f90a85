#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_filter_priv.h"
#include "backend/cpu/cpu_policy_priv.h"
#include "backend/cpu/cpu_topk_priv.h"
#include "base/rng.h"

/* Rows go through in batches, each in three passes over (row, chunk of ids) units with a short
 * decision per row in between:
 *   adjust   y, or z = y / temperature, and the best or largest of the chunk
 *   filter   per row: how low a survivor may be, or the few survivors themselves
 *   draw     the best z + noise of the chunk; and sum exp(logits) when logprobs are wanted
 * Without a change or filter the first two have nothing to do: z is made while drawing.
 * Chunks are the same whatever the number of threads. */
enum {
    SAMPLE_CHUNK = 16384,
    SAMPLE_BATCH = 16, /* rows whose z are in memory at a time */
};

typedef struct {
    float max;      /* of y or z */
    float raw_max;  /* of the logits as they came */
    double raw_sum; /* sum exp(logits - raw_max of the row) */
    cpu_best best;
} chunk_result;

typedef struct {
    const float *logits;
    const float *z; /* logits themselves when nothing changes them */
    float *own_z;   /* [V] */
    const uint32_t *mask;
    const sample_policy *policy;
    const sample_bias *bias;
    const uint32_t *counts; /* NULL without penalties */
    const int32_t *block;   /* the block's own tokens before this row */
    int n_block;
    rng_key key;
    float max, raw_max;
    cpu_filter filter;
    bool is_skipped, has_changes;
    bool is_direct; /* drawn from the logits as they are: no filter asks for z */
} sample_row;

typedef struct {
    cpu_backend *c;
    const sample_args *a;
    int64_t m0; /* first row of the batch */
    int n_rows, n_chunks;
    bool wants_logprob;
    sample_row *rows;
    chunk_result *chunks; /* [n_rows, n_chunks] */
} sample_job;

/* ---- rows --------------------------------------------------------------------------------- */

static void open_row(sample_job *j, int i)
{
    const sample_args *a = j->a;
    sample_row *r = &j->rows[i];
    int64_t m = j->m0 + i;
    int row = cpu_i32(a->row)[m], lane = cpu_i32(a->rows.row_lane)[row];
    float *own_z = r->own_z;
    void *filter_mem = r->filter.mem;
    *r = (sample_row){.own_z = own_z, .filter.mem = filter_mem, .is_skipped = lane < 0};
    if (r->is_skipped) return;
    int64_t slot = cpu_i32(a->rows.lane_slot)[lane];
    const sample_policy *p = (const sample_policy *)a->lanes.policy.ptr + slot;
    r->policy = p;
    r->logits = r->z = cpu_f32(a->logits) + m * a->V;
    if (p->has_mask && a->mask.ptr)
        r->mask = (const uint32_t *)a->mask.ptr + m * ((a->V + 31) / 32);
    if (p->n_bias > 0) r->bias = (const sample_bias *)a->lanes.bias.ptr + slot * OPS_BIAS_MAX;
    if (a->lanes.counts.ptr && cpu_policy_has_penalty(p)) {
        int first = cpu_i32(a->rows.lane_row)[lane] + 1;
        r->counts = (const uint32_t *)a->lanes.counts.ptr + slot * a->V;
        r->block = cpu_i32(a->rows.ids) + first;
        r->n_block = a->is_prompt || row < first ? 0 : row - first + 1;
    }
    r->has_changes = r->mask || r->bias || r->counts;
    r->is_direct = !r->has_changes && p->temperature > 0 && p->top_k <= 0 && !(p->top_p < 1) &&
                   !(p->min_p > 0);
    if (r->has_changes || (p->temperature > 0 && !r->is_direct)) r->z = r->own_z;
    r->key = rng_row_key(p->seed, p->choice, (int64_t)cpu_i32(a->rows.row_pos)[row] + 1);
}

/* ---- first pass --------------------------------------------------------------------------- */

static int times_in_block(const sample_row *r, int32_t id)
{
    int n = 0;
    for (int i = 0; i < r->n_block; i++) n += r->block[i] == id;
    return n;
}

/* Penalties on ids [from, from + n): y starts at from. */
static void penalise(const sample_row *r, int64_t from, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t word = r->counts[from + i];
        if (word)
            y[i] = cpu_policy_penalise(r->policy, y[i], word,
                                       times_in_block(r, (int32_t)(from + i)));
    }
    for (int i = 0; i < r->n_block; i++) { /* ids that only the block holds, once each */
        int64_t id = r->block[i];
        bool is_first = true;
        for (int b = 0; b < i; b++) is_first = is_first && r->block[b] != id;
        if (!is_first || id < from || id >= from + n || r->counts[id]) continue;
        y[id - from] = cpu_policy_penalise(r->policy, y[id - from], 0,
                                           times_in_block(r, (int32_t)id));
    }
}

static void adjust_chunk(const sample_job *j, sample_row *r, int64_t from, int64_t n,
                         chunk_result *out)
{
    const cpu_kernels *k = j->c->k;
    const sample_policy *p = r->policy;
    float *y = r->own_z + from;
    if (j->wants_logprob) out->raw_max = k->max(r->logits + from, n);
    if (r->is_direct) return;
    if (r->has_changes) {
        k->masked_div(r->logits + from, n, r->mask ? r->mask + from / 32 : NULL, 1.0f, y);
        for (int i = 0; r->bias && i < p->n_bias; i++)
            if (r->bias[i].id >= from && r->bias[i].id < from + n)
                y[r->bias[i].id - from] += r->bias[i].value;
        if (r->counts) penalise(r, from, n, y);
        if (p->temperature > 0) k->masked_div(y, n, NULL, p->temperature, y);
    } else if (p->temperature > 0) {
        k->masked_div(r->logits + from, n, NULL, p->temperature, y);
    }
    if (p->temperature > 0) {
        out->max = k->max(r->z + from, n);
        return;
    }
    out->best = k->argmax(r->z + from, n);
    if (out->best.id >= 0) out->best.id += (int32_t)from;
}

typedef void chunk_fn(const sample_job *j, sample_row *r, int64_t from, int64_t n,
                      chunk_result *out);
typedef struct {
    const sample_job *j;
    chunk_fn *fn;
} pass;

static void pass_units(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const pass *p = ctx;
    for (int64_t unit = begin; unit < end; unit++) {
        sample_row *r = &p->j->rows[unit / p->j->n_chunks];
        int64_t from = unit % p->j->n_chunks * SAMPLE_CHUNK, V = p->j->a->V;
        if (r->is_skipped) continue;
        p->fn(p->j, r, from, V - from < SAMPLE_CHUNK ? V - from : SAMPLE_CHUNK,
              &p->j->chunks[unit]);
    }
}

static void run_pass(sample_job *j, chunk_fn *fn)
{
    pass p = {j, fn};
    workers_for(j->c->pool, (int64_t)j->n_rows * j->n_chunks, 1, pass_units, &p);
}

/* ---- between passes ----------------------------------------------------------------------- */

static void filter_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const sample_job *j = ctx;
    for (int64_t i = begin; i < end; i++) {
        sample_row *r = &j->rows[i];
        const chunk_result *c = j->chunks + i * j->n_chunks;
        if (r->is_skipped) continue;
        r->max = r->raw_max = -INFINITY;
        for (int n = 0; n < j->n_chunks; n++) {
            if (c[n].max > r->max) r->max = c[n].max;
            if (c[n].raw_max > r->raw_max) r->raw_max = c[n].raw_max;
        }
        if (r->policy->temperature > 0 && !r->is_direct)
            cpu_filter_run(&r->filter, j->c->k, r->policy, r->own_z, j->a->V, r->max);
    }
}

static void draw_chunk(const sample_job *j, sample_row *r, int64_t from, int64_t n,
                       chunk_result *out)
{
    const cpu_kernels *k = j->c->k;
    if (j->wants_logprob) out->raw_sum = k->sum_exp(r->logits + from, n, r->raw_max);
    if (r->is_direct)
        out->best = k->gumbel_argmax(r->logits + from, n, (int32_t)from, r->policy->temperature,
                                     -INFINITY, r->key);
    else if (r->policy->temperature > 0 && r->filter.n_few == 0)
        out->best = k->gumbel_argmax(r->z + from, n, (int32_t)from, 1.0f, r->filter.least, r->key);
}

/* The best of a few survivors. */
static cpu_best draw_few(const cpu_kernels *k, const sample_row *r)
{
    cpu_best best = {-INFINITY, -1};
    for (int from = 0; from < r->filter.n_few; from += 16) {
        int n = r->filter.n_few - from < 16 ? r->filter.n_few - from : 16;
        int32_t ids[16] = {0};
        float noise[16];
        memcpy(ids, r->filter.few_ids + from, (size_t)n * sizeof *ids);
        k->gumbel16(ids, r->key, noise);
        for (int i = 0; i < n; i++) {
            float v = r->filter.few_z[from + i] + noise[i];
            if (v > best.value || (v == best.value && ids[i] < best.id))
                best = (cpu_best){v, ids[i]};
        }
    }
    return best;
}

static void close_row(const sample_job *j, int i)
{
    const sample_args *a = j->a;
    const sample_row *r = &j->rows[i];
    const chunk_result *c = j->chunks + (int64_t)i * j->n_chunks;
    int64_t m = j->m0 + i;
    if (r->is_skipped) return;
    cpu_best best = {-INFINITY, -1};
    if (r->policy->temperature > 0 && r->filter.n_few > 0)
        best = draw_few(j->c->k, r);
    else
        for (int n = 0; n < j->n_chunks; n++)
            if (c[n].best.id >= 0 && (best.id < 0 || c[n].best.value > best.value))
                best = c[n].best;
    int32_t token = best.id < 0 ? 0 : best.id; /* nothing is allowed: the lowest id */
    ((int32_t *)a->token.ptr)[m] = token;
    if (!j->wants_logprob) return;
    double sum = 0;
    for (int n = 0; n < j->n_chunks; n++) sum += c[n].raw_sum;
    double log_sum = (double)r->raw_max + log(sum);
    if (a->logprob.ptr) cpu_f32(a->logprob)[m] = (float)((double)r->logits[token] - log_sum);
    if (!a->top_ids.ptr) return;
    float *top = cpu_f32(a->top_logprobs) + m * OPS_TOP_LOGPROBS;
    cpu_topk_row(j->c->k, r->logits, a->V, OPS_TOP_LOGPROBS,
                 (int32_t *)a->top_ids.ptr + m * OPS_TOP_LOGPROBS, top);
    for (int n = 0; n < OPS_TOP_LOGPROBS; n++) top[n] = (float)((double)top[n] - log_sum);
}

/* ---- the op ------------------------------------------------------------------------------- */

static int sample_chunks(int64_t V)
{
    return (int)((V + SAMPLE_CHUNK - 1) / SAMPLE_CHUNK);
}

/* Scratch: rows, results of chunks, then z and the filter's memory of each row of a batch. */
static int64_t sample_layout(int64_t n_rows, int64_t V, char *mem, sample_job *j)
{
    int64_t at = 0, rows = at, chunks, z;
    at += cpu_align64(n_rows * (int64_t)sizeof(sample_row));
    chunks = at;
    at += cpu_align64(n_rows * sample_chunks(V) * (int64_t)sizeof(chunk_result));
    z = at;
    int64_t one = cpu_align64(V * 4) + cpu_align64(cpu_filter_bytes(V));
    at += n_rows * one;
    if (!j) return at;
    j->rows = (sample_row *)(mem + rows);
    j->chunks = (chunk_result *)(mem + chunks);
    for (int64_t i = 0; i < n_rows; i++) {
        j->rows[i].own_z = (float *)(mem + z + i * one);
        j->rows[i].filter.mem = mem + z + i * one + cpu_align64(V * 4);
    }
    return at;
}

cpu_scratch cpu_sample_scratch(int M, int64_t V)
{
    return (cpu_scratch){
        .shared = sample_layout(M < SAMPLE_BATCH ? M : SAMPLE_BATCH, V, NULL, NULL)};
}

status cpu_sample(backend *b, const sample_args *a)
{
    cpu_backend *c = cpu_of(b);
    sample_job j = {.c = c, .a = a, .n_chunks = sample_chunks(a->V)};
    TRY(cpu_need(c, "sample", 0, cpu_sample_scratch(a->M, a->V).shared, 0));
    j.wants_logprob = a->logprob.ptr || a->top_ids.ptr;
    for (j.m0 = 0; j.m0 < a->M; j.m0 += j.n_rows) {
        j.n_rows = a->M - j.m0 < SAMPLE_BATCH ? (int)(a->M - j.m0) : SAMPLE_BATCH;
        sample_layout(j.n_rows, a->V, c->shared, &j);
        bool is_drawn = j.wants_logprob;
        for (int i = 0; i < j.n_rows; i++) {
            open_row(&j, i);
            is_drawn = is_drawn || (!j.rows[i].is_skipped && j.rows[i].policy->temperature > 0);
        }
        run_pass(&j, adjust_chunk);
        if (is_drawn) {
            workers_for(c->pool, j.n_rows, 1, filter_rows, &j);
            run_pass(&j, draw_chunk);
        }
        for (int i = 0; i < j.n_rows; i++) close_row(&j, i);
    }
    return ERR_OK;
}
