#include <string.h>

#include "backend/cpu/cpu_tile_priv.h"
#include "backend/cpu/cpu_topk_priv.h"

/* ---- router ------------------------------------------------------------------------------- */

status cpu_moe_route(backend *b, const moe_route_args *a)
{
    const cpu_kernels *k = cpu_of(b)->k;
    for (int64_t t = 0; t < a->T; t++) {
        float *w = cpu_f32(a->w) + t * a->K, sum = 0;
        cpu_topk_row(k, cpu_f32(a->logits) + t * a->X, a->X, a->K, (int32_t *)a->ids.ptr + t * a->K,
                     w);
        float max = w[0];
        for (int i = 0; i < a->K; i++) w[i] -= max;
        k->exp(w, a->K, w);
        for (int i = 0; i < a->K; i++) sum += w[i];
        for (int i = 0; i < a->K; i++) w[i] /= sum;
    }
    return ERR_OK;
}

/* ---- experts ------------------------------------------------------------------------------ */

/* A use is one (row, place among its K); use u belongs to row u / K. Uses are sorted by expert, so
 * that each expert's panels are read once; place i of that order holds its results in row i of
 * `act` and `down`. The shared expert has rows of its own behind. */
typedef struct {
    cpu_backend *c;
    const moe_ffn_args *a;
    int32_t *first;  /* [X+1] first place of each expert */
    int32_t *active; /* [X] experts that have uses */
    int32_t *use;    /* [T*K] the use at each place */
    int32_t *place;  /* [T*K] its inverse */
    float *act;      /* [T*K, F] */
    float *s_act;    /* [T, shared_F] */
    float *down;     /* [T*K, E] */
    float *s_down;   /* [T, E] */
    float *sigmoid;  /* [T] */
    int n_active, n_pieces;
    cpu_side gate, up, s_gate, s_up, s_sigmoid; /* they meet x */
    cpu_side w_down, w_s_down;                  /* they meet act, s_act */
} moe_job;

static int64_t take(int64_t *at, int64_t n_elements)
{
    int64_t here = *at;
    *at += cpu_align64(n_elements * 4);
    return here;
}

/* Lay the job's arrays out over the shared scratch; returns the bytes they take. */
static int64_t moe_layout(moe_job *j, char *mem, const moe_ffn_args *a)
{
    int64_t at = 0, uses = (int64_t)a->T * a->K;
    int64_t act = take(&at, uses * a->F), s_act = take(&at, (int64_t)a->T * a->shared_F);
    int64_t down = take(&at, uses * a->E), s_down = take(&at, (int64_t)a->T * a->E);
    int64_t sigmoid = take(&at, a->T), first = take(&at, a->X + 1), active = take(&at, a->X);
    int64_t use = take(&at, uses), place = take(&at, uses);
    if (!mem) return at;
    j->act = (float *)(mem + act);
    j->s_act = (float *)(mem + s_act);
    j->down = (float *)(mem + down);
    j->s_down = (float *)(mem + s_down);
    j->sigmoid = (float *)(mem + sigmoid);
    j->first = (int32_t *)(mem + first);
    j->active = (int32_t *)(mem + active);
    j->use = (int32_t *)(mem + use);
    j->place = (int32_t *)(mem + place);
    return at;
}

/* x once for each group size, later the activations of all uses and the shared expert. */
static int64_t moe_quant_elements(const moe_ffn_args *a)
{
    int64_t x = PANEL_GROUPS * cpu_align64((int64_t)a->T * a->E);
    int64_t act = cpu_align64((int64_t)a->T * a->K * a->F) + (int64_t)a->T * a->shared_F;
    return x > act ? x : act;
}

cpu_scratch cpu_moe_scratch(const moe_ffn_args *a)
{
    moe_job unused;
    return (cpu_scratch){.shared = moe_layout(&unused, NULL, a), .q = moe_quant_elements(a)};
}

