/* tags: slow */
/* What sampling draws: frequencies against the exact filtered distribution, and the corners of
 * filters and accept with results worked out by hand. */
#include "ops/op_sample.h"

enum { V = 40, LANES = 16, ROWS = 16, M = LANES * ROWS };

/* A sampler over M equal rows of logits on one backend: buffers that live over many calls. */
typedef struct {
    backend *b;
    dev_buf ids, row_lane, row_pos, lane_row, lane_slot, table, row, logits, mask, token, policy,
        bias, counts;
    int32_t host_token[M];
} sampler;

static dev_buf put(backend *b, const void *bytes, int64_t n)
{
    err e = {0};
    dev_buf d;
    CHECK_OK(b->ops->alloc(b, n, &d, &e), &e);
    if (bytes) CHECK_OK(b->ops->upload(b, d, bytes, n), &b->last);
    return d;
}

static void sampler_open(sampler *s, backend *b)
{
    int32_t lane_of[M], row[M], first[LANES + 1], slot[LANES], zero[M] = {0};
    for (int m = 0; m < M; m++) {
        lane_of[m] = m / ROWS;
        row[m] = m;
    }
    for (int l = 0; l <= LANES; l++) first[l] = l * ROWS;
    for (int l = 0; l < LANES; l++) slot[l] = LANES - 1 - l;
    *s = (sampler){.b = b};
    s->ids = put(b, zero, sizeof zero);
    s->row_lane = put(b, lane_of, sizeof lane_of);
    s->row_pos = put(b, NULL, sizeof zero);
    s->lane_row = put(b, first, sizeof first);
    s->lane_slot = put(b, slot, sizeof slot);
    s->table = put(b, slot, sizeof slot);
    s->row = put(b, row, sizeof row);
    s->logits = put(b, NULL, (int64_t)M * V * 4);
    s->mask = put(b, NULL, (int64_t)M * ((V + 31) / 32) * 4);
    s->token = put(b, NULL, sizeof zero);
    s->policy = put(b, NULL, LANES * sizeof(sample_policy));
    s->bias = put(b, NULL, (int64_t)LANES * OPS_BIAS_MAX * sizeof(sample_bias));
    s->counts = put(b, NULL, (int64_t)LANES * V * 4);
}

static void sampler_close(sampler *s)
{
    dev_buf *all[] = {&s->ids,    &s->row_lane, &s->row_pos, &s->lane_row, &s->lane_slot,
                      &s->table,  &s->row,      &s->logits,  &s->mask,     &s->token,
                      &s->policy, &s->bias,     &s->counts};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) s->b->ops->release(s->b, all[i]);
}

/* The same logits, mask and settings in each row; seeds differ by lane. */
static void sampler_set(sampler *s, const float *logits, const uint32_t *mask,
                        const sample_policy *p, const sample_bias *bias, const uint32_t *counts)
{
    for (int64_t m = 0; m < M; m++) {
        s->b->ops->upload(s->b, dev_buf_at(s->logits, m * V * 4), logits, V * 4);
        if (mask) s->b->ops->upload(s->b, dev_buf_at(s->mask, m * 8), mask, 8);
    }
    for (int64_t l = 0; l < LANES; l++) {
        sample_policy own = *p;
        own.seed += (uint64_t)l * 77;
        own.has_mask = mask != NULL;
        int64_t at = l * OPS_BIAS_MAX * (int64_t)sizeof *bias;
        s->b->ops->upload(s->b, dev_buf_at(s->policy, l * (int64_t)sizeof own), &own, sizeof own);
        s->b->ops->upload(s->b, dev_buf_at(s->bias, at), bias, p->n_bias * (int64_t)sizeof *bias);
        s->b->ops->upload(s->b, dev_buf_at(s->counts, l * V * 4), counts, V * 4);
    }
}

/* Rows of each lane at positions pos .. pos + ROWS. */
static void sampler_draw(sampler *s, int pos)
{
    int32_t row_pos[M];
    for (int m = 0; m < M; m++) row_pos[m] = pos + m % ROWS;
    s->b->ops->upload(s->b, s->row_pos, row_pos, sizeof row_pos);
    ops_rows rows = {.T = M,
                     .L = LANES,
                     .max_rows = ROWS,
                     .max_len = pos + ROWS,
                     .ids = s->ids,
                     .row_lane = s->row_lane,
                     .row_pos = s->row_pos,
                     .lane_row = s->lane_row,
                     .lane_slot = s->lane_slot,
                     .table = s->table,
                     .table_stride = 1};
    sample_args a = {.logits = s->logits,
                     .row = s->row,
                     .rows = rows,
                     .lanes = {s->policy, s->bias, s->counts},
                     .mask = s->mask,
                     .token = s->token,
                     .M = M,
                     .V = V,
                     .is_prompt = true};
    CHECK_OK(s->b->ops->sample(s->b, &a), &s->b->last);
    CHECK_OK(s->b->ops->download(s->b, s->host_token, s->token, sizeof s->host_token), &s->b->last);
}

