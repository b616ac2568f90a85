/* op_sample: cases and readings of sampling, the drafter's walk, accept and counting. */
#ifndef RIPTIDE_TESTS_OP_SAMPLE_H
#define RIPTIDE_TESTS_OP_SAMPLE_H

#include "ops/op_cases.h"
#include "ops/op_check.h"
#include "ops/op_policy.h"
#include "ops/op_read.h"

/* ---- sample ------------------------------------------------------------------------------- */

enum { SAMPLE_M = 1 }; /* group 1: the rows that are sampled */
enum {
    SAMPLE_ROW = 2 * OP_ROWS_N,
    SAMPLE_LOGITS,
    SAMPLE_MASK,
    SAMPLE_TOKEN,
    SAMPLE_LOGPROB,
    SAMPLE_TOP_IDS,
    SAMPLE_TOP,
    SAMPLE_POLICY
};

static inline status sample_run(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w)
{
    (void)w;
    const sample_case *p = c->param;
    sample_args a = {.logits = d[SAMPLE_LOGITS],
                     .row = d[SAMPLE_ROW],
                     .rows = op_rows(c, 0, d),
                     .lanes = policy_lanes(d + SAMPLE_POLICY),
                     .mask = d[SAMPLE_MASK],
                     .token = d[SAMPLE_TOKEN],
                     .logprob = d[SAMPLE_LOGPROB],
                     .top_ids = d[SAMPLE_TOP_IDS],
                     .top_logprobs = d[SAMPLE_TOP],
                     .M = c->lanes[SAMPLE_M].T,
                     .V = p->V,
                     .is_prompt = p->is_prompt};
    return b->ops->sample(b, &a);
}

/* The token of sampled row m by the formula; *doubt as in policy_pick. */
static inline int sample_read_token(const op_call *c, int64_t m, int other, bool *doubt)
{
    const sample_case *p = c->param;
    int index, l = op_row_lane(&c->lanes[SAMPLE_M], m, &index), slot = c->lanes[0].lane[l].slot;
    int row = op_i32(c, SAMPLE_ROW)[m], first = op_i32(c, OP_LANE_ROW)[l];
    const sample_policy *policy = policy_of(c, SAMPLE_POLICY, slot);
    const uint32_t *mask = (const uint32_t *)op_i32(c, SAMPLE_MASK) + m * ((p->V + 31) / 32);
    policy_item *item = malloc((size_t)p->V * sizeof *item);
    for (int id = 0; id < p->V; id++) {
        double y = (double)op_f32(c, SAMPLE_LOGITS)[m * p->V + id];
        int n_block = 0;
        for (int t = first + 1; t <= row && !p->is_prompt; t++) {
            n_block += op_i32(c, OP_IDS)[t] == id;
        }
        if (p->has_mask && policy->has_mask && !(mask[id / 32] >> (id % 32) & 1)) y = -INFINITY;
        y = policy_adjust(c, SAMPLE_POLICY, slot, p->V, id, y, n_block);
        item[id] = (policy_item){.z = y, .id = id, .place = id};
    }
    int token = policy_pick(policy, item, p->V, op_i32(c, OP_ROW_POS)[row] + 1, other, 3e-6, doubt);
    free(item);
    return token;
}

static inline bool sample_excuse(const op_call *c, int i_buf, int64_t i, int64_t got, int64_t want)
{
    const sample_case *p = c->param;
    bool doubt = false;
    (void)want;
    if (i_buf == SAMPLE_TOKEN && got >= 0 && got < p->V) sample_read_token(c, i, (int)got, &doubt);
    return doubt;
}

