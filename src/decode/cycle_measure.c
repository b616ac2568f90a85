/* What cycles cost on this model, backend and machine: a few of them, timed. */
#include "base/clock.h"
#include "decode/cycle_priv.h"
#include "decode/width.h"

/* A point is run again until it took POINT_MS or RUNS_MOST runs: at least RUNS_LEAST times, as any
 * of them may be held up; twice when they took SLOW_MS, as the first captures a graph, or meets
 * cold caches; once when that took VERY_SLOW_MS. Points that can be done without are left out once
 * ENOUGH_MS are spent. */
static const double WARM_MS = 15, POINT_MS = 12, SLOW_MS = 150, VERY_SLOW_MS = 600, ENOUGH_MS = 150;
enum { RUNS_LEAST = 3, RUNS_MOST = 12 };
/* Lanes that are measured where memory is the machine's: each takes its states and the draft's keys
 * and values into use, and beyond so many the curves go on as a line. */
enum { HOST_LANES_MOST = 4 };

typedef struct {
    cycle *c;
    width_costs *out;
    int64_t from_ns;
    int done[64], n_done; /* lanes * 16 + width */
    int n_slots;          /* that were used */
} meter;

/* Lanes at position 0, each in a block of its own, with different tokens. */
static void fill_lanes(const cycle *c, int L, int width, cycle_lane *lanes)
{
    for (int l = 0; l < L; l++)
        lanes[l] = (cycle_lane){.slot = l,
                                .anchor = (l * 7919 + 13) % c->files.target.V,
                                .n_draft = width,
                                .max_new = width + 1};
}

/* Milliseconds of a whole cycle without proposals, or of the halves of one with some. */
typedef struct {
    double plain, verify, pass;
} point;

static double least(double a, double b)
{
    return a < b ? a : b;
}

static status run_once(cycle *c, const cycle_lane *lanes, int L, point *out)
{
    static const double none = 1e300;
    cycle_result results[64];
    int64_t from = clock_ns();
    *out = (point){none, none, none};
    if (lanes[0].n_draft == 0) {
        TRY(cycle_step(c, lanes, L, results));
        out->plain = clock_ms_since(from);
        return ERR_OK;
    }
    TRY(cycle_run_half(c, lanes, L, CYCLE_DRAFT));
    out->pass = clock_ms_since(from);
    from = clock_ns();
    TRY(cycle_run_half(c, lanes, L, CYCLE_VERIFY));
    out->verify = clock_ms_since(from);
    return ERR_OK;
}

/* The least of some runs. */
static status run_point(cycle *c, int L, int width, point *out)
{
    cycle_lane lanes[64];
    int64_t from = clock_ns();
    fill_lanes(c, L, width, lanes);
    for (int run = 0; run < RUNS_MOST; run++) {
        point p;
        TRY(run_once(c, lanes, L, &p));
        *out = run == 0 ? p
                        : (point){least(p.plain, out->plain), least(p.verify, out->verify),
                                  least(p.pass, out->pass)};
        double spent = clock_ms_since(from);
        double enough = run == 0 ? VERY_SLOW_MS : run + 1 < RUNS_LEAST ? SLOW_MS : POINT_MS;
        if (spent > enough) return ERR_OK;
    }
    return ERR_OK;
}

static bool is_new(meter *m, int L, int width)
{
    int key = L * 16 + width;
    for (int i = 0; i < m->n_done; i++)
        if (m->done[i] == key) return false;
    m->done[m->n_done++] = key;
    return true;
}

/* One point of every curve it belongs to. */
static status measure(meter *m, int L, int width)
{
    point p;
    width_costs *o = m->out;
    if (L > m->c->opt.n_slots || width > o->max_draft || !is_new(m, L, width)) return ERR_OK;
    if (L > m->n_slots) m->n_slots = L;
    TRY(run_point(m->c, L, width, &p));
    if (width == 0) {
        width_curve_add(&o->plain, L, p.plain);
        return ERR_OK;
    }
    width_curve_add(&o->verify, (double)L * (width + 1), p.verify);
    if (width == 1) width_curve_add(&o->draft_one, L, p.pass);
    if (width == o->max_draft) width_curve_add(&o->draft_all, L, p.pass);
    return ERR_OK;
}

static bool has_time(const meter *m)
{
    return clock_ms_since(m->from_ns) < ENOUGH_MS;
}

static status give_blocks(cycle *c)
{
    for (int l = 0; l < c->opt.n_slots; l++) {
        int32_t block = (int32_t)(l % c->opt.n_blocks);
        TRY(cycle_set_blocks(c, l, 0, &block, 1));
        sample_policy greedy = {.temperature = 0, .top_p = 1, .repetition = 1};
        TRY(cycle_set_policy(c, l, &greedy, NULL));
    }
    return ERR_OK;
}

/* The first cycles of a fresh backend are slower: threads and clocks wake, pages come in. */
static status warm_up(meter *m)
{
    cycle_lane lane;
    point p;
    fill_lanes(m->c, 1, 0, &lane);
    do TRY(run_once(m->c, &lane, 1, &p));
    while (clock_ms_since(m->from_ns) < WARM_MS);
    return ERR_OK;
}

static status measure_lanes(meter *m, int L)
{
    TRY(measure(m, L, 0));
    TRY(measure(m, L, 1));
    return measure(m, L, m->out->max_draft);
}

status cycle_measure(cycle *c, width_costs *out)
{
    *out = (width_costs){.max_draft = c->max_draft};
    meter m = {.c = c, .out = out, .from_ns = clock_ns()};
    int most = c->opt.n_blocks < c->opt.n_slots ? (int)c->opt.n_blocks : c->opt.n_slots;
    if (!c->be->has_graphs && most > HOST_LANES_MOST) most = HOST_LANES_MOST;
    if (c->opt.max_context < out->max_draft + 1) return ERR_OK;
    TRY(give_blocks(c));
    TRY(warm_up(&m));
    TRY(measure_lanes(&m, 1));
    if (has_time(&m)) TRY(measure(&m, 1, out->max_draft / 2));
    if (has_time(&m)) TRY(measure(&m, 1, out->max_draft / 4));
    if (has_time(&m)) TRY(measure_lanes(&m, most));
    for (int L = 2; L < most && has_time(&m); L *= 2) TRY(measure_lanes(&m, L));
    for (int l = 0; l < m.n_slots; l++) TRY(cycle_reset(c, l));
    return ERR_OK;
}
