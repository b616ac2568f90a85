/* The policy of draft widths: the best widths of given costs and chances, and what it learns from
 * lanes that accept by a dial. */
#include "decode/width.h"

#include "base/rng.h"
#include "support/test.h"

static void expect_near(double got, double want, double within)
{
    if (!(fabs(got - want) <= within)) fail_msg("%.17g, want %.17g", got, want);
}

static const double no_scale[2] = {1, 1};

/* A processor's costs in cycles without proposals: a row more takes `row`, the draft's pass `pass`,
 * of seven proposals 1.5 times that. */
static width_costs line_costs(double row, double pass)
{
    width_costs c = {.max_draft = 7};
    for (int L = 1; L <= 4; L *= 2) {
        width_curve_add(&c.plain, L, 1 + row * (L - 1));
        width_curve_add(&c.draft_one, L, pass * (1 + 0.2 * (L - 1)));
        width_curve_add(&c.draft_all, L, pass * (1.5 + 0.5 * (L - 1)));
    }
    for (int T = 2; T <= 32; T *= 2) width_curve_add(&c.verify, T, 1 + row * (T - 1));
    return c;
}

static width_lane lane_of(double p, int most)
{
    width_lane l = {.most = most};
    for (int i = 0; i < WIDTH_MOST; i++) l.p[i] = p;
    return l;
}

/* ---- curves ------------------------------------------------------------------------------- */

TEST(a_curve_is_straight_between_its_points_in_any_order)
{
    width_curve c = {0};
    assert_true(isnan(width_curve_at(&c, 1)));
    width_curve_add(&c, 8, 30);
    expect_near(width_curve_at(&c, 4), 30, 0);
    expect_near(width_curve_at(&c, 16), 60, 1e-12); /* one point: in proportion */
    width_curve_add(&c, 2, 12);
    width_curve_add(&c, 4, 20);
    width_curve_add(&c, 4, 99); /* known already */
    assert_int_equal(c.n, 3);
    expect_near(width_curve_at(&c, 1), 12, 0);
    expect_near(width_curve_at(&c, 2), 12, 0);
    expect_near(width_curve_at(&c, 3), 16, 1e-12);
    expect_near(width_curve_at(&c, 6), 25, 1e-12);
    expect_near(width_curve_at(&c, 8), 30, 1e-12);
    expect_near(width_curve_at(&c, 16), 50, 1e-12);
    for (int x = 100; x < 200; x++) width_curve_add(&c, x, x);
    assert_int_equal(c.n, WIDTH_POINTS);
}

/* ---- the best widths ---------------------------------------------------------------------- */

static double tokens_of(const width_lane *l, int w)
{
    double sum = 1, q = 1;
    for (int i = 0; i < w; i++) sum += q *= l->p[i];
    return sum;
}

TEST(one_lane_gets_the_width_that_trying_them_all_would_choose)
{
    for (uint64_t seed = 1; seed <= 400; seed++) {
        uint64_t r = rng_mix64(seed);
        double row = 0.01 + (double)(r % 97) / 97, pass = 0.05 + (double)(r / 97 % 89) / 89;
        width_costs c = line_costs(row, pass);
        width_lane l = {.most = (int)(r / 8633 % 8)};
        for (int i = 0; i < WIDTH_MOST; i++)
            l.p[i] = (double)(rng_mix64(seed * 100 + (uint64_t)i) % 1001) / 1000;
        double best = 0;
        int best_w = 0;
        for (int w = 1; w <= l.most; w++) {
            double ms = 1 + row * w + pass * (1 + 0.5 * (w - 1) / 6);
            if (tokens_of(&l, w) / ms > best * (1 + 1e-12)) {
                best = tokens_of(&l, w) / ms;
                best_w = w;
            }
        }
        width_plan plain, drafted;
        width_find(&c, no_scale, 1, &l, 1, &plain, &drafted);
        assert_int_equal(plain.n_rows, 0);
        expect_near(plain.ms, 1, 1e-12);
        expect_near(plain.tokens, 1, 0);
        if (drafted.n_rows == 0) { /* the first proposal is never right */
            assert_true(l.most == 0 || l.p[0] <= 0);
            continue;
        }
        assert_int_equal(drafted.width[0], drafted.n_rows);
        expect_near(drafted.tokens / drafted.ms, best, 1e-9);
        assert_int_equal(drafted.width[0], best_w);
    }
}