static inline void sample_fill_mask(op_call *c, const sample_case *p)
{
    int64_t n_words = (p->V + 31) / 32;
    for (int64_t m = 0; m < c->lanes[SAMPLE_M].T; m++) {
        uint64_t s = op_stream(c, SAMPLE_MASK, m);
        uint32_t *words = (uint32_t *)op_i32(c, SAMPLE_MASK) + m * n_words;
        uint64_t density = test_random(&s) % 3;
        for (int64_t i = 0; i < n_words; i++) {
            uint64_t x = test_random(&s);
            if (density > 0) x &= x >> 32 & test_random(&s);
            words[i] = (uint32_t)x;
        }
        int always = (int)(test_random(&s) % (uint64_t)p->V);
        words[always / 32] |= 1u << (always % 32);
    }
}

static inline void sample_build(op_call *c, int i, const op_lanes *lanes)
{
    const sample_case *p = c->param = &sample_cases[i];
    op_lanes own = op_lanes_parse(p->lanes), m;
    int V = c->V = p->V;
    c->run = sample_run;
    c->excuse = sample_excuse;
    c->bound_f32 = c->bound_act = 4e-6;
    op_add_rows(c, 0, lanes ? lanes : &own);
    m = c->lanes[0];
    for (int l = 0; p->is_prompt && l < m.L; l++) { /* only the last row of each lane */
        m.lane[l].first += m.lane[l].n_rows - 1;
        m.lane[l].n_rows = 1;
    }
    op_lanes_count(&m);
    op_add_rows(c, SAMPLE_M, &m);
    op_add(c, "row", OP_IN, OP_I32, OP_ROW, SAMPLE_M, 1);
    op_add_noise(c, "logits", OP_IN, OP_F32, OP_ROW, SAMPLE_M, V, 3, 0);
    op_add(c, "mask", OP_IN, OP_I32, OP_ROW, SAMPLE_M, (V + 31) / 32);
    op_add(c, "token", OP_OUT, OP_I32, OP_ROW, SAMPLE_M, 1);
    op_add(c, "logprob", OP_OUT, OP_F32, OP_ROW, SAMPLE_M, 1);
    op_add(c, "top_ids", OP_OUT, OP_I32, OP_ROW, SAMPLE_M, OPS_TOP_LOGPROBS);
    op_add(c, "top_logprobs", OP_OUT, OP_F32, OP_ROW, SAMPLE_M, OPS_TOP_LOGPROBS);
    policy_add(c, V, p->has_counts, OP_IN);
    sample_fill_mask(c, p);
    if (!p->has_mask) c->buf[SAMPLE_MASK].n = 0;
    if (!p->wants_tops) c->buf[SAMPLE_TOP_IDS].n = c->buf[SAMPLE_TOP].n = 0;
    if (i == 2) c->buf[SAMPLE_LOGPROB].n = 0;
    c->buf[SAMPLE_LOGPROB].follows = SAMPLE_TOKEN;
    for (int slot = 0; slot < c->lanes[0].S; slot++) {
        policy_of(c, SAMPLE_POLICY, slot)->has_mask = p->has_mask && slot % 3 != 0;
    }
    for (int64_t k = 0; p->has_ties && k < c->buf[SAMPLE_LOGITS].n; k++) {
        float *x = op_f32(c, SAMPLE_LOGITS) + k; /* many share the first place */
        *x = fminf(rintf(*x * 2) / 2, 3);
    }
    int n_real = c->lanes[0].T - c->lanes[0].n_pad;
    for (int64_t k = 0; k < m.T; k++) {
        int index, l = op_row_lane(&m, k, &index);
        op_i32(c, SAMPLE_ROW)[k] = l < 0 ? n_real + index
                                         : op_i32(c, OP_LANE_ROW)[l] + index -
                                               c->lanes[0].lane[l].first;
        for (int t = 0; l >= 0 && t < c->lanes[0].lane[l].n_rows; t++) {
            /* the lane's own ids are likely, so that counting them matters */
            int id = op_i32(c, OP_IDS)[op_i32(c, OP_LANE_ROW)[l] + t];
            op_f32(c, SAMPLE_LOGITS)[k * V + id] += 6;
        }
    }
}

