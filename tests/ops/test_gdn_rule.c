/* tags: slow */
/* The delta rule as a whole: prep and scan over a long prompt, cut in any way, verified and
 * committed, and against the chunked form of the rule (model-spec G7). */
#include "ops/op_rule.h"

enum { N_ROWS = 150, CUTS_MAX = 8, CHUNK = 64 };

/* One lane of N_ROWS rows; `cut` holds the lengths of the calls, the last of which may be a
 * verify pass whose first rows alone are committed. */
typedef struct {
    int n_cuts, cut[CUTS_MAX];
    int n_verify; /* 0, or rows of one more, uncommitted pass behind the cuts */
} plan;

enum { CHAIN_LANE_ROW = RULE_N, CHAIN_COMMIT };

static const gdn_case shape = {"150@0", 2, 6, 128, 128};
static const plan *the_plan;

static ops_rows cut_rows(const backend *b, const op_call *c, const dev_buf *d, int k, int from,
                         int n)
{
    ops_rows r = op_rows(c, 0, d);
    r.T = r.max_rows = n;
    r.ids = rule_rows_from(b, c, d, OP_IDS, from);
    r.row_lane = rule_rows_from(b, c, d, OP_ROW_LANE, from);
    r.row_pos = rule_rows_from(b, c, d, OP_ROW_POS, from);
    r.lane_row = dev_buf_at(d[CHAIN_LANE_ROW], 8 * k);
    return r;
}

static status run_cut(backend *b, const op_call *c, const dev_buf *d, int k, int from, int n,
                      bool is_verify)
{
    gdn_prep_args p = rule_prep_args(b, c, d, &shape, from, cut_rows(b, c, d, k, from, n));
    gdn_scan_args s = rule_scan_args(b, c, d, &p, from, !is_verify);
    TRY(b->ops->gdn_prep(b, &p));
    TRY(b->ops->gdn_scan(b, &s));
    if (!is_verify) return ERR_OK;
    gdn_commit_args m = {.qkv = p.qkv,
                         .g = p.g,
                         .beta = p.beta,
                         .p = p.p,
                         .state = s.state,
                         .conv_state = s.conv_state,
                         .rows = p.rows,
                         .n_commit = dev_buf_at(d[CHAIN_COMMIT], 4 * k),
                         .Hk = shape.Hk,
                         .Hv = shape.Hv,
                         .dk = shape.dk,
                         .dv = shape.dv};
    return b->ops->gdn_commit(b, &m);
}

/* Each cut is a call of its own. With n_verify, each cut is a verify pass that runs n_verify
 * rows further and commits the cut alone. */
static status chain_run(backend *b, const op_call *c, const dev_buf *d, const dev_weight *w)
{
    (void)w;
    int from = 0;
    for (int k = 0; k < the_plan->n_cuts; k++) {
        int n = the_plan->cut[k], more = the_plan->n_verify;
        if (from + n + more > N_ROWS) more = N_ROWS - from - n;
        TRY(run_cut(b, c, d, k, from, n + more, the_plan->n_verify > 0));
        from += n;
    }
    return ERR_OK;
}

static void chain_build(op_call *c, int i, const op_lanes *lanes)
{
    op_lanes own = op_lanes_parse(shape.lanes);
    (void)i;
    (void)lanes;
    c->param = &shape;
    c->run = chain_run;
    op_add_rows(c, 0, &own);
    rule_add(c, &shape, false);
    op_add(c, "lane_rows", OP_IN, OP_I32, OP_WHOLE, 0, 2 * CUTS_MAX);
    op_add(c, "n_commit", OP_IN, OP_I32, OP_WHOLE, 0, CUTS_MAX);
    for (int k = 0, from = 0; k < the_plan->n_cuts; from += the_plan->cut[k++]) {
        int n = the_plan->cut[k] + the_plan->n_verify;
        op_i32(c, CHAIN_LANE_ROW)[2 * k + 1] = from + n > N_ROWS ? N_ROWS - from : n;
        op_i32(c, CHAIN_COMMIT)[k] = the_plan->cut[k];
    }
}