/* Counting sort of uses by expert; within an expert they stay in row order. */
static void sort_uses(moe_job *j)
{
    const moe_ffn_args *a = j->a;
    const int32_t *ids = cpu_i32(a->ids);
    int n = a->T * a->K;
    memset(j->first, 0, ((size_t)a->X + 1) * sizeof *j->first);
    for (int u = 0; u < n; u++) j->first[ids[u] + 1]++;
    j->n_active = 0;
    for (int e = 0; e < a->X; e++) {
        if (j->first[e + 1]) j->active[j->n_active++] = e;
        j->first[e + 1] += j->first[e];
    }
    for (int u = 0; u < n; u++) {
        int32_t at = j->first[ids[u]]++;
        j->use[at] = u;
        j->place[u] = at;
    }
    for (int e = a->X; e > 0; e--) j->first[e] = j->first[e - 1];
    j->first[0] = 0;
}

/* What one expert has to do: routed ones in the order of `active`, then the shared one. */
typedef struct {
    const cpu_side *gate, *up, *down;
    int64_t e;          /* which of the weight's experts */
    const int32_t *use; /* row i belongs to use[i]; NULL: to row i of x */
    int64_t n_rows;
    float *act;   /* [n_rows, F] */
    float *out;   /* [n_rows, E] */
    int64_t row0; /* its first row among those that `down` reads */
} moe_expert;

static int n_experts(const moe_job *j)
{
    return j->n_active + (j->a->s_gate != NULL);
}

static moe_expert expert_of(const moe_job *j, int i)
{
    const moe_ffn_args *a = j->a;
    if (i == j->n_active)
        return (moe_expert){&j->s_gate, &j->s_up, &j->w_s_down, 0, NULL,
                            a->T,       j->s_act, j->s_down,    0};
    int e = j->active[i];
    int64_t first = j->first[e];
    return (moe_expert){&j->gate,
                        &j->up,
                        &j->w_down,
                        e,
                        j->use + first,
                        j->first[e + 1] - first,
                        j->act + first * a->F,
                        j->down + first * a->E,
                        first};
}

/* gate and up of panel p for all rows of an expert; `next` is what is read after it. */
static void gate_up_panel(const moe_job *j, const moe_expert *x, int64_t p, int64_t next_e,
                          int64_t next_p)
{
    const cpu_side *sides[2] = {x->gate, x->up};
    float out[2][TILE_ROWS * TILE_PANELS * PANEL_N];
    bool is_alike = panel_is_alike(x->gate->format, x->up->format);
    const float *up_out = is_alike ? out[0] + PANEL_N : out[1];
    int64_t F = x->gate->N, n0 = p * PANEL_N;
    int width = F - n0 < PANEL_N ? (int)(F - n0) : PANEL_N, n = (int)x->n_rows;
    for (int i = 0, step = cpu_side_rows(x->gate, n); i < n; i += step) {
        int n_rows = n - i < step ? n - i : step;
        for (int s = 0; s < (is_alike ? 1 : 2); s++) {
            lin_tile t;
            cpu_side_tile(sides[s], &t, out[s]);
            t.n_rows = n_rows;
            t.n_panels = is_alike ? 2 : 1;
            t.panel[0] = cpu_side_panel(sides[s], x->e, p);
            t.panel[1] = cpu_side_panel(x->up, x->e, p);
            if (i + step >= n) {
                t.next[0] = cpu_side_panel(sides[s], next_e, next_p);
                t.next[1] = cpu_side_panel(x->up, next_e, next_p);
            }
            for (int r = 0; r < n_rows; r++)
                cpu_side_row(sides[s], &t, r, x->use ? x->use[i + r] / j->a->K : i + r);
            sides[s]->run(&t);
        }
        x->gate->k->swiglu(out[0], up_out, n_rows, width, x->act + i * F + n0, F);
    }
}

/* sigmoid(x s_sigmoid^T) of every row. */
static void shared_weights(const moe_job *j)
{
    const cpu_side *w = &j->s_sigmoid;
    float tile[TILE_ROWS * TILE_PANELS * PANEL_N];
    lin_tile t;
    cpu_side_tile(w, &t, tile);
    t.n_panels = 1;
    t.panel[0] = cpu_side_panel(w, 0, 0);
    for (int row = 0, step = cpu_side_rows(w, j->a->T); row < j->a->T; row += step) {
        t.n_rows = j->a->T - row < step ? j->a->T - row : step;
        for (int r = 0; r < t.n_rows; r++) cpu_side_row(w, &t, r, row + r);
        w->run(&t);
        for (int r = 0; r < t.n_rows; r++) j->sigmoid[row + r] = tile[r * TILE_PANELS * PANEL_N];
    }
    w->k->sigmoid(j->sigmoid, j->a->T, j->sigmoid);
}