static inline void sample_read(op_call *c)
{
    const sample_case *p = c->param;
    for (int64_t m = 0; m < c->lanes[SAMPLE_M].T; m++) {
        int index, token;
        if (op_row_lane(&c->lanes[SAMPLE_M], m, &index) < 0) continue;
        const float *x = op_f32(c, SAMPLE_LOGITS) + m * p->V;
        c->buf[SAMPLE_TOKEN].want[m] = token = sample_read_token(c, m, -1, NULL);
        policy_item *item = malloc((size_t)p->V * sizeof *item);
        double sum = 0;
        for (int id = 0; id < p->V; id++) {
            item[id] = (policy_item){.z = (double)x[id], .id = id};
            sum += exp((double)x[id]);
        }
        qsort(item, (size_t)p->V, sizeof *item, policy_order);
        c->buf[SAMPLE_LOGPROB].want[m] = (double)x[token] - log(sum);
        for (int k = 0; k < OPS_TOP_LOGPROBS; k++) {
            c->buf[SAMPLE_TOP_IDS].want[m * OPS_TOP_LOGPROBS + k] = item[k].id;
            c->buf[SAMPLE_TOP].want[m * OPS_TOP_LOGPROBS + k] = item[k].z - log(sum);
        }
        free(item);
    }
}

/* ---- draft_select ------------------------------------------------------------------------- */

enum {
    SELECT_IDS = OP_ROWS_N,
    SELECT_VALS,
    SELECT_R,
    SELECT_ANCHOR,
    SELECT_POS,
    SELECT_N,
    SELECT_PROPOSALS,
    SELECT_VERIFY,
    SELECT_POLICY
};

static inline status select_run(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w)
{
    const select_case *p = c->param;
    draft_select_args a = {.ids = d[SELECT_IDS],
                           .vals = d[SELECT_VALS],
                           .r = d[SELECT_R],
                           .anchor = d[SELECT_ANCHOR],
                           .anchor_pos = d[SELECT_POS],
                           .lane_slot = d[OP_LANE_SLOT],
                           .lane_row = d[OP_LANE_ROW],
                           .n_draft = d[SELECT_N],
                           .lanes = policy_lanes(d + SELECT_POLICY),
                           .proposals = d[SELECT_PROPOSALS],
                           .verify_ids = d[SELECT_VERIFY],
                           .L = c->lanes[0].L,
                           .B = p->B,
                           .k = p->k,
                           .R = p->R,
                           .V = p->V};
    if (p->R > 0) {
        a.pred = &w[0];
        a.succ = &w[1];
    }
    return b->ops->draft_select(b, &a);
}

/* Proposal i (1..) of lane l by the formula, behind path[0..i-1) and the anchor. */
static inline int select_read_one(const op_call *c, int l, int i, const double *path, int other,
                                  bool *doubt)
{
    const select_case *p = c->param;
    int slot = c->lanes[0].lane[l].slot;
    int64_t row = (int64_t)l * (p->B - 1) + i - 1;
    int prev = i == 1 ? op_i32(c, SELECT_ANCHOR)[l] : (int)path[i - 2];
    policy_item item[OPS_TOPK_MAX];
    for (int k = 0; k < p->k; k++) {
        int id = op_i32(c, SELECT_IDS)[row * p->k + k], n_block = 0;
        double score = (double)op_f32(c, SELECT_VALS)[row * p->k + k];
        for (int m = 0; m < p->R; m++) {
            score += read_weight(&c->weight[0], 0, prev, m) *
                     (double)op_f32(c, SELECT_R)[row * p->R + m] *
                     read_weight(&c->weight[1], 0, id, m);
        }
        for (int s = 0; s < i - 1; s++) n_block += (int)path[s] == id;
        score = policy_adjust(c, SELECT_POLICY, slot, p->V, id, score, n_block);
        item[k] = (policy_item){.z = score, .id = id, .place = k};
    }
    return policy_pick(policy_of(c, SELECT_POLICY, slot), item, p->k, op_i32(c, SELECT_POS)[l] + i,
                       other, 1e-5, doubt);
}

