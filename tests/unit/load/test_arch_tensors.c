#include "load/arch_tensors_priv.h"
#include "support/test.h"

typedef struct {
    int n;
    int64_t n_elements;
    int stop_at;
} counter;

static status count(void *ctx, const arch_tensor *t, err *e)
{
    counter *c = ctx;
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++) n *= t->shape[i];
    c->n_elements += n;
    if (++c->n == c->stop_at) return err_set(e, ERR_FORMAT, t->name, -1, "stop");
    return ERR_OK;
}

static void set_layers(arch_target *a, int n)
{
    a->n_layers = n;
    for (int i = 0; i < n; i++) a->layer_type[i] = i % 4 == 3 ? ARCH_LAYER_ATTN : ARCH_LAYER_GDN;
}

static arch_target dense_27b(void)
{
    arch_target a = {.family = ARCH_QWEN35,
                     .E = 5120,
                     .V = 248320,
                     .H = 24,
                     .G = 4,
                     .D = 256,
                     .has_output_gate = true,
                     .gdn_Hk = 16,
                     .gdn_Hv = 48,
                     .gdn_dk = 128,
                     .gdn_dv = 128,
                     .gdn_conv = 4,
                     .F = 17408};
    set_layers(&a, 64);
    return a;
}

/* Model-spec 1.1: 26 895 998 464 parameters of text, 851 tensors. */
TEST(the_dense_target_has_the_published_totals)
{
    arch_target a = dense_27b();
    counter c = {0};
    assert_int_equal(arch_tensors_target(&a, count, &c, NULL), ERR_OK);
    assert_int_equal(c.n, 851);
    assert_true(c.n_elements == 26895998464);
    counter tied = {0};
    a.is_tied = true;
    arch_tensors_target(&a, count, &tied, NULL);
    assert_int_equal(tied.n, 850);
    assert_true(tied.n_elements == c.n_elements - 248320ll * 5120);
    a.has_output_gate = false;
    counter open = {0};
    arch_tensors_target(&a, count, &open, NULL);
    assert_true(open.n_elements == tied.n_elements - 16 * 6144ll * 5120);
}

/* Model-spec 1.1: embedding, 40 layers, head with final norm. The fused gate_up of the files counts
 * one tensor less a layer than gate and up. */
TEST(the_expert_target_has_the_published_totals)
{
    arch_target a = {.family = ARCH_QWEN35_MOE,
                     .E = 2048,
                     .V = 248320,
                     .H = 16,
                     .G = 2,
                     .D = 256,
                     .has_output_gate = true,
                     .gdn_Hk = 16,
                     .gdn_Hv = 32,
                     .gdn_dk = 128,
                     .gdn_dv = 128,
                     .gdn_conv = 4,
                     .X = 256,
                     .K = 8,
                     .moe_F = 512,
                     .shared_F = 512};
    set_layers(&a, 40);
    counter c = {0};
    assert_int_equal(arch_tensors_target(&a, count, &c, NULL), ERR_OK);
    assert_int_equal(c.n, 693 + 40);
    assert_true(c.n_elements == 508559360 + 33643489920 + 508561408);
}

/* Model-spec 1.4, 1.5. */
TEST(the_drafts_have_the_published_totals)
{
    arch_draft d = {
        .n_layers = 6, .E = 2048, .F = 6144, .H = 32, .G = 8, .D = 128, .V = 248320, .n_taps = 8};
    counter c = {0};
    assert_int_equal(arch_tensors_draft(&d, count, &c, NULL), ERR_OK);
    assert_int_equal(c.n, 69);
    assert_true(c.n_elements == 385906176);
    d.is_v2 = true;
    d.conv_taps = 2;
    d.conv_group = 16;
    d.select_rank = 256;
    c = (counter){0};
    arch_tensors_draft(&d, count, &c, NULL);
    assert_int_equal(c.n, 96);
    assert_true(c.n_elements == 526251520);
    d = (arch_draft){.is_v2 = true,
                     .n_layers = 5,
                     .E = 5120,
                     .F = 17408,
                     .H = 32,
                     .G = 8,
                     .D = 128,
                     .V = 248320,
                     .n_taps = 5,
                     .conv_taps = 2,
                     .conv_group = 16,
                     .select_rank = 256};
    c = (counter){0};
    arch_tensors_draft(&d, count, &c, NULL);
    assert_int_equal(c.n, 81);
    assert_true(c.n_elements == 1924404480);
}

TEST(the_first_failure_ends_the_walk)
{
    arch_target a = dense_27b();
    err e = {0};
    for (int at = 1; at <= 851; at += 50) {
        counter c = {.stop_at = at};
        CHECK_STATUS(arch_tensors_target(&a, count, &c, &e), ERR_FORMAT);
        assert_int_equal(c.n, at);
    }
}
