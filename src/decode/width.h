/* width: how many proposals each lane of a cycle gets, so that drafting pays or is left out.
 *
 * A cycle costs the time of its verify rows and of the draft's pass, measured once on the loaded
 * model (cycle_measure) and corrected by the cycles that run. It brings a token a lane, and of a
 * lane with proposals 1..w the sum of p_1 .. p_i over i: p_i is the chance that proposal i is right
 * when those before it were, counted per lane. The widths with the most tokens per time win.
 *
 * An account is kept of what cycles with proposals really won or lost against cycles without. What
 * looks worse is tried, and what looks better goes on, as long as no more than a small share of the
 * time is lost: so a lane whose text becomes predictable comes back, and a wrong outlook costs
 * little. Widths never change what is emitted (design.md
 * "Identity"), only when.
 *
 * Nothing here allocates or looks at a clock. Thread: one at a time. */
#ifndef RIPTIDE_DECODE_WIDTH_H
#define RIPTIDE_DECODE_WIDTH_H

#include "decode/cycle.h"

enum { WIDTH_LANES = 64, WIDTH_MOST = OPS_ROWS_MAX - 1, WIDTH_POINTS = 12 };

/* Milliseconds over a size: straight between ascending points, the last line goes on behind them;
 * a single point grows in proportion. */
typedef struct {
    int n;
    double x[WIDTH_POINTS], ms[WIDTH_POINTS];
} width_curve;

/* Put a point in its place; a point at the same x, or a full curve, leaves it out. */
void width_curve_add(width_curve *c, double x, double ms);
/* NAN without points. */
double width_curve_at(const width_curve *c, double x);

/* What cycles cost. Curves need not ascend: a measurement that says more rows took less time is
 * lifted to the one before it by width_init. */
typedef struct {
    width_curve plain;     /* whole cycle of x lanes without proposals */
    width_curve verify;    /* x rows of lanes with proposals: all but the draft's pass */
    width_curve draft_one; /* the draft's pass over x lanes, one proposal each */
    width_curve draft_all; /* the same, max_draft proposals each */
    int max_draft;         /* 1..WIDTH_MOST */
} width_costs;

/* Time of each kind of cycle on this model and machine, and the slots reset. Some seconds at most.
 *
 * Needs    a draft, cycle_max_draft >= 1
 * Returns  DEVICE */
status cycle_measure(cycle *c, width_costs *out);

/* One lane's outlook: p[i] for proposal i + 1, and the most proposals it may get. */
typedef struct {
    double p[WIDTH_MOST]; /* outside [0, 1] is cut, no number is 0 */
    int most;
} width_lane;

typedef struct {
    int n_rows;             /* proposals of all lanes */
    int n_drafting, widest; /* lanes with proposals; the most of one lane */
    double tokens, ms;      /* expected */
    int width[WIDTH_LANES];
} width_plan;

/* The cycle without proposals, and the best one with some (n_rows 0 when there is none). scale
 * corrects the time of a cycle without proposals, and of one with some; yield > 0 the tokens that
 * proposals bring. Pure. */
void width_find(const width_costs *c, const double scale[2], double yield, const width_lane *lanes,
                int L, width_plan *plain, width_plan *drafted);

typedef struct {
    double right, tried; /* decayed */
} width_tally;

/* Everything known of acceptance and time; one for an engine. */
typedef struct {
    width_costs costs;
    bool is_usable;              /* the costs are numbers above 0; else nothing is ever proposed */
    width_tally all[WIDTH_MOST]; /* by depth */
    width_tally slot[WIDTH_LANES][WIDTH_MOST];
    width_tally yield;         /* tokens that proposals brought, and were expected to */
    double promised;           /* of those expected, the cycle's chosen last */
    double scale[2], trust[2]; /* corrections without and with proposals; what they rest on */
    int n_plain;               /* cycles without proposals behind each other */
    double credit;             /* ms that proposals may lose yet */
    bool is_drafting;          /* proposals looked better when it was chosen */
    int n_left;                /* cycles without proposals that are to follow, to be timed */
} width_policy;

void width_init(width_policy *p, const width_costs *costs);

/* A new sequence takes the slot: what is known of the lane no longer holds. */
void width_forget(width_policy *p, int slot);

/* Set n_draft of each lane, at most what it holds on entry. With p NULL it stays as it is. */
void width_choose(width_policy *p, cycle_lane *lanes, int L);

/* Take in what a cycle of those lanes brought and took. */
void width_learn(width_policy *p, const cycle_lane *lanes, const cycle_result *out, int L,
                 double ms);

/* cycle_step, timed and learned from by p when there is one. */
status width_step(width_policy *p, cycle *c, const cycle_lane *lanes, int L, cycle_result *out);

#endif