/* A near tie, and everything that follows from it. */
static inline bool select_excuse(const op_call *c, int i_buf, int64_t i, int64_t got, int64_t want)
{
    const select_case *p = c->param;
    int l, at, index;
    if (i_buf == SELECT_VERIFY) {
        l = op_row_lane(&c->lanes[0], i, &index);
        at = index;
    } else {
        l = (int)(i / (p->B - 1));
        at = (int)(i % (p->B - 1)) + 1;
    }
    if (at < 1 || at > op_i32(c, SELECT_N)[l] || got < 0 || want < 0) return false;
    double path[OPS_ROWS_MAX];
    for (int k = 1; k <= at; k++) {
        bool doubt = false;
        path[k - 1] = select_read_one(c, l, k, path, -1, NULL);
        for (int other = 0; other < p->k && !doubt; other++) {
            int id = op_i32(c, SELECT_IDS)[((int64_t)l * (p->B - 1) + k - 1) * p->k + other];
            select_read_one(c, l, k, path, id, &doubt);
        }
        if (doubt) return true;
    }
    return false;
}

static inline void select_build(op_call *c, int i, const op_lanes *lanes)
{
    const select_case *p = c->param = &select_cases[i];
    int n = p->B - 1;
    op_lanes own = {.L = p->L, .S = p->L + 3, .stride = 1, .n_blocks = p->L + 3};
    for (int l = 0; l < p->L; l++) {
        own.lane[l] = (op_lane){l, (l + 2) % own.S, 7 * l, 0, 1 + (n + 3 * l) % p->B};
    }
    op_lanes_count(&own);
    c->V = p->V;
    c->run = select_run;
    c->excuse = select_excuse;
    op_add_rows(c, 0, lanes ? lanes : &own);
    op_add(c, "ids", OP_IN, OP_I32, OP_LANE, 0, n * p->k);
    op_add_noise(c, "vals", OP_IN, OP_F32, OP_LANE, 0, n * p->k, 2, 0);
    op_add_noise(c, "r", OP_IN, OP_ACT, OP_LANE, 0, n * p->R, 12, 0);
    op_add(c, "anchor", OP_IN, OP_I32, OP_LANE, 0, 1);
    op_add(c, "anchor_pos", OP_IN, OP_I32, OP_LANE, 0, 1);
    op_add(c, "n_draft", OP_IN, OP_I32, OP_LANE, 0, 1);
    op_add(c, "proposals", OP_OUT, OP_I32, OP_LANE, 0, n);
    op_add(c, "verify_ids", OP_INOUT, OP_I32, OP_ROW, 0, 1);
    policy_add(c, p->V, p->has_counts, OP_IN);
    if (p->R > 0) {
        op_add_weight(c, WEIGHT_TABLE, p->format, 0, p->V, p->R, false);
        op_add_weight(c, WEIGHT_TABLE, p->format, 0, p->V, p->R, false);
    }
    for (int l = 0; l < c->lanes[0].L; l++) {
        const op_lane *lane = &c->lanes[0].lane[l];
        uint64_t s = op_stream(c, SELECT_IDS, l);
        op_i32(c, SELECT_ANCHOR)[l] = (int32_t)(test_random(&s) % (uint64_t)p->V);
        op_i32(c, SELECT_POS)[l] = lane->start + 100;
        op_i32(c, SELECT_N)[l] = lane->n_rows - 1;
        for (int row = 0; row < n; row++) { /* distinct ids, values descending */
            int64_t at = ((int64_t)l * n + row) * p->k;
            int first = (int)(test_random(&s) % (uint64_t)p->V);
            float *vals = op_f32(c, SELECT_VALS) + at;
            for (int k = 0; k < p->k; k++) {
                op_i32(c, SELECT_IDS)[at + k] = (first + k * 7) % p->V;
                if (p->R == 0) vals[k] = rintf(vals[k] / 2); /* ties */
                for (int j = k; j > 0 && vals[j] > vals[j - 1]; j--) {
                    float moved = vals[j];
                    vals[j] = vals[j - 1];
                    vals[j - 1] = moved;
                }
            }
        }
    }
    for (int64_t t = 0; t < c->lanes[0].T; t++) op_i32(c, SELECT_VERIFY)[t] = op_i32(c, OP_IDS)[t];
}