TEST(two_lanes_get_the_widths_that_trying_all_pairs_would_choose)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        uint64_t r = rng_mix64(seed);
        double row = 0.02 + (double)(r % 97) / 300;
        width_costs c = {.max_draft = 7};
        width_curve_add(&c.plain, 1, 1);
        width_curve_add(&c.plain, 2, 1 + row);
        width_curve_add(&c.verify, 2, 1 + row);
        width_curve_add(&c.verify, 16, 1 + 15 * row);
        for (int L = 1; L <= 2; L++) { /* the same for any lanes and widths: only rows count */
            width_curve_add(&c.draft_one, L, 0.3);
            width_curve_add(&c.draft_all, L, 0.3);
        }
        width_lane l[2] = {lane_of((double)(r / 97 % 101) / 100, 7),
                           lane_of((double)(r / 9797 % 101) / 100, (int)(r / 989497 % 8))};
        double best = 0;
        for (int a = 0; a <= l[0].most; a++)
            for (int b = 0; b <= l[1].most; b++) {
                if (a + b == 0) continue;
                double ms = 1 + row * (1 + a + b) + 0.3;
                double rate = (tokens_of(&l[0], a) + tokens_of(&l[1], b)) / ms;
                if (rate > best) best = rate;
            }
        width_plan plain, drafted;
        width_find(&c, no_scale, 1, l, 2, &plain, &drafted);
        if (drafted.n_rows > 0) expect_near(drafted.tokens / drafted.ms, best, 1e-9);
    }
}

TEST(chances_of_nothing_and_of_no_number_get_no_rows_and_certainty_gets_all)
{
    width_costs c = line_costs(0.1, 0.2);
    width_plan plain, drafted;
    width_lane l = lane_of(0, 7);
    width_find(&c, no_scale, 1, &l, 1, &plain, &drafted);
    assert_int_equal(drafted.n_rows, 0);
    l = lane_of(NAN, 7);
    width_find(&c, no_scale, 1, &l, 1, &plain, &drafted);
    assert_int_equal(drafted.n_rows, 0);
    l = lane_of(-INFINITY, 7);
    width_find(&c, no_scale, 1, &l, 1, &plain, &drafted);
    assert_int_equal(drafted.n_rows, 0);
    l = lane_of(1, 7);
    width_find(&c, no_scale, 1, &l, 1, &plain, &drafted);
    assert_int_equal(drafted.width[0], 7);
    expect_near(drafted.tokens, 8, 1e-12);
    l = lane_of(99, 3); /* as 1 */
    width_find(&c, no_scale, 1, &l, 1, &plain, &drafted);
    assert_int_equal(drafted.width[0], 3);
    expect_near(drafted.tokens, 4, 1e-12);
    l = lane_of(1, 0);
    width_find(&c, no_scale, 1, &l, 1, &plain, &drafted);
    assert_int_equal(drafted.n_rows, 0);
}

TEST(rows_go_to_the_lanes_that_accept)
{
    width_costs c = line_costs(0.1, 0.2);
    width_lane l[4] = {lane_of(0.05, 7), lane_of(0.95, 7), lane_of(0.75, 7), lane_of(0.95, 2)};
    width_plan plain, drafted;
    width_find(&c, no_scale, 1, l, 4, &plain, &drafted);
    assert_int_equal(drafted.width[0], 0);
    assert_true(drafted.width[1] > drafted.width[2]);
    assert_true(drafted.width[2] >= 1);
    assert_int_equal(drafted.width[3], 2);
    assert_int_equal(drafted.n_drafting, 3);
    assert_int_equal(drafted.widest, drafted.width[1]);
    assert_int_equal(drafted.n_rows, drafted.width[1] + drafted.width[2] + 2);
}

