#include "decode/width.h"

#include <math.h>
#include <string.h>

#include "base/asserts.h"
#include "base/clock.h"

/* Before anything is counted a proposal is held to be right with P_FIRST (a good draft brings 3 to
 * 5 tokens a cycle); that weighs as much as P_FIRST_TRIALS. What all lanes of the engine saw weighs
 * in a lane as much as P_ALL_TRIALS of its own. */
static const double P_FIRST = 0.75, P_FIRST_TRIALS = 4, P_ALL_TRIALS = 3;
/* What a count keeps when the next comes in, and what a lane's keeps in a cycle that says nothing
 * about it: a lane remembers some 15 trials, and 100 cycles after its last one half of them. */
static const double LANE_KEEPS = 0.935, ALL_KEEPS = 0.995, UNSEEN_KEEPS = 0.993;
/* Proposals must be better than none by this much, and by more to begin with them: going to and fro
 * costs, as each kind of cycle leaves the caches to the other. */
static const double GAIN_LEAST = 1.1, GAIN_BEGIN = 1.2;
/* Credit, in ms: what proposals may lose against none. Every cycle brings LOSS_SHARE of its time,
 * a cycle with proposals what it won or lost; in cycles without proposals, the first credit and the
 * most that is saved up or owed. A cycle counts as at most SURPRISE times what was to be expected:
 * what held it up would have held up another. */
static const double LOSS_SHARE = 0.01, CREDIT_FIRST = 1.5, CREDIT_MOST = 16, CREDIT_OWED = 6;
/* Of the tokens that proposals were expected to bring, the share that came: ends of answers cut
 * them, texts change, and what is chosen for looking best looked too good more often than too bad.
 * What the count keeps of older cycles, and the tokens that stand for 1 at first. */
static const double YIELD_KEEPS = 0.99, YIELD_FIRST = 20;
/* Corrections: trust kept in every cycle, at first, the most there is, and below which it is stale.
 * A time off by the factor SURPRISE counts as off by just that, and halves the trust: one such
 * cycle was held up, some of them behind each other are news. */
enum { PLAIN_TRIAL = 3 }; /* cycles */
static const double TRUST_KEEPS = 0.98, TRUST_FIRST = 2, TRUST_MOST = 16, TRUST_STALE = 1,
                    SURPRISE = 1.3;

/* ---- costs -------------------------------------------------------------------------------- */

void width_curve_add(width_curve *c, double x, double ms)
{
    int at = 0;
    while (at < c->n && c->x[at] < x) at++;
    if (c->n == WIDTH_POINTS || (at < c->n && c->x[at] == x)) return;
    for (int i = c->n++; i > at; i--) {
        c->x[i] = c->x[i - 1];
        c->ms[i] = c->ms[i - 1];
    }
    c->x[at] = x;
    c->ms[at] = ms;
}

double width_curve_at(const width_curve *c, double x)
{
    if (c->n == 0) return NAN;
    if (x <= c->x[0]) return c->ms[0];
    if (c->n == 1) return c->ms[0] * x / c->x[0];
    int i = 1;
    while (i + 1 < c->n && c->x[i] < x) i++;
    double slope = (c->ms[i] - c->ms[i - 1]) / (c->x[i] - c->x[i - 1]);
    return c->ms[i - 1] + slope * (x - c->x[i - 1]);
}

/* Make a curve ascend. False when it has no points or one that is no time. */
static bool settle(width_curve *c)
{
    for (int i = 0; i < c->n; i++) {
        if (!isfinite(c->ms[i]) || c->ms[i] <= 0) return false;
        if (i > 0 && c->ms[i] < c->ms[i - 1]) c->ms[i] = c->ms[i - 1];
    }
    return c->n > 0;
}

static double draft_ms(const width_costs *c, int n_drafting, int widest)
{
    double one = width_curve_at(&c->draft_one, n_drafting);
    if (c->max_draft <= 1) return one;
    double all = width_curve_at(&c->draft_all, n_drafting);
    return one + (all - one) * (widest - 1) / (c->max_draft - 1);
}

static double cycle_ms(const width_costs *c, const double *scale, int L, const width_plan *p)
{
    double ms = p->n_rows == 0 ? width_curve_at(&c->plain, L)
                               : width_curve_at(&c->verify, L + p->n_rows) +
                                     draft_ms(c, p->n_drafting, p->widest);
    return ms * scale[p->n_rows > 0];
}

/* ---- the best widths ---------------------------------------------------------------------- */

static double chance(double p)
{
    return p > 0 ? (p < 1 ? p : 1) : 0; /* not a number: 0 */
}