static inline void select_read(op_call *c)
{
    const select_case *p = c->param;
    for (int64_t t = 0; t < c->lanes[0].T; t++) {
        c->buf[SELECT_VERIFY].want[t] = op_i32(c, SELECT_VERIFY)[t];
    }
    for (int l = 0; l < c->lanes[0].L; l++) {
        double *path = c->buf[SELECT_PROPOSALS].want + (int64_t)l * (p->B - 1);
        for (int i = 1; i < p->B; i++) {
            path[i - 1] = -1;
            if (i > op_i32(c, SELECT_N)[l]) continue;
            path[i - 1] = select_read_one(c, l, i, path, -1, NULL);
            c->buf[SELECT_VERIFY].want[op_i32(c, OP_LANE_ROW)[l] + i] = path[i - 1];
        }
    }
}

/* ---- accept ------------------------------------------------------------------------------- */

enum { ACCEPT_V = 40 };
enum { ACCEPT_TOKEN = OP_ROWS_N, ACCEPT_MAX, ACCEPT_N, ACCEPT_EMITTED, ACCEPT_POLICY };

static inline status accept_run(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w)
{
    (void)w;
    accept_args a = {.rows = op_rows(c, 0, d),
                     .token = d[ACCEPT_TOKEN],
                     .max_new = d[ACCEPT_MAX],
                     .lanes = policy_lanes(d + ACCEPT_POLICY),
                     .n_commit = d[ACCEPT_N],
                     .emitted = d[ACCEPT_EMITTED],
                     .V = ACCEPT_V};
    return b->ops->accept(b, &a);
}

static inline void accept_build(op_call *c, int i, const op_lanes *lanes)
{
    const accept_case *p = c->param = &accept_cases[i];
    op_lanes own = op_lanes_parse(p->lanes);
    c->V = ACCEPT_V;
    c->run = accept_run;
    op_add_rows(c, 0, lanes ? lanes : &own);
    op_add(c, "token", OP_IN, OP_I32, OP_ROW, 0, 1);
    op_add(c, "max_new", OP_IN, OP_I32, OP_LANE, 0, 1);
    op_add(c, "n_commit", OP_OUT, OP_I32, OP_LANE, 0, 1);
    op_add(c, "emitted", OP_OUT, OP_I32, OP_LANE, 0, OPS_ROWS_MAX);
    policy_add(c, ACCEPT_V, p->has_counts, OP_INOUT);
    for (int64_t t = 0; t < c->lanes[0].T; t++) { /* 7 of 8 tokens are the next row's id */
        uint64_t s = op_stream(c, ACCEPT_TOKEN, t);
        int index, l = op_row_lane(&c->lanes[0], t, &index);
        bool is_last = l < 0 || t + 1 == op_i32(c, OP_LANE_ROW)[l + 1];
        bool is_hit = test_random(&s) % 8 != 0 && !is_last;
        op_i32(c, ACCEPT_TOKEN)[t] = is_hit ? op_i32(c, OP_IDS)[t + 1]
                                            : (int32_t)(test_random(&s) % ACCEPT_V);
    }
    for (int l = 0; l < c->lanes[0].L; l++) {
        uint64_t s = op_stream(c, ACCEPT_MAX, l);
        op_i32(c, ACCEPT_MAX)[l] = 1 + (int32_t)(test_random(&s) % 24);
        sample_policy *policy = policy_of(c, ACCEPT_POLICY, c->lanes[0].lane[l].slot);
        policy->n_eos = c->lanes[0].lane[l].slot % 4;
        for (int k = 0; k < 8; k++) { /* mostly one of the lane's own ids */
            int n = c->lanes[0].lane[l].n_rows;
            uint64_t x = test_random(&s);
            policy->eos[k] = (int32_t)(x % ACCEPT_V);
            if (n > 0 && x >> 60)
                policy->eos[k] = op_i32(
                    c, OP_IDS)[op_i32(c, OP_LANE_ROW)[l] + (int)((x >> 20) % (uint64_t)n)];
        }
    }
}