TEST(sixty_four_lanes_are_shared_out_evenly_and_within_their_bounds)
{
    static width_lane l[WIDTH_LANES];
    width_costs c = line_costs(0.001, 0.0001);
    width_plan plain, drafted;
    for (int i = 0; i < WIDTH_LANES; i++) l[i] = lane_of(0.9, i % 8);
    width_find(&c, no_scale, 1, l, WIDTH_LANES, &plain, &drafted);
    assert_int_equal(drafted.n_rows, 8 * 28);
    for (int i = 0; i < WIDTH_LANES; i++) assert_int_equal(drafted.width[i], i % 8);
    c = line_costs(0.5, 0.01);
    for (int i = 0; i < WIDTH_LANES; i++) l[i] = lane_of(0.9, 7);
    width_find(&c, no_scale, 1, l, WIDTH_LANES, &plain, &drafted);
    for (int i = 0; i < WIDTH_LANES; i++)
        assert_in_range(drafted.width[i], drafted.widest - 1, drafted.widest);
}

/* ---- costs that are none ------------------------------------------------------------------ */

TEST(without_usable_costs_nothing_is_proposed)
{
    double bad[] = {NAN, INFINITY, -INFINITY, 0, -1};
    for (int which = 0; which < 4; which++)
        for (int i = 0; i <= 5; i++) {
            width_costs c = line_costs(0.1, 0.1);
            width_curve *curves[] = {&c.plain, &c.verify, &c.draft_one, &c.draft_all};
            if (i < 5)
                curves[which]->ms[1] = bad[i];
            else
                curves[which]->n = 0;
            width_policy p;
            width_init(&p, &c);
            assert_false(p.is_usable);
            cycle_lane lanes[2] = {{.slot = 0, .n_draft = 7}, {.slot = 1, .n_draft = 3}};
            cycle_result out[2] = {{.n = 1}, {.n = 1}};
            width_choose(&p, lanes, 2);
            assert_int_equal(lanes[0].n_draft, 0);
            assert_int_equal(lanes[1].n_draft, 0);
            width_learn(&p, lanes, out, 2, 1);
        }
}

/* 15 % more tokens a ms: not enough to begin with proposals, enough to go on with them. */
TEST(proposals_are_begun_for_more_than_they_are_kept_for)
{
    width_policy p;
    width_costs c = line_costs(0.25, 0.3);
    c.max_draft = 1; /* 2 rows and the pass: 1.55 of a cycle without */
    for (int was_drafting = 0; was_drafting < 2; was_drafting++) {
        width_init(&p, &c);
        p.all[0] = (width_tally){.right = 1e6 * 0.7825, .tried = 1e6}; /* 1.7825 / 1.55 = 1.15 */
        p.credit = 0.01;                                               /* no trials */
        p.is_drafting = was_drafting;
        cycle_lane lane = {.n_draft = 1};
        width_choose(&p, &lane, 1);
        assert_int_equal(lane.n_draft, was_drafting);
    }
}

TEST(a_measurement_that_falls_is_lifted)
{
    width_costs c = line_costs(0.1, 0.1);
    c.verify.ms[2] = 0.01;
    width_policy p;
    width_init(&p, &c);
    assert_true(p.is_usable);
    expect_near(p.costs.verify.ms[2], p.costs.verify.ms[1], 0);
}

/* ---- learning ----------------------------------------------------------------------------- */

static const double HELD_UP = 1.6;

/* Lanes that accept each proposal with a chance, on a machine whose cycles take `costs`. */
typedef struct {
    width_policy p;
    width_costs costs; /* the truth */
    double chance[4];
    uint64_t seed, n_draws;
    double ms, tokens, drafted;
    double slower[WIDTH_MOST + 1]; /* the truth over the costs, by widest */
    bool is_noisy;                 /* 6 % to and fro, and one cycle of fifty is held up */
} world;

static void world_open(world *w, const width_costs *costs, uint64_t seed)
{
    *w = (world){.costs = *costs, .seed = seed};
    for (int i = 0; i <= WIDTH_MOST; i++) w->slower[i] = 1;
    width_init(&w->p, costs);
}

