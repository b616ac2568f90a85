/* tags: threads, fast */
/* links: decode */
/* Checkpoints of one model in both conventions, with the tensors of a multi-token head and without:
 * Hugging Face's norms hold w, MLX's 1 + w. Right logits, or a refusal; never 1 added twice. */
#include "decode/cycle.h"
#include "unit/load/fixture_checkpoint.h"

enum { N_IDS = 8 };

typedef struct {
    bool is_mlx, has_mtp;
    double mean; /* of the layer norms */
} shape;

/* As converters leave them behind; their norms follow the file's convention. */
static void add_mtp(fixture *f, const shape *s)
{
    const char *prefix = s->is_mlx ? "language_model." : "";
    static const char *const norms[] = {"mtp.norm.weight", "mtp.pre_fc_norm_embedding.weight",
                                        "mtp.pre_fc_norm_hidden.weight",
                                        "mtp.layers.0.input_layernorm.weight"};
    int64_t width = FX_E, fc[] = {FX_E, 2 * FX_E};
    char name[100];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s%s", prefix, norms[i]);
        fixture_add_plain(f, name, norms[i], DTYPE_F32, 1, &width, s->mean);
    }
    snprintf(name, sizeof name, "%smtp.fc.weight", prefix);
    fixture_add_plain(f, name, "mtp.fc.weight", DTYPE_F32, 2, fc, 0);
}

/* OK with logits [N_IDS, V], or the status of opening it. */
static status open_logits(const shape *s, float *out, err *e)
{
    fixture f;
    cycle *c = NULL;
    int32_t ids[N_IDS];
    fixture_spec spec = {
        .is_mlx = s->is_mlx, .type = DTYPE_F32, .has_norm_mean = true, .norm_mean = s->mean};
    fixture_init(&f);
    fixture_target(&f, &spec);
    if (s->has_mtp) add_mtp(&f, s);
    fixture_write(&f);
    cycle_options o = {.model = f.dir,
                       .backend = "ref",
                       .n_slots = 1,
                       .prefill_rows = N_IDS,
                       .max_context = 64,
                       .kv = KV_F32,
                       .logit_rows = N_IDS};
    for (int i = 0; i < N_IDS; i++) ids[i] = i * 11 % FX_V;
    status st = cycle_open(&c, &o, e);
    if (st == ERR_OK) {
        cycle_probe_args a = {.ids = ids, .n = N_IDS, .rows = N_IDS, .logits = out};
        CHECK_OK(cycle_probe(c, &a, e), e);
    }
    cycle_close(c);
    fixture_fini(&f);
    return st;
}

TEST(each_convention_gives_the_same_logits_and_the_others_are_refused)
{
    static float want[N_IDS * FX_V], got[N_IDS * FX_V];
    err e = {0};
    CHECK_OK(open_logits(&(shape){0}, want, &e), &e);
    double size = 0;
    for (int i = 0; i < N_IDS * FX_V; i++) size += fabs((double)want[i]);
    assert_true(isfinite(size) && size > 0);
    for (int i = 0; i < 8; i++) {
        shape s = {.is_mlx = i & 1, .has_mtp = i & 2, .mean = i & 4 ? 1 : 0};
        bool is_right = s.is_mlx == (s.mean > 0.5);
        memset(got, 0, sizeof got);
        status st = open_logits(&s, got, &e);
        if (!is_right) {
            CHECK_STATUS(st, ERR_FORMAT);
            assert_non_null(strstr(e.msg, "norms and convolutions disagree"));
            continue;
        }
        CHECK_OK(st, &e);
        double diff = 0;
        for (int k = 0; k < N_IDS * FX_V; k++) diff += fabs((double)got[k] - (double)want[k]);
        if (!(diff <= 1e-6 * size))
            fail_msg("%s, %s: %g of %g", s.is_mlx ? "MLX" : "Hugging Face",
                     s.has_mtp ? "with a multi-token head" : "without", diff, size);
    }
}
