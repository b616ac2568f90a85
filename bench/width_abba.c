/* width_abba: a model with the draft's widths chosen by the policy, or fixed, against the same
 * model without a draft, A B B A for every prompt, so that what else the machine does falls on
 * both.
 *
 * A prompt's round decodes the same tokens (the ids are compared) four times; its time is the
 * engine's own of decoding. Printed: tokens per second of both, their ratio over all rounds, the
 * median of the rounds' ratios, the larger relative difference between the two halves of one side
 * (spread); with several rounds a prompt also the ratio of what each prompt usually took (the
 * median of its times on a side, which a disturbance of some of them does not move), and how many
 * cycles had how many proposals. Two engines without a draft differ by up to 5 % by where their
 * pages lie: run it some times and take the median.
 *
 * Usage: width_abba MODEL [DRAFT_ROWS|auto [TOKENS [TEMPERATURE [ROUNDS [PROMPTS.json]]]]]
 *        DRAFT is MODEL-dflash2. With a file of prompts (tests/data/prompts.json) each of them has
 *        ROUNDS rounds; else prompts of 64 ids, one round each, ROUNDS times with other seeds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "chat/template.h"
#include "engine/engine.h"

enum { ANSWER_MOST = 4096, ROUNDS_MOST = 512, REPEATS_MOST = 32, PROMPT = 64 };

typedef struct {
    int n;
    int32_t ids[ANSWER_MOST];
    engine_usage usage;
} answer;

typedef struct {
    engine *plain, *drafted;
    int n_tokens;
    double temperature;
    double ms[2][2], tokens, drafted_rows, accepted, cycles; /* ms [side][round of the side] */
    double usual[2]; /* ms [side]: medians over a prompt's times, summed over prompts */
    double ratio[ROUNDS_MOST];
    int n_rounds, repeats;
    engine_tally warm; /* of the drafted engine, behind the warm-up */
} contest;

static void must(status s, const err *e)
{
    if (s == ERR_OK) return;
    fprintf(stderr, "width_abba: %s: %s\n", e->where, e->msg);
    exit(1);
}

static void on_event(void *ctx, const engine_event *ev)
{
    answer *a = ctx;
    for (int i = 0; i < ev->n_ids && a->n < ANSWER_MOST; i++) a->ids[a->n++] = ev->ids[i];
    a->usage = ev->usage;
}

static double decode_ms(engine *en, const contest *c, const int32_t *ids, int n, uint64_t seed,
                        answer *out)
{
    err e = {0};
    uint64_t id;
    engine_request r = {.ids = ids,
                        .n_ids = n,
                        .max_tokens = c->n_tokens,
                        .n = 1,
                        .on_event = on_event,
                        .ctx = out};
    r.policy = policy_neutral();
    r.policy.temperature = c->temperature;
    r.policy.seed = seed;
    memset(out, 0, sizeof *out);
    must(engine_submit(en, &r, &id, &e), &e);
    while (engine_step(en)) continue;
    return out->usage.decode_ms;
}

static void play_round(contest *c, const int32_t *ids, int n, uint64_t seed,
                       double times[2][2 * REPEATS_MOST], int repeat)
{
    static answer a, b;
    double ms[2][2];
    ms[0][0] = decode_ms(c->plain, c, ids, n, seed, &a);
    for (int i = 0; i < 2; i++) {
        ms[1][i] = decode_ms(c->drafted, c, ids, n, seed, &b);
        if (a.n != b.n || memcmp(a.ids, b.ids, (size_t)a.n * sizeof *a.ids) != 0) {
            fprintf(stderr, "width_abba: the answers differ\n");
            exit(1);
        }
        c->drafted_rows += (double)b.usage.drafted;
        c->accepted += (double)b.usage.accepted;
        c->cycles += (double)b.usage.cycles;
    }
    ms[0][1] = decode_ms(c->plain, c, ids, n, seed, &a);
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < 2; i++) {
            c->ms[side][i] += ms[side][i];
            times[side][2 * repeat + i] = ms[side][i];
        }
    c->tokens += a.n;
    if (c->n_rounds < ROUNDS_MOST)
        c->ratio[c->n_rounds++] = (ms[0][0] + ms[0][1]) / (ms[1][0] + ms[1][1]);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A short answer of each engine: costs of the widths are measured in an engine's first step. */
static void warm_up(contest *c)
{
    static answer a;
    int32_t id = 1;
    decode_ms(c->plain, c, &id, 1, 1, &a);
    decode_ms(c->drafted, c, &id, 1, 1, &a);
    c->warm = engine_stats(c->drafted).tally;
}

static void play(contest *c, const int32_t *ids, int n, uint64_t seed)
{
    double times[2][2 * REPEATS_MOST];
    for (int i = 0; i < c->repeats; i++) play_round(c, ids, n, seed, times, i);
    for (int side = 0; side < 2; side++) {
        qsort(times[side], (size_t)(2 * c->repeats), sizeof(double), by_value);
        c->usual[side] += (times[side][c->repeats - 1] + times[side][c->repeats]) / 2;
    }
}

static void play_random(contest *c, int rounds)
{
    int32_t ids[PROMPT];
    int V = engine_about(c->plain)->V;
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < PROMPT; i++)
            ids[i] = (int32_t)(rng_mix64((uint64_t)(r * PROMPT + i)) % (uint64_t)V);
        play(c, ids, PROMPT, (uint64_t)r + 1);
    }
}