static double draw(world *w)
{
    return (double)(rng_mix64(rng_mix64(w->seed) + w->n_draws++) >> 11) * 0x1p-53;
}

static double true_ms(const world *w, const cycle_lane *lanes, int L)
{
    int rows = L, n_drafting = 0, widest = 0;
    for (int l = 0; l < L; l++) {
        rows += lanes[l].n_draft;
        n_drafting += lanes[l].n_draft > 0;
        if (lanes[l].n_draft > widest) widest = lanes[l].n_draft;
    }
    if (rows == L) return width_curve_at(&w->costs.plain, L) * w->slower[0];
    double one = width_curve_at(&w->costs.draft_one, n_drafting),
           all = width_curve_at(&w->costs.draft_all, n_drafting);
    return w->slower[widest] *
           (width_curve_at(&w->costs.verify, rows) + one + (all - one) * (widest - 1) / 6);
}

/* One cycle of L lanes; returns the widest. */
static int world_step(world *w, int L)
{
    cycle_lane lanes[4];
    cycle_result out[4] = {{0}};
    for (int l = 0; l < L; l++) lanes[l] = (cycle_lane){.slot = l, .n_draft = 7, .max_new = 8};
    width_choose(&w->p, lanes, L);
    double ms = true_ms(w, lanes, L);
    if (w->is_noisy) ms *= (0.94 + 0.12 * draw(w)) * (draw(w) < 0.02 ? HELD_UP : 1);
    int widest = 0;
    for (int l = 0; l < L; l++) {
        assert_in_range(lanes[l].n_draft, 0, 7);
        out[l].n_drafted = lanes[l].n_draft;
        while (out[l].n_accepted < lanes[l].n_draft && draw(w) < w->chance[l]) out[l].n_accepted++;
        out[l].n = out[l].n_accepted + 1;
        w->tokens += out[l].n;
        w->drafted += lanes[l].n_draft;
        if (lanes[l].n_draft > widest) widest = lanes[l].n_draft;
    }
    w->ms += ms;
    width_learn(&w->p, lanes, out, L, ms);
    return widest;
}

static double best_rate(const world *w, double chance)
{
    double best = 1 / width_curve_at(&w->costs.plain, 1);
    width_lane l = lane_of(chance, 7);
    for (int n = 1; n <= 7; n++) {
        cycle_lane lane = {.n_draft = n};
        double r = tokens_of(&l, n) / true_ms(w, &lane, 1);
        if (r > best) best = r;
    }
    return best;
}

/* A processor that reads its weights once for any rows, and one whose every row costs. */
static const double machines[][2] = {{0.02, 0.2}, {0.15, 0.5}, {0.35, 0.6}, {0.9, 0.9}};
static const double dials[] = {0, 0.1, 0.25, 0.5, 0.65, 0.75, 0.85, 0.95, 1};

TEST(no_dial_makes_it_more_than_a_twentieth_slower_than_plain_decoding)
{
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++)
        for (size_t d = 0; d < sizeof dials / sizeof *dials; d++)
            for (uint64_t seed = 1; seed <= 8; seed++) {
                width_costs c = line_costs(machines[m][0], machines[m][1]);
                world w;
                world_open(&w, &c, seed);
                w.chance[0] = dials[d];
                while (w.tokens < 256) world_step(&w, 1);
                if (w.ms > 1.05 * w.tokens)
                    fail_msg("machine %zu, dial %g, seed %d: %.1f ms for %.0f tokens", m, dials[d],
                             (int)seed, w.ms, w.tokens);
            }
}

static void tell_wrong(world *w, width_curve *c)
{
    for (int i = 0; i < c->n; i++) c->ms[i] *= 0.8 + 0.4 * draw(w);
}

