/* Random checkpoints: they load, decode, repeat, and the dial is what it says. tags: slow */
#include <glob.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "bench/make_priv.h"
#include "decode/cycle.h"
#include "load/load.h"
#include "support/test.h"
#include "unit/bench/small_shape.h"

static const shape small_moe = {.name = "small",
                                .E = 256,
                                .n_layers = 4,
                                .H = 2,
                                .G = 1,
                                .gdn_Hk = 2,
                                .gdn_Hv = 4,
                                .X = 16,
                                .K = 4,
                                .moe_F = 128,
                                .V = 3072,
                                .draft = {2, 384, 2, 1, 3000, 2, {1, 2}}};

static char dir[64], draft_dir[80];

static void make(const shape *s, double dial)
{
    err e;
    make_result out;
    snprintf(dir, sizeof dir, "/tmp/riptide_make_XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(draft_dir, sizeof draft_dir, "%s-dflash2", dir);
    make_request r = {.s = *s, .seed = 7, .dial = dial, .out = dir};
    CHECK_OK(make_checkpoint(&r, &out, &e), &e);
    assert_true(out.target_bytes > 0 && out.draft_bytes > 0);
}

static void clean(void)
{
    char pattern[100];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s*/*", dir);
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++) unlink(found.gl_pathv[i]);
    globfree(&found);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(rmdir(draft_dir), 0);
}

/* Decode n cycles of `width` proposals after a prompt of 3; how many proposals were right. */
static int decode(int n, int width, double temperature, int32_t *last)
{
    err e;
    cycle *c;
    cycle_options o = {.model = dir,
                       .draft = draft_dir,
                       .backend = "cpu",
                       .n_threads = 1,
                       .n_slots = 1,
                       .prefill_rows = 16,
                       .max_context = 1024,
                       .max_draft = width};
    CHECK_OK(cycle_open(&c, &o, &e), &e);
    sample_policy policy = {
        .temperature = (float)temperature, .top_p = 1, .repetition = 1, .seed = 11};
    int32_t ids[3] = {5, 6, 7}, blocks[16];
    for (int i = 0; i < 16; i++) blocks[i] = i;
    CHECK_STATUS(cycle_set_blocks(c, 0, 0, blocks, 16), ERR_OK);
    CHECK_STATUS(cycle_set_policy(c, 0, &policy, NULL), ERR_OK);
    CHECK_STATUS(cycle_reset(c, 0), ERR_OK);
    cycle_slice slice = {.ids = ids, .n = 2, .prompt_end = 2};
    CHECK_STATUS(cycle_prefill(c, &slice, 1), ERR_OK);
    int64_t pos = 2;
    int accepted = 0;
    *last = 7;
    for (int i = 0; i < n; i++) {
        cycle_lane lane = {.anchor = *last, .pos = pos, .n_draft = width, .max_new = width + 1};
        cycle_result r;
        CHECK_STATUS(cycle_step(c, &lane, 1, &r), ERR_OK);
        pos += r.n;
        *last = r.ids[r.n - 1];
        accepted += r.n_accepted;
    }
    cycle_close(c);
    return accepted;
}

static void check_loads(const shape *s)
{
    err e;
    load_model m, d;
    make(s, -1);
    CHECK_OK(load_model_open(&m, dir, &e), &e);
    CHECK_OK(load_model_open(&d, draft_dir, &e), &e);
    assert_string_equal(m.format, "mlx");
    assert_false(m.target.has_norm_offset);
    assert_int_equal(m.target.E, s->E);
    assert_int_equal(m.target.X, s->X);
    assert_int_equal(m.target.is_tied, s->is_tied);
    assert_true(d.draft.is_v2);
    CHECK_OK(load_check_pair(&m.target, &d.draft, &e), &e);
    load_model_close(&d);
    load_model_close(&m);
    int32_t first, again;
    decode(4, 3, 0, &first);
    decode(4, 3, 0, &again);
    assert_int_equal(first, again);
    assert_true(first >= 0 && first < s->V);
    clean();
}

TEST(a_small_dense_model_loads_and_decodes)
{
    check_loads(&small_dense);
}

TEST(a_small_moe_model_loads_and_decodes)
{
    check_loads(&small_moe);
}

TEST(with_the_dial_at_one_every_proposal_is_right)
{
    int32_t last;
    make(&small_moe, 1);
    assert_int_equal(decode(6, 7, 0, &last), 6 * 7);
    assert_int_equal(last, MAKE_CONSTANT_ID);
    clean();
}

/* With one proposal a cycle each is right with probability D: 400 of them, five deviations. */
TEST(the_dial_is_the_share_of_right_proposals)
{
    int32_t last;
    make(&small_dense, 0.7);
    int right = decode(400, 1, 1, &last);
    clean();
    if (abs(right - 280) > 46) fail_msg("%d of 400 proposals were right, want about 280", right);
}

/* Any cut of a tensor gives the same bytes as the whole. */
TEST(a_tensor_is_the_same_in_any_pieces)
{
    make_request r = {.s = small_moe, .seed = 7, .dial = 0.5};
    static uint8_t whole[1 << 20], parts[1 << 20];
    plan p;
    plan_init(&p, 3);
    make_target_plan(&p, &r);
    assert_false(p.failed);
    for (int i = 0; i < p.n; i++) {
        const plan_tensor *t = &p.list[i];
        if (t->n_bytes > (int64_t)sizeof whole) continue;
        plan_fill(t, 0, t->n_bytes, whole);
        for (int64_t at = 0; at < t->n_bytes; at += 1000)
            plan_fill(t, at, t->n_bytes - at < 1000 ? t->n_bytes - at : 1000, parts + at);
        if (memcmp(whole, parts, (size_t)t->n_bytes) != 0) fail_msg("%s differs", t->name);
    }
    plan_fini(&p);
}

TEST(shards_hold_what_fits_and_each_tensor_once)
{
    make_request r = {.s = small_dense, .dial = -1};
    const int64_t most = 100000;
    plan p;
    plan_init(&p, 1);
    make_target_plan(&p, &r);
    plan_shard(&p, most);
    assert_true(p.n_shards > 2);
    int64_t end = 0, sum = 0;
    for (int i = 0; i < p.n; i++) {
        const plan_tensor *t = &p.list[i];
        bool is_first = i == 0 || t->shard != p.list[i - 1].shard;
        assert_int_equal(t->offset, is_first ? 0 : end);
        end = t->offset + t->n_bytes;
        assert_true(end <= most || is_first);
        sum += t->n_bytes;
    }
    assert_int_equal(sum, p.n_bytes);
    plan_fini(&p);
}

TEST(the_real_shapes_have_their_published_sizes)
{
    static const struct {
        const char *name;
        int64_t draft_bytes;
        int n_draft;
    } known[] = {{"27b", 1924404480 * 2LL, 81}, {"35b-a3b", 526251520 * 2LL, 96}};
    for (int i = 0; i < 2; i++) {
        make_request r = {.s = *shape_find(known[i].name), .dial = -1};
        plan p;
        plan_init(&p, 1);
        make_draft_plan(&p, &r);
        plan_shard(&p, INT64_MAX);
        assert_int_equal(p.n, known[i].n_draft);
        assert_int_equal(p.n_bytes, known[i].draft_bytes);
        plan_fini(&p);
    }
    make_request r = {.s = *shape_find("27b"), .dial = -1};
    plan p;
    plan_init(&p, 1);
    make_target_plan(&p, &r);
    assert_int_equal(p.n, 2180 - 333); /* without vision: model-spec 4.2 */
    plan_fini(&p);
    assert_null(shape_find("28b"));
}

TEST(a_model_of_several_files_loads)
{
    err e;
    make_result out;
    load_model m;
    char path[200];
    snprintf(dir, sizeof dir, "/tmp/riptide_make_XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(draft_dir, sizeof draft_dir, "%s-dflash2", dir);
    make_request r = {.s = small_moe, .dial = -1, .out = dir, .file_bytes = 4 << 20};
    CHECK_OK(make_checkpoint(&r, &out, &e), &e);
    assert_true(out.target_files >= 2);
    CHECK_OK(load_model_open(&m, dir, &e), &e);
    assert_int_equal(weights_bytes(m.weights), out.target_bytes);
    load_model_close(&m);
    snprintf(path, sizeof path, "%s/model-00001-of-%05d.safetensors", dir, out.target_files);
    assert_true(file_exists(path));
    clean();
}

/* A folder that cannot be made whole is no model. */
TEST(running_out_of_memory_leaves_no_model)
{
    snprintf(dir, sizeof dir, "/tmp/riptide_make_XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(draft_dir, sizeof draft_dir, "%s-dflash2", dir);
    make_request r = {.s = small_dense, .dial = 0.5, .out = dir};
    char config[100];
    err e;
    make_result out;
    snprintf(config, sizeof config, "%s/config.json", dir);
    int64_t n = 1, live = mem_count().n_live;
    for (; n < 400; n += 1 + n / 4) {
        mem_fail_at(n);
        status s = make_checkpoint(&r, &out, &e);
        mem_fail_at(0);
        assert_int_equal(mem_count().n_live, live);
        if (s == ERR_OK) break;
        assert_false(file_exists(config));
    }
    assert_true(n > 5 && n < 400);
    clean();
}

TEST(fewer_layers_keep_the_taps_inside)
{
    for (int n = 2; n < 64; n++) {
        shape s = *shape_find("35b-a3b");
        shape_set_layers(&s, n);
        assert_true(s.draft.n_taps >= 1);
        for (int i = 0; i < s.draft.n_taps; i++) {
            assert_true(s.draft.taps[i] < n);
            if (i > 0) assert_true(s.draft.taps[i] > s.draft.taps[i - 1]);
        }
    }
}