/* W2, W4: first the accepted length, then the two cuts. */
static inline void accept_read(op_call *c)
{
    op_buf *counts = &c->buf[ACCEPT_POLICY + POLICY_COUNTS];
    for (int64_t i = 0; i < counts->n; i++) counts->want[i] = ((int32_t *)counts->host)[i];
    for (int l = 0; l < c->lanes[0].L; l++) {
        int r0 = op_i32(c, OP_LANE_ROW)[l], n_rows = c->lanes[0].lane[l].n_rows, n = 0;
        int slot = c->lanes[0].lane[l].slot;
        const sample_policy *p = policy_of(c, ACCEPT_POLICY, slot);
        const int32_t *token = op_i32(c, ACCEPT_TOKEN) + r0, *ids = op_i32(c, OP_IDS) + r0;
        while (n < n_rows - 1 && ids[n + 1] == token[n]) n++;
        n = n_rows > 0 ? n + 1 : 0;
        for (int i = n - 1; i >= 0; i--) {
            for (int k = 0; k < p->n_eos; k++) {
                if (token[i] == p->eos[k]) n = i + 1;
            }
        }
        if (n > op_i32(c, ACCEPT_MAX)[l]) n = op_i32(c, ACCEPT_MAX)[l];
        c->buf[ACCEPT_N].want[l] = n;
        for (int i = 0; i < OPS_ROWS_MAX; i++) {
            c->buf[ACCEPT_EMITTED].want[l * OPS_ROWS_MAX + i] = i < n ? token[i] : -1;
            if (i < n && counts->n > 0) counts->want[slot * ACCEPT_V + token[i]]++;
        }
    }
}

/* ---- count_prompt ------------------------------------------------------------------------- */

enum { COUNT_POLICY = OP_ROWS_N, COUNT_COUNTS = COUNT_POLICY + POLICY_COUNTS };

static inline status count_run(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w)
{
    (void)w;
    count_prompt_args a = {op_rows(c, 0, d), d[COUNT_COUNTS], ACCEPT_V};
    return b->ops->count_prompt(b, &a);
}

static inline void count_build(op_call *c, int i, const op_lanes *lanes)
{
    op_lanes own = op_lanes_parse(accept_cases[i].lanes);
    c->V = ACCEPT_V;
    c->run = count_run;
    op_add_rows(c, 0, lanes ? lanes : &own);
    policy_add(c, ACCEPT_V, true, OP_INOUT);
}

static inline void count_read(op_call *c)
{
    op_buf *counts = &c->buf[COUNT_COUNTS];
    for (int64_t i = 0; i < counts->n; i++) counts->want[i] = ((int32_t *)counts->host)[i];
    for (int64_t t = 0; t < c->lanes[0].T; t++) {
        int index, l = op_row_lane(&c->lanes[0], t, &index);
        if (l < 0) continue;
        double *word = counts->want + c->lanes[0].lane[l].slot * ACCEPT_V + op_i32(c, OP_IDS)[t];
        *word = (int32_t)((uint32_t)(int32_t)*word | 0x80000000u);
    }
}

static const op_entry op_sample[] = {
    {"sample", N_CASES(sample_cases), sample_build, sample_read, false, false},
    {"draft_select", N_CASES(select_cases), select_build, select_read, false, false},
    {"accept", N_CASES(accept_cases), accept_build, accept_read, false, false},
    {"count_prompt", N_CASES(accept_cases), count_build, count_read, false, false},
};

#endif