/* Costs that were measured up to a fifth wrong, and times that vary. */
TEST(wrong_costs_and_noise_make_it_no_more_than_a_twentieth_slower_either)
{
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++)
        for (size_t d = 0; d < sizeof dials / sizeof *dials; d++)
            for (uint64_t seed = 1; seed <= 16; seed++) {
                width_costs told = line_costs(machines[m][0], machines[m][1]);
                world w;
                world_open(&w, &told, seed);
                tell_wrong(&w, &told.plain);
                tell_wrong(&w, &told.verify);
                tell_wrong(&w, &told.draft_one);
                tell_wrong(&w, &told.draft_all);
                width_init(&w.p, &told);
                w.is_noisy = true;
                w.chance[0] = dials[d];
                while (w.tokens < 1024) world_step(&w, 1);
                double plain = w.tokens * (1 + 0.02 * (HELD_UP - 1));
                if (w.ms > 1.05 * plain)
                    fail_msg("machine %zu, dial %g, seed %d: %.3f of plain", m, dials[d], (int)seed,
                             plain / w.ms);
            }
}

/* A few slow cycles without proposals must not make what is worse look better for good. */
TEST(plain_cycles_that_were_held_up_are_timed_again)
{
    width_costs c = line_costs(0.3, 0.55);
    for (int n_held_up = 1; n_held_up <= 12; n_held_up++) {
        world w;
        world_open(&w, &c, 2);
        w.chance[0] = 0.5; /* 1.5 tokens for 1.85 cycles */
        for (int i = 0; i < 100; i++) world_step(&w, 1);
        w.slower[0] = 1.5;
        for (int i = 0; i < n_held_up; i++) world_step(&w, 1);
        w.slower[0] = 1;
        double drafted = w.drafted;
        for (int i = 0; i < 400; i++) world_step(&w, 1);
        assert_true(w.drafted - drafted < 40);
    }
}

TEST(in_the_long_run_it_is_near_the_best_fixed_width)
{
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++)
        for (size_t d = 0; d < sizeof dials / sizeof *dials; d++) {
            width_costs c = line_costs(machines[m][0], machines[m][1]);
            world w;
            world_open(&w, &c, 77);
            w.chance[0] = dials[d];
            while (w.tokens < 20000) world_step(&w, 1);
            double share = w.tokens / w.ms / best_rate(&w, dials[d]);
            if (share < 0.94)
                fail_msg("machine %zu, dial %g: %.3f of the best rate", m, dials[d], share);
        }
}

TEST(a_lane_that_becomes_predictable_comes_back)
{
    width_costs c = line_costs(0.15, 0.5);
    world w;
    world_open(&w, &c, 5);
    for (int i = 0; i < 400; i++) world_step(&w, 1);
    double drafted = w.drafted;
    for (int i = 0; i < 100; i++) world_step(&w, 1);
    assert_true(w.drafted - drafted < 30); /* hardly tries */
    assert_true(w.drafted > 0);
    w.chance[0] = 1;
    int n = 0, wide = 0;
    for (; wide < 20 && n < 1500; n++) wide = world_step(&w, 1) == 7 ? wide + 1 : 0;
    assert_true(n < 1000);
    w.chance[0] = 0;
    for (n = 0, wide = 0; wide < 8 && n < 200; n++) wide = world_step(&w, 1) == 0 ? wide + 1 : 0;
    assert_true(n < 40);
}

TEST(a_lane_that_never_accepts_does_not_narrow_one_that_does)
{
    width_costs c = line_costs(0.1, 0.3);
    world w;
    world_open(&w, &c, 3);
    w.chance[1] = 1;
    for (int i = 0; i < 200; i++) world_step(&w, 2);
    int rows[2] = {0, 0};
    for (int i = 0; i < 200; i++) {
        cycle_lane lanes[2] = {{.slot = 0, .n_draft = 7}, {.slot = 1, .n_draft = 7}};
        width_choose(&w.p, lanes, 2);
        for (int l = 0; l < 2; l++) rows[l] += lanes[l].n_draft;
        world_step(&w, 2);
    }
    assert_true(rows[1] >= 7 * 180);
    assert_true(rows[0] < 100);
}

TEST(a_new_sequence_in_a_slot_starts_from_what_all_lanes_saw)
{
    width_costs c = line_costs(0.1, 0.3);
    world w;
    world_open(&w, &c, 4);
    w.chance[0] = 1;
    for (int i = 0; i < 100; i++) world_step(&w, 1);
    assert_true(w.p.slot[0][0].tried > 1);
    width_forget(&w.p, 0);
    expect_near(w.p.slot[0][0].tried, 0, 0);
    assert_int_equal(world_step(&w, 1), 7);
}