/* ---- the law ------------------------------------------------------------------------------ */

/* The exact probability of each id: adjusted, filtered, softmax over the survivors. */
static void exact_law(const float *logits, const uint32_t *mask, const sample_policy *p,
                      const sample_bias *bias, const uint32_t *counts, double *law)
{
    policy_item item[V];
    double sum = 0;
    for (int id = 0; id < V; id++) {
        double y = (double)logits[id], count = counts[id] & 0x7fffffffu;
        if (mask && !(mask[id / 32] >> (id % 32) & 1)) y = -INFINITY;
        for (int i = 0; i < p->n_bias; i++) y += bias[i].id == id ? (double)bias[i].value : 0;
        if (counts[id] != 0) {
            y = y > 0 ? y / (double)p->repetition : y * (double)p->repetition;
        }
        y -= count * (double)p->frequency + (count > 0 ? (double)p->presence : 0);
        item[id] = (policy_item){.z = y / (double)p->temperature, .id = id, .place = id};
    }
    policy_filter(p, item, V);
    memset(law, 0, V * sizeof *law);
    for (int i = 0; i < V; i++) sum += item[i].is_kept ? exp(item[i].z) : 0;
    for (int i = 0; i < V; i++) law[item[i].id] = item[i].is_kept ? exp(item[i].z) / sum : 0;
}

/* Chi-square of counts against n * law; ids with few expected draws share one cell. */
static void check_law(const int *n_drawn, int n, const double *law, const char *name)
{
    double chi2 = 0, rest_want = 0, rest_got = 0;
    int n_cells = 0;
    for (int id = 0; id < V; id++) {
        double want = n * law[id];
        if (law[id] == 0 && n_drawn[id] > 0) fail_msg("%s: id %d is filtered but drawn", name, id);
        if (want < 8) {
            rest_want += want;
            rest_got += n_drawn[id];
            continue;
        }
        chi2 += (n_drawn[id] - want) * (n_drawn[id] - want) / want;
        n_cells++;
    }
    if (rest_want >= 8) {
        chi2 += (rest_got - rest_want) * (rest_got - rest_want) / rest_want;
        n_cells++;
    }
    int k = n_cells - 1;
    if (k < 1) return;
    /* Wilson and Hilferty: exceeded once in about three million times (5 sigma) */
    double root = 1 - 2.0 / (9 * k) + 5 * sqrt(2.0 / (9 * k));
    double most = k * root * root * root;
    print_message("%-24s %6d draws, chi2 %6.1f of %d cells, bound %.1f\n", name, n, chi2, n_cells,
                  most);
    assert_true(chi2 <= most);
}

static const struct {
    const char *name;
    sample_policy p;
    bool has_mask, has_counts;
} laws[] = {
    {"temperature 1", {.temperature = 1, .top_p = 1, .repetition = 1}, false, false},
    {"temperature 2.5", {.temperature = 2.5f, .top_p = 1, .repetition = 1}, false, false},
    {"top_k 5", {.temperature = 0.8f, .top_p = 1, .top_k = 5, .repetition = 1}, false, false},
    {"top_p 0.7", {.temperature = 1.2f, .top_p = 0.7f, .repetition = 1}, false, false},
    {"min_p 0.1, masked",
     {.temperature = 1.5f, .top_p = 1, .min_p = 0.1f, .repetition = 1},
     true,
     false},
    {"everything",
     {.temperature = 1.3f,
      .top_p = 0.9f,
      .top_k = 20,
      .min_p = 0.01f,
      .repetition = 1.3f,
      .presence = 0.4f,
      .frequency = 0.2f,
      .n_bias = 3,
      .choice = 2},
     true,
     true},
};

TEST(frequencies_follow_the_filtered_distribution)
{
    op_backends *all = op_all();
    for (int k = 0; k < all->n; k++) {
        uint64_t s = test_seed();
        sampler sam;
        sampler_open(&sam, all->pair[k].one);
        int n_calls = k == 0 ? 100000 / M + 1 : 20000 / M;
        for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
            float logits[V];
            uint32_t counts[V] = {0}, mask[2] = {0xfff3cf7fu, 0xdf};
            sample_bias bias[3] = {{3, 1}, {17, -2}, {39, 0.5f}};
            sample_policy p = laws[i].p;
            double law[V];
            int n_drawn[V] = {0};
            p.seed = test_random(&s);
            for (int id = 0; id < V; id++) {
                logits[id] = (float)(op_noise(&s) * 1.5);
                if (laws[i].has_counts && id % 3 == 0) counts[id] = (uint32_t)(id % 4);
                if (laws[i].has_counts && id % 5 == 0) counts[id] |= SAMPLE_IN_PROMPT;
            }
            const uint32_t *the_mask = laws[i].has_mask ? mask : NULL;
            sampler_set(&sam, logits, the_mask, &p, bias, counts);
            exact_law(logits, the_mask, &p, bias, counts, law);
            for (int call = 0; call < n_calls; call++) {
                sampler_draw(&sam, call * ROWS);
                for (int m = 0; m < M; m++) n_drawn[sam.host_token[m]]++;
            }
            if (k == 0)
                check_law(n_drawn, n_calls * M, law, laws[i].name);
            else
                check_law(n_drawn, n_calls * M, law, all->pair[k].name);
        }
        sampler_close(&sam);
    }
}

