/* tags: timeout=600
 *
 * Counts that no machine changes, against tests/counts.csv: op calls, bytes and operations of each
 * stage of a pass, allocations of a step, and what a drafted cycle brings at fixed widths. They
 * are reviewed as a diff: `make counts` writes the file anew. */
#include <stdlib.h>

#include "bench/stages_priv.h"
#include "decode/cycle_priv.h"
#include "model/engine_fixture.h"
#include "model/prompt_fixture.h"

enum { LANES_MAX = 4, CONTEXT = 256, BEGIN = 128, NEW_TOKENS = 32, EVERY_PROMPT = 5, SHOWN = 40 };

static const char *const models[] = {"mini-dense", "mini-moe"};
static const int widths[] = {1, 3, 7};

/* ---- stages ------------------------------------------------------------------------------- */

static cycle *open_cycle(const char *backend_name, const char *model)
{
    char target[4300], draft[4300];
    snprintf(target, sizeof target, "%s/models/%s", test_root(), model);
    snprintf(draft, sizeof draft, "%s/models/%s-dflash2", test_root(), model);
    cycle *c = NULL;
    err e = {0};
    CHECK_OK(cycle_open(&c,
                        &(cycle_options){.model = target,
                                         .draft = draft,
                                         .backend = backend_name,
                                         .n_threads = 2,
                                         .n_slots = LANES_MAX,
                                         .prefill_rows = BEGIN,
                                         .max_context = CONTEXT,
                                         .kv = KV_INT8,
                                         .max_draft = -1},
                        &e),
             &e);
    return c;
}

/* Every lane's rows begin at `pos`. */
static void tell_pass(cycle *c, int L, int64_t pos, int n_rows, bool has_proposals)
{
    const arch_target *a = model_arch(cycle_model(c));
    stage_pass pass = {.L = L,
                       .has_proposals = has_proposals,
                       .V = a->V,
                       .E = a->E,
                       .n_taps = model_settings(cycle_model(c))->n_taps};
    for (int l = 0; l < L; l++) {
        pass.pos[l] = pos;
        pass.n_rows[l] = n_rows;
    }
    stages_set_pass(&pass);
}

static void fill_slot(cycle *c, int slot, int32_t *ids)
{
    int32_t blocks[CONTEXT / OPS_BLOCK];
    sample_policy policy = {.temperature = 1, .seed = (uint64_t)slot, .top_p = 1, .repetition = 1};
    for (int i = 0; i < CONTEXT / OPS_BLOCK; i++) blocks[i] = slot * CONTEXT / OPS_BLOCK + i;
    for (int i = 0; i <= BEGIN; i++) ids[i] = 300 + (i * 37 + slot * 101) % 2000;
    CHECK_STATUS(cycle_reset(c, slot), ERR_OK);
    CHECK_STATUS(cycle_set_blocks(c, slot, 0, blocks, CONTEXT / OPS_BLOCK), ERR_OK);
    CHECK_STATUS(cycle_set_policy(c, slot, &policy, NULL), ERR_OK);
}

static void put_stages(buf *out, const char *model, const char *name, const stage_table *t)
{
    for (int i = 0; i < t->n; i++)
        buf_printf(out, "%s,%s,%s,%lld,%.0f,%.0f\n", model, name, t->list[i].name,
                   (long long)t->list[i].n_calls, t->list[i].n_bytes, t->list[i].n_ops);
    buf_printf(out, "%s,%s,all,%lld,%.0f,%.0f\n", model, name, (long long)t->n_calls, t->n_bytes,
               t->n_ops);
}

static void count_prefill(buf *out, const char *model, cycle *c)
{
    stage_table t = {0};
    backend *b = (backend *)cycle_backend(c);
    int32_t ids[BEGIN + 1];
    fill_slot(c, 0, ids);
    for (int64_t pos = 0; pos < BEGIN; pos += BEGIN / 2) {
        cycle_slice s = {
            .slot = 0, .ids = ids + pos, .n = BEGIN / 2, .pos = pos, .prompt_end = BEGIN};
        if (pos > 0) {
            tell_pass(c, 1, pos, BEGIN / 2, false);
            stages_begin(b, &t);
        }
        CHECK_STATUS(cycle_prefill(c, &s, 1), ERR_OK);
    }
    stages_end(b);
    put_stages(out, model, "64 prompt rows behind 64", &t);
}

static void fill_lanes(cycle *c, int L, int width, cycle_lane *lane)
{
    for (int l = 0; l < L; l++) {
        int32_t ids[BEGIN + 1];
        fill_slot(c, l, ids);
        cycle_slice s = {.slot = l, .ids = ids, .n = BEGIN, .pos = 0, .prompt_end = BEGIN};
        CHECK_STATUS(cycle_prefill(c, &s, 1), ERR_OK);
        lane[l] = (cycle_lane){
            .slot = l, .anchor = ids[BEGIN], .pos = BEGIN, .n_draft = width, .max_new = width + 1};
    }
}