/* What shared_weights takes of a worker's time, in panels of gate and up: it is as long a chain of
 * sums for its one output as a panel's 16 are, and of wider weights. */
enum { SIGMOID_PANELS = 5 };

/* Where a piece of an expert's gate and up begins. The first piece of the shared expert has the
 * sigmoid too, and fewer panels for it. */
static int64_t piece_begin(const moe_job *j, const moe_expert *x, int64_t piece)
{
    int64_t n = x->gate->n_panels, more = x->gate == &j->s_gate ? SIGMOID_PANELS : 0;
    int64_t at = (n + more) * piece / j->n_pieces - more;
    return at > 0 ? at : 0;
}

/* Unit = (piece of the panels, expert), pieces first: with as many pieces as workers each has a
 * run of panels of every expert, which is fair however the rows are spread. */
static void gate_up_units(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const moe_job *j = ctx;
    int n = n_experts(j);
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t piece = unit / n;
        moe_expert x = expert_of(j, (int)(unit % n));
        int64_t from = piece_begin(j, &x, piece), to = piece_begin(j, &x, piece + 1);
        int64_t next_e = unit % n + 1 < j->n_active ? j->active[unit % n + 1] : x.e;
        if (x.gate == &j->s_gate && piece == 0) shared_weights(j);
        for (int64_t p = from; p < to; p++)
            gate_up_panel(j, &x, p, p + 1 < to ? x.e : next_e, p + 1 < to ? p + 1 : from);
    }
}

/* The panels of a tile of an expert's down for all its rows; those of `next` follow. */
static void down_panels(const moe_expert *x, cpu_tile_panels at, const moe_expert *next,
                        cpu_tile_panels next_at)
{
    const cpu_side *w = x->down;
    float tile[TILE_ROWS * TILE_PANELS * PANEL_N];
    lin_tile t;
    cpu_side_tile(w, &t, tile);
    int n = (int)x->n_rows;
    t.n_panels = at.n;
    for (int i = 0; i < at.n; i++) t.panel[i] = cpu_side_panel(w, x->e, at.panel[i]);
    for (int i = 0, step = cpu_side_rows(w, n); i < n; i += step) {
        t.n_rows = n - i < step ? n - i : step;
        for (int r = 0; r < t.n_rows; r++) cpu_side_row(w, &t, r, x->row0 + i + r);
        if (i + step >= n)
            for (int p = 0; p < at.n; p++)
                t.next[p] = cpu_side_panel(next->down, next->e, next_at.panel[p]);
        w->run(&t);
        for (int r = 0; r < t.n_rows; r++)
            for (int p = 0; p < at.n; p++) {
                int64_t n0 = at.panel[p] * PANEL_N;
                int64_t width = w->N - n0 < PANEL_N ? w->N - n0 : PANEL_N;
                memcpy(x->out + (i + r) * w->N + n0, tile + (r * TILE_PANELS + p) * PANEL_N,
                       (size_t)width * sizeof *tile);
            }
    }
}

/* Columns [from, to) of h += sum_k w_k down_k + sigmoid * shared, in the order of ids. */
static void combine_columns(const moe_job *j, int64_t from, int64_t to)
{
    const moe_ffn_args *a = j->a;
    for (int64_t t = 0; t < a->T; t++) {
        float *h = cpu_f32(a->h) + t * a->E;
        const float *w = cpu_f32(a->w) + t * a->K;
        for (int64_t i0 = from; i0 < to; i0 += 64) {
            float sum[64] = {0};
            int64_t n = to - i0 < 64 ? to - i0 : 64;
            for (int k = 0; k < a->K; k++) {
                const float *y = j->down + (int64_t)j->place[t * a->K + k] * a->E + i0;
                for (int64_t i = 0; i < n; i++) sum[i] += w[k] * y[i];
            }
            if (a->s_down) {
                const float *y = j->s_down + t * a->E + i0;
                for (int64_t i = 0; i < n; i++) sum[i] += j->sigmoid[t] * y[i];
            }
            for (int64_t i = 0; i < n; i++) h[i0 + i] += sum[i];
        }
    }
}