static const op_entry chain = {"gdn chain", 1, chain_build, NULL, false, false};

static op_result run_plan(op_call *c, backend *b, const plan *p)
{
    the_plan = p;
    op_begin(c, &chain, 0, test_seed(), NULL);
    return op_run(b, c);
}

static const plan at_once = {1, {N_ROWS}, 0};

TEST(cutting_a_prompt_changes_no_bit)
{
    static const plan plans[] = {
        {2, {149, 1}, 0}, {4, {1, 63, 64, 22}, 0}, {6, {2, 3, 1, 1, 80, 63}, 0}, {2, {64, 86}, 0}};
    op_backends *all = op_all();
    for (int k = 0; k < all->n; k++) {
        op_call c, cut;
        op_result whole = run_plan(&c, all->pair[k].one, &at_once);
        for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
            op_result r = run_plan(&cut, all->pair[k].two, &plans[i]);
            op_same_bits(&c, &whole, &cut, &r, false, "when the prompt is cut");
            arena_fini(&cut.mem);
        }
        arena_fini(&c.mem);
    }
}

TEST(verify_and_commit_leave_the_bits_that_a_prompt_leaves)
{
    /* 8 rows a pass of which 1 to 8 stand; the passes end on the same row as the prompt does */
    static const plan passes = {8, {1, 8, 3, 5, 2, 8, 4, 7}, 7};
    static const plan prompt = {1, {38}, 0};
    op_backends *all = op_all();
    for (int k = 0; k < all->n; k++) {
        op_call c, v;
        op_result whole = run_plan(&c, all->pair[k].one, &prompt);
        op_result r = run_plan(&v, all->pair[k].two, &passes);
        int64_t act = op_dev_size(OP_ACT, r.act), size = c.buf[RULE_OUT].unit * act;
        for (int i = RULE_STATE; i <= RULE_CONV; i++) {
            int64_t n = op_bytes(&c.buf[i], r.act);
            assert_memory_equal(r.after[i], whole.after[i], (size_t)n);
        }
        assert_memory_equal(r.after[RULE_OUT], whole.after[RULE_OUT], (size_t)(38 * size));
        arena_fini(&v.mem);
        arena_fini(&c.mem);
    }
}

/* ---- the chunked rule --------------------------------------------------------------------- */

/* One chunk of n rows of one head (G7). k, q [n, dk], v [n, dv] as doubles; S [dk, dv] moves on;
 * o [n, dv]. */
typedef struct {
    int n, dk, dv;
    double q[CHUNK][128], k[CHUNK][128], v[CHUNK][128], g[CHUNK], beta[CHUNK];
    double u[CHUNK][128], w[CHUNK][128], o[CHUNK][128];
} chunk;

