/* width_world: what the widths that the policy chooses would cost, on machines and lanes that are
 * told in numbers: cycles' times as measured once, with noise, and proposals that are right with a
 * fixed chance. Nothing is timed, so that it says the same on a busy machine.
 *
 * Printed for each machine and dial: the time of plain decoding over the time taken, for the first
 * TOKENS of a fresh engine and for all of them (answers of 128 tokens), mean of the seeds and the
 * worst of twenty; cycles with proposals of a hundred.
 *
 * Usage: width_world [TOKENS [SEEDS]] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "decode/width.h"

/* ms of one lane: a plain cycle; verify of 2, 4 and 8 rows; the draft's pass for one proposal and
 * for seven. */
typedef struct {
    const char *name;
    double plain, verify[3], pass[2];
} machine;

static const machine machines[] = {
    {"0.8b, 2 cores", 13.1, {14.6, 16.0, 18.2}, {9.4, 12.1}},
    {"0.8b, slow clock", 20.0, {28.6, 36.0, 58.0}, {13.0, 21.0}},
    {"mini-dense", 0.64, {1.23, 1.61, 2.79}, {0.77, 0.92}},
    {"mini-moe", 0.66, {1.36, 2.09, 4.06}, {0.59, 0.76}},
};
static const double dials[] = {0, 0.1, 0.25, 0.4, 0.5, 0.7, 0.85, 1};

enum { ANSWER = 128, SEEDS_MOST = 2000 };

/* A cycle's time: off by 4 % as a rule, by a half more in one of fifty; costs known to 12 %. A
 * plain cycle behind one with proposals finds the caches emptied. */
static const double NOISE = 0.04, HELD_UP = 1.5, HELD_UP_SHARE = 0.02, KNOWN = 0.12,
                    BEHIND_DRAFT = 1.2;

typedef struct {
    width_policy p;
    width_costs truth;
    double dial, ms, tokens, plain_ms;
    int n_cycles, n_drafted;
    bool was_drafted;
    uint64_t seed, n_draws;
} world;

static double draw(world *w)
{
    return ((double)(rng_mix64(rng_mix64(w->seed) + w->n_draws++) >> 11) + 0.5) * 0x1p-53;
}

static double draw_normal(world *w)
{
    return sqrt(-2 * log(draw(w))) * cos(6.283185307179586 * draw(w));
}

static double held_up(world *w)
{
    double x = exp(NOISE * draw_normal(w));
    return draw(w) < HELD_UP_SHARE ? x * HELD_UP : x;
}

static width_costs costs_of(const machine *m)
{
    width_costs c = {.max_draft = 7};
    width_curve_add(&c.plain, 1, m->plain);
    for (int i = 0; i < 3; i++) width_curve_add(&c.verify, 2 << i, m->verify[i]);
    width_curve_add(&c.draft_one, 1, m->pass[0]);
    width_curve_add(&c.draft_all, 1, m->pass[1]);
    return c;
}

static void blur(world *w, width_curve *c)
{
    for (int i = 0; i < c->n; i++) c->ms[i] *= exp(KNOWN * draw_normal(w));
}

static void world_open(world *w, const machine *m, double dial, uint64_t seed)
{
    *w = (world){.truth = costs_of(m), .dial = dial, .seed = seed};
    width_costs told = w->truth;
    blur(w, &told.plain);
    blur(w, &told.verify);
    blur(w, &told.draft_one);
    blur(w, &told.draft_all);
    width_init(&w->p, &told);
    w->plain_ms = m->plain * exp(NOISE * NOISE / 2) * (1 + HELD_UP_SHARE * (HELD_UP - 1));
}

static double true_ms(world *w, int width)
{
    const width_costs *c = &w->truth;
    if (width == 0) return width_curve_at(&c->plain, 1) * (w->was_drafted ? BEHIND_DRAFT : 1);
    double one = width_curve_at(&c->draft_one, 1), all = width_curve_at(&c->draft_all, 1);
    return width_curve_at(&c->verify, width + 1) + one + (all - one) * (width - 1) / 6;
}

static void step(world *w, int left)
{
    int most = left - 1 < 7 ? left - 1 : 7;
    cycle_lane lane = {.n_draft = most, .max_new = left};
    cycle_result out = {0};
    width_choose(&w->p, &lane, 1);
    double ms = true_ms(w, lane.n_draft) * held_up(w);
    out.n_drafted = lane.n_draft;
    while (out.n_accepted < lane.n_draft && draw(w) < w->dial) out.n_accepted++;
    out.n = out.n_accepted + 1;
    w->was_drafted = lane.n_draft > 0;
    w->n_drafted += w->was_drafted;
    w->n_cycles++;
    w->tokens += out.n;
    w->ms += ms;
    width_learn(&w->p, &lane, &out, 1, ms);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct {
    double mean, low;
} summary;

static summary sum_up(double *x, int n)
{
    summary s = {0, 0};
    qsort(x, (size_t)n, sizeof *x, by_value);
    for (int i = 0; i < n; i++) s.mean += x[i] / n;
    s.low = x[n / 20];
    return s;
}

static double ratio_of(const world *w)
{
    return w->tokens * w->plain_ms / w->ms;
}

static void play(const machine *m, double dial, int n_tokens, int n_seeds)
{
    static double first[SEEDS_MOST], all[SEEDS_MOST];
    double drafted = 0;
    for (int i = 0; i < n_seeds; i++) {
        world w;
        world_open(&w, m, dial, (uint64_t)i + 1);
        for (int done = 0; done < n_tokens; done += ANSWER) {
            double end = w.tokens + ANSWER;
            width_forget(&w.p, 0);
            while (w.tokens < end) step(&w, (int)(end - w.tokens));
            if (done == 0) first[i] = ratio_of(&w);
        }
        all[i] = ratio_of(&w);
        drafted += 100.0 * w.n_drafted / w.n_cycles / n_seeds;
    }
    summary a = sum_up(first, n_seeds), b = sum_up(all, n_seeds);
    printf("%-18s dial %-4g first answer %.3f (low %.3f), all %.3f (low %.3f), drafted %4.1f %%\n",
           m->name, dial, a.mean, a.low, b.mean, b.low, drafted);
}

int main(int argc, char **argv)
{
    int n_tokens = argc > 1 ? atoi(argv[1]) : 1536, n_seeds = argc > 2 ? atoi(argv[2]) : 200;
    if (n_tokens < 1 || n_seeds < 1 || n_seeds > SEEDS_MOST) return 2;
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++)
        for (size_t d = 0; d < sizeof dials / sizeof *dials; d++)
            play(&machines[m], dials[d], n_tokens, n_seeds);
    return 0;
}