/* The lane whose next proposal brings most, the narrower of equal ones; -1 when none brings any. */
static int next_lane(const width_lane *lanes, const double *gain, const int *width, int L)
{
    int best = -1;
    for (int l = 0; l < L; l++) {
        if (width[l] >= lanes[l].most || !(gain[l] > 0)) continue;
        if (best < 0 || gain[l] > gain[best] || (gain[l] == gain[best] && width[l] < width[best]))
            best = l;
    }
    return best;
}

void width_find(const width_costs *c, const double scale[2], double yield, const width_lane *lanes,
                int L, width_plan *plain, width_plan *drafted)
{
    double gain[WIDTH_LANES]; /* of each lane's next proposal, in tokens */
    width_plan at = {.tokens = L};
    at.ms = cycle_ms(c, scale, L, &at);
    *plain = at;
    *drafted = (width_plan){0};
    for (int l = 0; l < L; l++) gain[l] = yield * chance(lanes[l].p[0]);
    /* Gains fall within a lane, so taking the largest gives the most tokens for every number of
     * rows. Of many lanes not every number is looked at: each is another graph to capture. */
    int each = 1 + L / 8;
    for (int l; (l = next_lane(lanes, gain, at.width, L)) >= 0;) {
        at.tokens += gain[l];
        at.n_rows++;
        if (at.width[l]++ == 0) at.n_drafting++;
        if (at.width[l] > at.widest) at.widest = at.width[l];
        int i = at.width[l];
        gain[l] = i < WIDTH_MOST && i < lanes[l].most ? gain[l] * chance(lanes[l].p[i]) : 0;
        bool is_last = next_lane(lanes, gain, at.width, L) < 0;
        if (at.n_rows % each != 0 && !is_last) continue;
        at.ms = cycle_ms(c, scale, L, &at);
        if (drafted->n_rows == 0 || at.tokens * drafted->ms > drafted->tokens * at.ms)
            *drafted = at;
    }
}

/* ---- what is known ------------------------------------------------------------------------ */

void width_init(width_policy *p, const width_costs *costs)
{
    *p = (width_policy){.costs = *costs};
    width_costs *c = &p->costs;
    ASSERT(c->max_draft >= 1 && c->max_draft <= WIDTH_MOST);
    bool plain = settle(&c->plain), verify = settle(&c->verify), one = settle(&c->draft_one),
         all = settle(&c->draft_all);
    p->is_usable = plain && verify && one && all;
    for (int i = 0; i < 2; i++) {
        p->scale[i] = 1;
        p->trust[i] = TRUST_FIRST;
    }
    if (p->is_usable) p->credit = CREDIT_FIRST * width_curve_at(&c->plain, 1);
}

void width_forget(width_policy *p, int slot)
{
    memset(p->slot[slot], 0, sizeof p->slot[slot]);
}

static void outlook(const width_policy *p, const cycle_lane *lane, width_lane *out)
{
    out->most = lane->n_draft < p->costs.max_draft ? lane->n_draft : p->costs.max_draft;
    for (int i = 0; i < WIDTH_MOST; i++) {
        const width_tally *all = &p->all[i], *own = &p->slot[lane->slot][i];
        double usual = (all->right + P_FIRST_TRIALS * P_FIRST) / (all->tried + P_FIRST_TRIALS);
        out->p[i] = (own->right + P_ALL_TRIALS * usual) / (own->tried + P_ALL_TRIALS);
    }
}

static double rate(const width_plan *p)
{
    return p->ms > 0 ? p->tokens / p->ms : 0;
}

/* Proposals that look worse than none are always news, as long as there is credit for what they
 * would lose. */
static bool is_worth_trying(const width_policy *p, const width_plan *plain,
                            const width_plan *drafted)
{
    double loss = drafted->ms - drafted->tokens / rate(plain);
    double least = drafted->ms * (GAIN_LEAST - 1);
    return drafted->n_rows > 0 && (loss > least ? loss : least) <= p->credit;
}

/* Whether the time of cycles without proposals is to be looked at again, some of them behind each
 * other: everything is judged by it. */
static bool wants_plain(width_policy *p)
{
    if (p->n_left > 0) {
        p->n_left--;
        return true;
    }
    if (p->trust[0] >= TRUST_STALE) return false;
    p->n_left = PLAIN_TRIAL - 1;
    return true;
}

void width_choose(width_policy *p, cycle_lane *lanes, int L)
{
    if (!p) return;
    width_lane seen[WIDTH_LANES];
    width_plan plain, drafted;
    p->promised = 0;
    if (!p->is_usable) {
        for (int l = 0; l < L; l++) lanes[l].n_draft = 0;
        return;
    }
    for (int l = 0; l < L; l++) outlook(p, &lanes[l], &seen[l]);
    double yield = (p->yield.right + YIELD_FIRST) / (p->yield.tried + YIELD_FIRST);
    width_find(&p->costs, p->scale, yield, seen, L, &plain, &drafted);
    const width_plan *best = &plain;
    double least = p->is_drafting ? GAIN_LEAST : GAIN_BEGIN;
    p->is_drafting = drafted.n_rows > 0 && p->credit > 0 && rate(&drafted) > least * rate(&plain);
    if (!wants_plain(p) && (p->is_drafting || is_worth_trying(p, &plain, &drafted)))
        best = &drafted;
    p->promised = (best->tokens - L) / yield;
    for (int l = 0; l < L; l++) lanes[l].n_draft = best->width[l];
}