static double dot(const double *a, const double *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static void chunk_step(chunk *c, double *S)
{
    double gamma[CHUNK], sum = 0;
    for (int i = 0; i < c->n; i++) gamma[i] = sum += c->g[i];
    /* (I + L) U = V beta and (I + L) W = e^gamma K beta, by forward substitution */
    for (int i = 0; i < c->n; i++) {
        for (int d = 0; d < c->dv; d++) c->u[i][d] = c->beta[i] * c->v[i][d];
        for (int d = 0; d < c->dk; d++) c->w[i][d] = exp(gamma[i]) * c->beta[i] * c->k[i][d];
        for (int j = 0; j < i; j++) {
            double l = c->beta[i] * dot(c->k[i], c->k[j], c->dk) * exp(gamma[i] - gamma[j]);
            for (int d = 0; d < c->dv; d++) c->u[i][d] -= l * c->u[j][d];
            for (int d = 0; d < c->dk; d++) c->w[i][d] -= l * c->w[j][d];
        }
    }
    for (int i = 0; i < c->n; i++) { /* V' = U - W S, in place of U */
        for (int a = 0; a < c->dk; a++) {
            for (int d = 0; d < c->dv; d++) c->u[i][d] -= c->w[i][a] * S[a * c->dv + d];
        }
    }
    for (int i = 0; i < c->n; i++) {
        for (int d = 0; d < c->dv; d++) c->o[i][d] = 0;
        for (int a = 0; a < c->dk; a++) {
            for (int d = 0; d < c->dv; d++) {
                c->o[i][d] += exp(gamma[i]) * c->q[i][a] * S[a * c->dv + d];
            }
        }
        for (int j = 0; j <= i; j++) {
            double s = dot(c->q[i], c->k[j], c->dk) * exp(gamma[i] - gamma[j]);
            for (int d = 0; d < c->dv; d++) c->o[i][d] += s * c->u[j][d];
        }
    }
    double last = gamma[c->n - 1];
    for (int x = 0; x < c->dk * c->dv; x++) S[x] *= exp(last);
    for (int i = 0; i < c->n; i++) {
        for (int x = 0; x < c->dk * c->dv; x++) {
            S[x] += exp(last - gamma[i]) * c->k[i][x / c->dv] * c->u[i][x % c->dv];
        }
    }
}

/* Fill a chunk from what ref's prep wrote: rows from .. from + n of value head h. */
static void chunk_load(chunk *k, const op_call *c, const op_result *r, int from, int n, int h)
{
    int C = gdn_channels(&shape), dk = shape.dk, dv = shape.dv, hk = h / (shape.Hv / shape.Hk);
    k->n = n;
    k->dk = dk;
    k->dv = dv;
    for (int i = 0; i < n; i++) {
        int64_t row = from + i, at = row * C;
        for (int d = 0; d < dk; d++) {
            k->q[i][d] = op_value(r, c, RULE_QKV, at + hk * dk + d);
            k->k[i][d] = op_value(r, c, RULE_QKV, at + (shape.Hk + hk) * dk + d);
        }
        for (int d = 0; d < dv; d++) {
            k->v[i][d] = op_value(r, c, RULE_QKV, at + 2 * shape.Hk * dk + h * dv + d);
        }
        k->g[i] = op_value(r, c, RULE_G, row * shape.Hv + h);
        k->beta[i] = op_value(r, c, RULE_BETA, row * shape.Hv + h);
    }
}

TEST(the_chunked_rule_gives_what_ref_gives_position_by_position)
{
    op_call c;
    op_result r = run_plan(&c, op_all()->pair[0].one, &at_once);
    chunk *k = op_new(&c, 1, sizeof *k);
    double *want = op_new(&c, c.buf[RULE_OUT].n, sizeof *want);
    for (int h = 0; h < shape.Hv; h++) {
        double *S = op_new(&c, (int64_t)shape.dk * shape.dv, sizeof *S);
        for (int from = 0; from < N_ROWS; from += CHUNK) {
            chunk_load(k, &c, &r, from, N_ROWS - from < CHUNK ? N_ROWS - from : CHUNK, h);
            chunk_step(k, S);
            for (int i = 0; i < k->n; i++) {
                int64_t at = ((int64_t)(from + i) * shape.Hv + h) * shape.dv;
                read_rmsnorm(k->o[i], op_f32(&c, RULE_NORM), 1e-6, shape.dv);
                for (int d = 0; d < shape.dv; d++) {
                    double z = (double)op_f32(&c, RULE_Z)[at + d];
                    want[at + d] = k->o[i][d] * z * read_sigmoid(z);
                }
            }
        }
    }
    double distance = op_distance(&c, RULE_OUT, &r, NULL, want);
    print_message("ref to the chunked rule in double over %d rows: %.1e\n", N_ROWS, distance);
    assert_true(distance < 2e-6);
    arena_fini(&c.mem);
}