static void put_case(char (*name)[64], int L, int width)
{
    snprintf(*name, sizeof *name, "cycle of %d x %d rows behind 128", L, width + 1);
}

static void count_cycle(buf *out, const char *model, cycle *c, int L, int width)
{
    stage_table t = {0};
    backend *b = (backend *)cycle_backend(c);
    cycle_lane lane[LANES_MAX];
    cycle_result result[LANES_MAX];
    char name[64];
    fill_lanes(c, L, width, lane);
    tell_pass(c, L, BEGIN, width + 1, width > 0);
    stages_begin(b, &t);
    CHECK_STATUS(cycle_step(c, lane, L, result), ERR_OK);
    stages_end(b);
    put_case(&name, L, width);
    put_stages(out, model, name, &t);
}

/* ---- launches ----------------------------------------------------------------------------- */

#define LAUNCHES "cuda launches" /* in the lines that only a machine with a GPU can make */

static void put_launches(buf *out, const char *model, const char *name, const cycle *c,
                         const char *part)
{
    buf_printf(out, "%s,%s," LAUNCHES " %s,%lld,,\n", model, name, part,
               (long long)cycle_backend(c)->n_nodes);
}

/* Kernels, copies and fills of a cycle's graphs. */
static void count_launches(buf *out, const char *model, cycle *c, int L, int width)
{
    cycle_lane lane[LANES_MAX];
    cycle_result result[LANES_MAX];
    char name[64];
    int64_t before = cycle_backend(c)->n_captures;
    fill_lanes(c, L, width, lane);
    put_case(&name, L, width);
    if (width > 0) {
        CHECK_STATUS(cycle_run_half(c, lane, L, CYCLE_DRAFT), ERR_OK);
        put_launches(out, model, name, c, "of the draft");
        CHECK_STATUS(cycle_run_half(c, lane, L, CYCLE_VERIFY), ERR_OK);
        put_launches(out, model, name, c, "of the rest");
    } else {
        CHECK_STATUS(cycle_step(c, lane, L, result), ERR_OK);
        put_launches(out, model, name, c, "in all");
    }
    assert_int_equal(cycle_backend(c)->n_captures, before + 1 + (width > 0));
}

/* ---- steps and acceptance ----------------------------------------------------------------- */

static engine *open_engine(const char *model, int width)
{
    char target[4300], draft[4300];
    snprintf(target, sizeof target, "%s/models/%s", test_root(), model);
    snprintf(draft, sizeof draft, "%s/models/%s-dflash2", test_root(), model);
    return run_open(&(engine_options){.model = target,
                                      .draft = draft,
                                      .backend = "cpu",
                                      .n_lanes = 4,
                                      .max_context = 1024,
                                      .draft_rows = width});
}

/* Some prompts of the set, greedy and hot, and the allocations of all their steps. */
static void count_run(buf *out, const char *model, int width)
{
    engine *en = open_engine(model, width);
    prompts p;
    prompts_open(&p, engine_about(en)->chat_template);
    run_result *result = mem_new_array((size_t)p.list->n * 2, sizeof *result);
    int n = 0, i = 0;
    for (const json *x = p.list->first; x; x = x->next) {
        if (i++ % EVERY_PROMPT) continue;
        token_ids ids = prompts_encode(&p, x, engine_tokenizer(en));
        for (int hot = 0; hot < 2; hot++, n++)
            run_submit(en,
                       run_request(ids.ptr, ids.n, NEW_TOKENS, hot ? 0.8 : 0, 100 + (uint64_t)i),
                       &result[n]);
        token_ids_fini(&ids);
    }
    int64_t before = mem_count().n_calls;
    run_all(en);
    int64_t n_allocated = mem_count().n_calls - before;
    int64_t tokens[2] = {0}, cycles[2] = {0}, drafted[2] = {0}, accepted[2] = {0};
    for (i = 0; i < n; i++) {
        const run_choice *c = &result[i].choice[0];
        assert_true(c->is_done);
        tokens[i & 1] += c->n;
        cycles[i & 1] += c->usage.cycles;
        drafted[i & 1] += c->usage.drafted;
        accepted[i & 1] += c->usage.accepted;
    }
    for (int hot = 0; hot < 2; hot++) {
        char name[64];
        snprintf(name, sizeof name, "%d prompts at width %d %s", n / 2, width,
                 hot ? "temperature 0.8" : "greedy");
        buf_printf(out, "%s,%s,tokens,%lld,,\n", model, name, (long long)tokens[hot]);
        buf_printf(out, "%s,%s,cycles,%lld,,\n", model, name, (long long)cycles[hot]);
        buf_printf(out, "%s,%s,drafted,%lld,,\n", model, name, (long long)drafted[hot]);
        buf_printf(out, "%s,%s,accepted,%lld,,\n", model, name, (long long)accepted[hot]);
    }
    buf_printf(out, "%s,all steps at width %d,allocations,%lld,,\n", model, width,
               (long long)n_allocated);
    mem_free(result);
    prompts_close(&p);
    engine_close(en);
}