TEST(tokens_at_neighbouring_positions_are_independent)
{
    enum { IDS = 5 };
    sampler sam;
    uint64_t s = test_seed() + 1;
    int pairs[IDS][IDS] = {{0}}, n = 0, ones[IDS] = {0};
    float logits[V];
    uint32_t counts[V] = {0};
    sample_bias bias[1] = {{0, 0}};
    sample_policy p = {.temperature = 1, .top_p = 1, .repetition = 1, .seed = test_random(&s)};
    for (int id = 0; id < V; id++) logits[id] = id < IDS ? (float)(op_noise(&s) * 0.5) : -1e4f;
    sampler_open(&sam, op_all()->pair[0].one);
    sampler_set(&sam, logits, NULL, &p, bias, counts);
    for (int call = 0; call < 200; call++) {
        sampler_draw(&sam, call * ROWS);
        for (int m = 0; m + 1 < M; m++) {
            if (m % ROWS == ROWS - 1) continue;
            pairs[sam.host_token[m]][sam.host_token[m + 1]]++;
            ones[sam.host_token[m]]++;
            n++;
        }
    }
    sampler_close(&sam);
    double chi2 = 0;
    for (int i = 0; i < IDS; i++) {
        for (int j = 0; j < IDS; j++) {
            double want = (double)ones[i] * ones[j] / n;
            chi2 += (pairs[i][j] - want) * (pairs[i][j] - want) / want;
        }
    }
    print_message("%d pairs, chi2 %.1f with about 16 degrees of freedom\n", n, chi2);
    assert_true(chi2 < 62); /* 5 sigma for 16; both margins come from the same draws */
}

/* ---- corners ------------------------------------------------------------------------------ */

/* The ids that appear in 256 draws from these logits under p, as a string of letters. */
static const char *drawn(const float *logits, sample_policy p)
{
    static char out[V + 1];
    float row[V];
    uint32_t counts[V] = {0};
    sample_bias bias[1] = {{0, 0}};
    bool seen[V] = {false};
    sampler sam;
    int n = 0;
    for (int id = 0; id < V; id++) row[id] = id < 6 ? logits[id] : -1e30f;
    p.repetition = 1;
    sampler_open(&sam, op_all()->pair[0].one);
    sampler_set(&sam, row, NULL, &p, bias, counts);
    for (int call = 0; call < 8; call++) {
        sampler_draw(&sam, call * ROWS);
        for (int m = 0; m < M; m++) seen[sam.host_token[m]] = true;
    }
    sampler_close(&sam);
    for (int id = 0; id < V; id++) {
        if (seen[id]) out[n++] = (char)('a' + id);
    }
    out[n] = 0;
    return out;
}

TEST(filters_cut_where_the_rules_say)
{
    static const float equal[6] = {1, 1, 1, 1, 1, 1}, mixed[6] = {0, 1, 1, 1, 0, -1};
    /* probabilities 0.4 0.3 0.2 0.05 0.03 0.02 */
    float falling[6];
    static const double prob[6] = {0.4, 0.3, 0.2, 0.05, 0.03, 0.02};
    for (int i = 0; i < 6; i++) falling[i] = (float)log(prob[i]);
    const sample_policy base = {.temperature = 1, .top_p = 1, .seed = test_seed()};
    sample_policy p = base;
    assert_string_equal(drawn(equal, p), "abcdef");
    p.top_k = 2; /* among equals the lower ids stay */
    assert_string_equal(drawn(equal, p), "ab");
    assert_string_equal(drawn(mixed, p), "bc");
    p.top_k = 4;
    assert_string_equal(drawn(mixed, p), "abcd");
    p = base;
    p.top_p = 0.69f;
    assert_string_equal(drawn(falling, p), "ab");
    p.top_p = 0.71f;
    assert_string_equal(drawn(falling, p), "abc");
    p.top_p = 1e-6f; /* at least one survives */
    assert_string_equal(drawn(falling, p), "a");
    p.top_p = 0.71f;
    p.top_k = 3; /* of the renormalised 4/9 3/9 2/9 the first two hold 0.78 */
    assert_string_equal(drawn(falling, p), "ab");
    p = base;
    p.min_p = 0.49f;
    assert_string_equal(drawn(falling, p), "abc");
    p.min_p = 0.51f;
    assert_string_equal(drawn(falling, p), "ab");
    p.temperature = 0.5f; /* the filters see 16 9 4 .. : min_p 0.51 leaves 16 and 9 */
    assert_string_equal(drawn(falling, p), "ab");
    p.min_p = 0.6f;
    assert_string_equal(drawn(falling, p), "a");
    p = base;
    p.temperature = 0; /* greedy, ties to the lower id, before any filter */
    assert_string_equal(drawn(mixed, p), "b");
}