TEST(costs_that_were_measured_wrong_are_corrected)
{
    /* Drafting was held to be cheap and takes six times as long. */
    width_costs c = line_costs(0.05, 0.1);
    world w;
    world_open(&w, &c, 6);
    for (int i = 1; i <= WIDTH_MOST; i++) w.slower[i] = 6;
    w.chance[0] = 0.7;
    for (int i = 0; i < 300; i++) world_step(&w, 1);
    double drafted = w.drafted;
    for (int i = 0; i < 300; i++) world_step(&w, 1);
    assert_true(w.drafted - drafted < 60);

    /* Cycles without proposals were held to be slow. */
    c = line_costs(0.3, 1);
    world_open(&w, &c, 7);
    w.slower[0] = 0.3;
    w.chance[0] = 0.75;
    for (int i = 0; i < 100; i++) world_step(&w, 1);
    drafted = w.drafted;
    for (int i = 0; i < 300; i++) world_step(&w, 1);
    assert_true(w.drafted - drafted < 60);
}

TEST(one_cycle_that_was_held_up_does_not_turn_proposals_off)
{
    width_costs c = line_costs(0.05, 0.2);
    world w;
    world_open(&w, &c, 9);
    w.chance[0] = 1;
    for (int i = 0; i < 50; i++) world_step(&w, 1);
    w.slower[7] = 50;
    world_step(&w, 1);
    w.slower[7] = 1;
    int n_wide = 0;
    for (int i = 0; i < 20; i++) n_wide += world_step(&w, 1) == 7;
    assert_true(n_wide >= 15);
}

TEST(times_that_are_no_numbers_do_no_harm)
{
    width_costs c = line_costs(0.1, 0.3);
    world w;
    world_open(&w, &c, 8);
    double bad[] = {NAN, INFINITY, -INFINITY, 0, -5};
    for (int i = 0; i < 600; i++) {
        cycle_lane lane = {.slot = 0, .n_draft = 7, .max_new = 8};
        width_choose(&w.p, &lane, 1);
        cycle_result out = {
            .n = lane.n_draft + 1, .n_drafted = lane.n_draft, .n_accepted = lane.n_draft};
        width_learn(&w.p, &lane, &out, 1, bad[i % 5]);
    }
    assert_true(isfinite(w.p.credit));
    for (int i = 0; i < 2; i++) assert_true(w.p.scale[i] > 0 && isfinite(w.p.scale[i]));
    w.chance[0] = 1;
    for (int i = 0; i < 300; i++) world_step(&w, 1);
    assert_int_equal(world_step(&w, 1), 7);
}

TEST(a_cut_answer_counts_only_what_was_judged)
{
    width_costs c = line_costs(0.01, 0.01);
    width_policy p;
    width_init(&p, &c);
    cycle_lane lane = {.slot = 2, .n_draft = 7, .max_new = 8};
    /* Three right, then cut at an end token that was itself a proposal. */
    cycle_result cut = {.n = 3, .n_drafted = 7, .n_accepted = 3};
    width_learn(&p, &lane, &cut, 1, 1);
    for (int i = 0; i < 7; i++) {
        expect_near(p.slot[2][i].tried, i < 3, 0);
        expect_near(p.slot[2][i].right, i < 3, 0);
    }
    /* Two right, the third wrong. */
    cycle_result wrong = {.n = 3, .n_drafted = 7, .n_accepted = 2};
    width_learn(&p, &lane, &wrong, 1, 1);
    assert_true(p.slot[2][2].tried > 1.5 && p.slot[2][2].right < 1);
    assert_true(p.slot[2][3].tried == 0);
    /* All right: nothing was wrong. */
    cycle_result all = {.n = 8, .n_drafted = 7, .n_accepted = 7};
    width_forget(&p, 2);
    width_learn(&p, &lane, &all, 1, 1);
    for (int i = 0; i < 7; i++) expect_near(p.slot[2][i].right, p.slot[2][i].tried, 0);
}