/* ---- the file ----------------------------------------------------------------------------- */

static str next_line(str *text)
{
    int64_t end = str_find(*text, STR("\n"), 0);
    size_t len = end < 0 ? text->len : (size_t)end;
    str line = {text->ptr, len};
    *text = str_skip(*text, end < 0 ? len : len + 1);
    return line;
}

static bool has_line(str text, str line)
{
    while (text.len > 0)
        if (str_equal(next_line(&text), line)) return true;
    return false;
}

/* Prints the lines of a that b lacks; returns their number. */
static int print_missing(str a, str b, char mark)
{
    int n = 0;
    while (a.len > 0) {
        str line = next_line(&a);
        if (has_line(b, line)) continue;
        if (n++ < SHOWN) print_message("%c %.*s\n", mark, STR_ARG(line));
    }
    if (n > SHOWN) print_message("%c … and %d more\n", mark, n - SHOWN);
    return n;
}

/* The lines about launches alone, or all others. */
static void put_lines(buf *out, str text, bool of_launches)
{
    while (text.len > 0) {
        str line = next_line(&text);
        if ((str_find(line, STR("," LAUNCHES), 0) >= 0) != of_launches) continue;
        buf_put_str(out, line);
        buf_put_c(out, "\n");
    }
}

static void compare(str want, str got)
{
    if (str_equal(want, got)) return;
    int n = print_missing(want, got, '-') + print_missing(got, want, '+');
    fail_msg("%d lines of tests/counts.csv differ%s. If that is meant: make counts, and say in the "
             "commit why.",
             n, n ? "" : " in their order");
}

/* Those lines of the file that are, or are not, about launches. */
static void read_file(arena *mem, bool of_launches, buf *out)
{
    char path[4300];
    str all;
    err e = {0};
    snprintf(path, sizeof path, "%s/tests/counts.csv", test_root());
    CHECK_OK(file_read(mem, path, 1 << 24, &all, &e), &e);
    buf_init(out);
    put_lines(out, all, of_launches);
}

static void write_file(const char *path, const buf *counts, const buf *launches)
{
    buf both;
    err e = {0};
    buf_init(&both);
    buf_put_str(&both, buf_str(counts));
    buf_put_str(&both, buf_str(launches));
    assert_false(both.failed);
    CHECK_OK(file_write(path, buf_str(&both), &e), &e);
    buf_fini(&both);
}

TEST(counts_are_those_of_the_file)
{
    buf out, want, launches;
    arena mem;
    buf_init(&out);
    arena_init(&mem, 0);
    buf_put_c(&out, "model,case,what,count,bytes,operations\n");
    for (int m = 0; m < 2; m++) {
        cycle *c = open_cycle("cpu", models[m]);
        count_prefill(&out, models[m], c);
        count_cycle(&out, models[m], c, 1, 0);
        count_cycle(&out, models[m], c, 1, 7);
        count_cycle(&out, models[m], c, LANES_MAX, 3);
        cycle_close(c);
        for (int i = 0; i < 3; i++) count_run(&out, models[m], widths[i]);
    }
    assert_false(out.failed);
    read_file(&mem, false, &want);
    read_file(&mem, true, &launches);
    const char *write_to = getenv("RIPTIDE_COUNTS_WRITE");
    if (write_to)
        write_file(write_to, &out, &launches);
    else
        compare(buf_str(&want), buf_str(&out));
    arena_fini(&mem);
    buf_fini(&want);
    buf_fini(&launches);
    buf_fini(&out);
}

TEST(launches_on_cuda_are_those_of_the_file)
{
    run_need_backend("cuda");
    buf out, want, counts;
    arena mem;
    buf_init(&out);
    arena_init(&mem, 0);
    for (int m = 0; m < 2; m++) {
        cycle *c = open_cycle("cuda", models[m]);
        count_launches(&out, models[m], c, 1, 0);
        count_launches(&out, models[m], c, 1, 7);
        count_launches(&out, models[m], c, LANES_MAX, 3);
        cycle_close(c);
    }
    assert_false(out.failed);
    read_file(&mem, true, &want);
    read_file(&mem, false, &counts);
    const char *write_to = getenv("RIPTIDE_COUNTS_WRITE");
    bool is_known = want.len > 0;
    if (write_to)
        write_file(write_to, &counts, &out);
    else if (is_known)
        compare(buf_str(&want), buf_str(&out));
    arena_fini(&mem);
    buf_fini(&want);
    buf_fini(&counts);
    buf_fini(&out);
    if (!write_to && !is_known) TEST_SKIP("the file has no launches yet: make counts");
}