/* One lane of n rows with these ids and tokens; returns "n: emitted". */
static const char *accepted(const char *ids, const char *tokens, const char *eos, int max_new)
{
    static char out[64];
    backend *b = op_all()->pair[0].one;
    int n = (int)strlen(tokens);
    int32_t id[OPS_ROWS_MAX], token[OPS_ROWS_MAX], lane_row[2] = {0, n}, slot = 0, n_commit = -7;
    int32_t emitted[OPS_ROWS_MAX], zero[OPS_ROWS_MAX] = {0};
    uint32_t counts[26] = {0};
    sample_policy p = {.n_eos = (int32_t)strlen(eos)};
    for (int i = 0; i < p.n_eos; i++) p.eos[i] = eos[i] - 'a';
    for (int i = 0; i < n; i++) {
        id[i] = ids[i] - 'a';
        token[i] = tokens[i] - 'a';
    }
    dev_buf d[10] = {put(b, id, 4 * n),
                     put(b, token, 4 * n),
                     put(b, lane_row, 8),
                     put(b, &slot, 4),
                     put(b, &max_new, 4),
                     put(b, &p, sizeof p),
                     put(b, counts, sizeof counts),
                     put(b, &n_commit, 4),
                     put(b, NULL, sizeof emitted),
                     put(b, zero, sizeof zero)};
    accept_args a = {.rows = {.T = n,
                              .L = 1,
                              .max_rows = n,
                              .max_len = n,
                              .ids = d[0],
                              .row_lane = d[9],
                              .row_pos = d[9],
                              .lane_row = d[2],
                              .lane_slot = d[3]},
                     .token = d[1],
                     .max_new = d[4],
                     .lanes = {.policy = d[5], .counts = d[6]},
                     .n_commit = d[7],
                     .emitted = d[8],
                     .V = 26};
    CHECK_OK(b->ops->accept(b, &a), &b->last);
    b->ops->download(b, &n_commit, d[7], 4);
    b->ops->download(b, emitted, d[8], sizeof emitted);
    b->ops->download(b, counts, d[6], sizeof counts);
    for (int i = 0; i < 10; i++) b->ops->release(b, &d[i]);
    int at = snprintf(out, sizeof out, "%d: ", n_commit), total = 0;
    for (int i = 0; i < n_commit; i++) out[at++] = (char)('a' + emitted[i]);
    out[at] = 0;
    for (int i = 0; i < 26; i++) total += (int)counts[i];
    assert_int_equal(total, n_commit);
    for (int i = n_commit; i < OPS_ROWS_MAX; i++) assert_int_equal(emitted[i], -1);
    return out;
}

TEST(accept_keeps_the_longest_right_prefix_and_one_more)
{
    assert_string_equal(accepted("x", "q", "", 99), "1: q");           /* no proposal */
    assert_string_equal(accepted("xabc", "abcd", "", 99), "4: abcd");  /* all, and the bonus */
    assert_string_equal(accepted("xabc", "abdd", "", 99), "3: abd");   /* the third is corrected */
    assert_string_equal(accepted("xabc", "zbcd", "", 99), "1: z");     /* the first is wrong */
    assert_string_equal(accepted("xabc", "abcd", "b", 99), "2: ab");   /* ends inside */
    assert_string_equal(accepted("xabc", "abcd", "d", 99), "4: abcd"); /* ends on the bonus */
    assert_string_equal(accepted("xabc", "abzb", "b", 99), "2: ab");   /* ends before the miss */
    assert_string_equal(accepted("xabc", "abzc", "c", 99), "3: abz");  /* behind the cut: no end */
    assert_string_equal(accepted("xabc", "abcd", "", 1), "1: a");      /* limit of one */
    assert_string_equal(accepted("xabc", "abcd", "", 3), "3: abc");
    assert_string_equal(accepted("xabc", "abcd", "c", 2), "2: ab");    /* limit before the end */
    assert_string_equal(accepted("xaaa", "aaaa", "dcba", 99), "1: a"); /* any of several ends */
}