/* Unit = a piece of the panels, of all experts; whoever has done it has all of its columns. */
static void down_pieces(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const moe_job *j = ctx;
    for (int64_t piece = begin; piece < end; piece++) {
        int64_t n_panels = j->w_down.n_panels, E = j->a->E;
        int64_t from = n_panels * piece / j->n_pieces, to = n_panels * (piece + 1) / j->n_pieces;
        for (int i = 0, n = n_experts(j); i < n; i++) {
            moe_expert x = expert_of(j, i), other = i + 1 < n ? expert_of(j, i + 1) : x;
            int64_t n_tiles = cpu_side_tiles(from, to);
            for (int64_t p = 0; p < n_tiles; p++) {
                bool is_last = p + 1 == n_tiles;
                const moe_expert *next = is_last ? &other : &x;
                down_panels(&x, cpu_side_pair(x.down, from, to, p, x.n_rows), next,
                            cpu_side_pair(next->down, from, to, is_last ? 0 : p + 1, next->n_rows));
            }
        }
        combine_columns(j, from * PANEL_N, to * PANEL_N < E ? to * PANEL_N : E);
    }
}

static void open_x(moe_job *j)
{
    const moe_ffn_args *a = j->a;
    const dev_weight *w[] = {a->gate, a->up, a->s_gate, a->s_up, a->s_sigmoid};
    cpu_side *sides[] = {&j->gate, &j->up, &j->s_gate, &j->s_up, &j->s_sigmoid};
    int n = a->s_gate ? 5 : 2;
    bool wants[PANEL_GROUPS] = {false};
    cpu_quant quant[PANEL_GROUPS];
    for (int i = 0; i < n; i++) {
        panel_format f = cpu_weight_format(w[i]);
        if (panel_is_int8(f.kind)) wants[panel_group_index(f.group)] = true;
    }
    for (int g = 0; g < PANEL_GROUPS; g++) {
        quant[g] = cpu_quant_at(j->c, g * cpu_align64((int64_t)a->T * a->E), a->E, 64 >> g);
        if (wants[g]) cpu_quant_rows(j->c, cpu_f32(a->x), a->T, quant[g]);
    }
    for (int i = 0; i < n; i++) *sides[i] = cpu_side_of(j->c, w[i], quant, cpu_f32(a->x));
}

/* n rows of activations for a down weight, quantised at `at` in the place of x, which is not
 * needed any more. */
static cpu_side open_act(const moe_job *j, const dev_weight *w, const float *act, int64_t n,
                         int64_t at)
{
    panel_format f = cpu_weight_format(w);
    cpu_quant v = cpu_quant_at(j->c, at, w->K, 64 >> panel_group_index(f.group));
    if (panel_is_int8(f.kind)) cpu_quant_rows(j->c, act, n, v);
    return cpu_side_of(j->c, w, (cpu_quant[PANEL_GROUPS]){v, v, v}, act);
}

status cpu_moe_ffn(backend *b, const moe_ffn_args *a)
{
    cpu_backend *c = cpu_of(b);
    moe_job j = {.c = c, .a = a};
    if (a->T == 0) return ERR_OK;
    cpu_scratch s = cpu_moe_scratch(a);
    TRY(cpu_need(c, "moe_ffn", 0, s.shared, s.q));
    moe_layout(&j, c->shared, a);
    sort_uses(&j);
    open_x(&j);
    int64_t uses = (int64_t)a->T * a->K;
    j.n_pieces = c->n_workers;
    workers_for(c->pool, (int64_t)j.n_pieces * n_experts(&j), 1, gate_up_units, &j);
    j.w_down = open_act(&j, a->down, j.act, uses, 0);
    if (a->s_down) j.w_s_down = open_act(&j, a->s_down, j.s_act, a->T, cpu_align64(uses * a->F));
    workers_for(c->pool, j.n_pieces, 1, down_pieces, &j);
    return ERR_OK;
}