static void play_prompt(contest *c, arena *a, const template *t, const json *prompt, uint64_t seed)
{
    template_input in = {.messages = json_get(prompt, "messages"),
                         .tools = json_get(prompt, "tools"),
                         .kwargs = json_get(prompt, "chat_template_kwargs"),
                         .add_generation_prompt = true};
    buf text;
    segments parts;
    token_ids ids = {0};
    err e = {0};
    buf_init(&text);
    segments_init(&parts);
    must(template_render(t, &in, &text, &parts, &e), &e);
    tokenizer_segment *seg = arena_new_array(a, (size_t)parts.n, sizeof *seg);
    for (int64_t i = 0; seg && i < parts.n; i++)
        seg[i] = (tokenizer_segment){{text.ptr + parts.ptr[i].offset, parts.ptr[i].len},
                                     parts.ptr[i].is_template};
    must(tokenizer_encode_segments(engine_tokenizer(c->plain), seg, (int)parts.n, 0, &ids, &e), &e);
    play(c, ids.ptr, ids.n, seed);
    token_ids_fini(&ids);
    segments_fini(&parts);
    buf_fini(&text);
}

static void play_file(contest *c, const char *path)
{
    arena a;
    str text;
    err e = {0};
    const json *list;
    template *t;
    arena_init(&a, 0);
    must(file_read(&a, path, 1 << 24, &text, &e), &e);
    must(json_parse(&a, text, path, 64, 0, &list, &e), &e);
    must(template_open(&t, engine_about(c->plain)->chat_template, "chat_template", &e), &e);
    uint64_t seed = 1;
    for (const json *x = list->first; x; x = x->next) play_prompt(c, &a, t, x, seed++);
    template_close(t);
    arena_fini(&a);
}

/* By proposals, without those of the warm-up. */
static void print_cycles(contest *c)
{
    engine_tally now = engine_stats(c->drafted).tally;
    printf("cycles by proposals:");
    for (int i = 0; i < ENGINE_WIDTHS; i++) {
        int64_t n = now.widths[i] - c->warm.widths[i];
        if (n > 0) printf(" %d: %lld", i, (long long)n);
    }
    printf("\n");
}

static engine *open_engine(const char *model, const char *draft, int draft_rows)
{
    err e = {0};
    engine *en;
    engine_options o = {.model = model,
                        .draft = draft,
                        .backend = "cpu",
                        .n_lanes = 1,
                        .max_context = 4096,
                        .draft_rows = draft_rows};
    must(engine_open(&en, &o, &e), &e);
    return en;
}

static double spread(const double ms[2])
{
    double low = ms[0] < ms[1] ? ms[0] : ms[1], high = ms[0] < ms[1] ? ms[1] : ms[0];
    return (high - low) / low;
}

int main(int argc, char **argv)
{
    static contest c;
    char draft[4096];
    if (argc < 2) {
        fprintf(stderr,
                "usage: width_abba MODEL [ROWS|auto [TOKENS [TEMPERATURE [ROUNDS [FILE]]]]]\n");
        return 2;
    }
    const char *rows = argc > 2 ? argv[2] : "auto";
    c.n_tokens = argc > 3 ? atoi(argv[3]) : 128;
    c.temperature = argc > 4 ? atof(argv[4]) : 0;
    if (c.n_tokens < 1 || c.n_tokens > ANSWER_MOST) return 2;
    snprintf(draft, sizeof draft, "%s-dflash2", argv[1]);
    c.plain = open_engine(argv[1], NULL, -1);
    c.drafted = open_engine(argv[1], draft,
                            strcmp(rows, "auto") == 0 ? ENGINE_ROWS_AUTO : atoi(rows));
    warm_up(&c);
    int rounds = argc > 5 ? atoi(argv[5]) : 4;
    if (rounds < 1 || (argc > 6 && rounds > REPEATS_MOST)) return 2;
    c.repeats = argc > 6 ? rounds : 1;
    if (argc > 6)
        play_file(&c, argv[6]);
    else
        play_random(&c, rounds);
    qsort(c.ratio, (size_t)c.n_rounds, sizeof *c.ratio, by_value);
    double plain = c.ms[0][0] + c.ms[0][1], drafted = c.ms[1][0] + c.ms[1][1];
    double one = spread(c.ms[0]), other = spread(c.ms[1]);
    printf("%s, rows %s, temperature %g: plain %.1f tokens/s, drafted %.1f, ratio %.3f "
           "(median of %d rounds %.3f, "
           "of usual times %.3f, spread %.1f %%); %.2f tokens a cycle, %.0f of %.0f right\n",
           engine_about(c.plain)->model_name, rows, c.temperature, 2e3 * c.tokens / plain,
           2e3 * c.tokens / drafted, plain / drafted, c.n_rounds, c.ratio[c.n_rounds / 2],
           c.usual[0] / c.usual[1], 100 * (one > other ? one : other), 2 * c.tokens / c.cycles,
           c.accepted, c.drafted_rows);
    print_cycles(&c);
    engine_close(c.drafted);
    engine_close(c.plain);
    return 0;
}