/* ---- learning ----------------------------------------------------------------------------- */

static void count(width_tally *t, double keeps, bool is_right)
{
    t->right = t->right * keeps + is_right;
    t->tried = t->tried * keeps + 1;
}

static void learn_lane(width_policy *p, const cycle_lane *lane, const cycle_result *r)
{
    /* Proposals behind the first wrong one, or behind a cut, were not judged. */
    int n_judged = r->n_accepted;
    if (n_judged < r->n_drafted && r->n > r->n_accepted) n_judged++;
    for (int i = 0; i < WIDTH_MOST; i++) {
        width_tally *own = &p->slot[lane->slot][i];
        if (i >= n_judged) {
            own->right *= UNSEEN_KEEPS;
            own->tried *= UNSEEN_KEEPS;
            continue;
        }
        count(own, LANE_KEEPS, i < r->n_accepted);
        count(&p->all[i], ALL_KEEPS, i < r->n_accepted);
    }
}

static void learn_time(width_policy *p, const width_plan *ran, int L, double ms)
{
    static const double same[2] = {1, 1};
    int kind = ran->n_rows > 0;
    double expected = cycle_ms(&p->costs, same, L, ran), *scale = &p->scale[kind],
           *trust = &p->trust[kind];
    for (int i = 0; i < 2; i++) p->trust[i] *= TRUST_KEEPS;
    /* Behind a cycle with proposals one without finds the draft in the caches: that is not how long
     * it would take for good. */
    bool is_settled = kind == 1 || p->n_plain > 0;
    p->n_plain = kind == 1 ? 0 : p->n_plain + 1;
    if (!is_settled) return;
    if (!(expected > 0) || !(ms > 0) || !isfinite(ms)) return;
    double x = ms / expected;
    bool is_surprise = x > SURPRISE * *scale || x * SURPRISE < *scale;
    if (x > SURPRISE * *scale) x = SURPRISE * *scale;
    if (x * SURPRISE < *scale) x = *scale / SURPRISE;
    *scale = (*scale * *trust + x) / (*trust + 1);
    *trust = is_surprise ? *trust / 2 : *trust + 1 < TRUST_MOST ? *trust + 1 : TRUST_MOST;
}

/* Ran in ms, against cycles without proposals. */
static void settle_credit(width_policy *p, const width_plan *ran, int L, double ms)
{
    static const width_plan none = {0};
    double plain = cycle_ms(&p->costs, p->scale, L, &none);
    double most = SURPRISE * cycle_ms(&p->costs, p->scale, L, ran);
    if (ms > most) ms = most;
    bool is_behind = ran->n_rows == 0 && p->n_plain == 0; /* it finds the caches emptied */
    if (ran->n_rows > 0 || is_behind) p->credit += ran->tokens / L * plain - ms;
    p->credit += LOSS_SHARE * ms;
    if (p->credit > CREDIT_MOST * plain) p->credit = CREDIT_MOST * plain;
    if (p->credit < -CREDIT_OWED * plain) p->credit = -CREDIT_OWED * plain;
}

void width_learn(width_policy *p, const cycle_lane *lanes, const cycle_result *out, int L,
                 double ms)
{
    if (!p->is_usable) return;
    width_plan ran = {0};
    for (int l = 0; l < L; l++) {
        int n = lanes[l].n_draft;
        learn_lane(p, &lanes[l], &out[l]);
        ran.tokens += out[l].n;
        ran.n_rows += n;
        ran.n_drafting += n > 0;
        if (n > ran.widest) ran.widest = n;
    }
    if (p->promised > 0 && ran.n_rows > 0) {
        p->yield.right = p->yield.right * YIELD_KEEPS + ran.tokens - L;
        p->yield.tried = p->yield.tried * YIELD_KEEPS + p->promised;
    }
    if (isfinite(ms)) settle_credit(p, &ran, L, ms);
    learn_time(p, &ran, L, ms);
}

status width_step(width_policy *p, cycle *c, const cycle_lane *lanes, int L, cycle_result *out)
{
    int64_t from = clock_ns();
    TRY(cycle_step(c, lanes, L, out));
    if (p) width_learn(p, lanes, out, L, clock_ms_since(from));
    return ERR_OK;
}
