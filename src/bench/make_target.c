/* The target's tensors: model-spec 1.1, 4.2. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/make_priv.h"
#include "tensor/half.h"

enum { HEAD = 256, GDN_HEAD = 128, GROUP = 64 };
static const double ANCHOR_SCALE = 4.25; /* a bf16 number; times code 15 it is column 0 */
static const double NOISE = 0.02;        /* of the other columns */

typedef struct {
    plan *p;
    const make_request *r;
    double block; /* make_block_scale */
    char prefix[64];
} maker;

double make_block_scale(const make_request *r, int n_layers)
{
    return r->dial >= 0 ? 0.002 : 1 / sqrt(2.0 * n_layers);
}

/* ---- pieces ------------------------------------------------------------------------------- */

/* Codes, scales and biases of [X, N, K] (X = 0: [N, K]) with a standard deviation. `centre` is the
 * code whose value is zero. */
static void add_affine(maker *m, const char *module, int bits, const int64_t dims[3], double std,
                       double centre)
{
    double spread = bits == 4 ? 4.61 : 73.9; /* standard deviation of a uniform code */
    int first = dims[0] == 0, n_dims = 3 - first;
    int64_t codes[3] = {dims[0], dims[1], dims[2] * bits / 32};
    int64_t groups[3] = {dims[0], dims[1], dims[2] / GROUP};
    plan_tensor *w = plan_add(m->p, DTYPE_U32, codes + first, n_dims, "language_model.%s%s.weight",
                              m->prefix, module);
    const uint16_t *levels = plan_levels(m->p, std / spread * 0.8, std / spread * 1.2);
    uint16_t *biases = arena_new_array(&m->p->mem, 256, sizeof *biases);
    if (!biases) m->p->failed = true;
    for (int i = 0; biases && i < 256; i++)
        biases[i] = half_to_bf16((float)(-centre * (double)half_from_bf16(levels[i])));
    plan_tensor *s = plan_add(m->p, DTYPE_BF16, groups + first, n_dims,
                              "language_model.%s%s.scales", m->prefix, module);
    uint64_t key = s->key;
    s->levels = levels;
    plan_tensor *b = plan_add(m->p, DTYPE_BF16, groups + first, n_dims,
                              "language_model.%s%s.biases", m->prefix, module);
    b->key = key; /* a group's bias belongs to its scale */
    b->levels = biases ? biases : levels;
    (void)w;
}

static void add_linear(maker *m, const char *module, int64_t N, int64_t K, double gain)
{
    add_affine(m, module, 4, (int64_t[3]){0, N, K}, gain / sqrt((double)K), 7.5);
}

static void add_vector(maker *m, const char *name, int64_t n, double lo, double hi)
{
    plan_tensor *t = plan_add(m->p, DTYPE_BF16, &n, 1, "language_model.%s%s", m->prefix, name);
    t->levels = plan_levels(m->p, lo, hi);
}

/* ---- the constant token ------------------------------------------------------------------- */

static plan_edge *new_edge(plan *p, int n)
{
    plan_edge *edge = arena_new(&p->mem, sizeof *edge);
    if (edge) edge->n = n;
    if (!edge) p->failed = true;
    return edge;
}

static void put_bf16(uint8_t *at, double v)
{
    uint16_t h = half_to_bf16((float)v);
    memcpy(at, &h, 2);
}

/* Every row of the table added last: column 0 = 15 * ANCHOR_SCALE, the rest of its group zero. */
static void set_anchor_column(plan *p)
{
    plan_edge *codes = new_edge(p, GROUP / 2), *scale = new_edge(p, 2), *bias = new_edge(p, 2);
    if (p->failed) return;
    codes->value[0] = 15;
    put_bf16(scale->value, ANCHOR_SCALE);
    p->list[p->n - 3].edge = codes;
    p->list[p->n - 2].edge = scale;
    p->list[p->n - 1].edge = bias;
}

/* Column 0 of the weight added last is exactly zero: its code is the centre. */
static void set_zero_column(plan *p, int bits)
{
    plan_edge *codes = new_edge(p, 1);
    if (p->failed) return;
    codes->keep[0] = bits == 4 ? 0xf0 : 0;
    codes->value[0] = (uint8_t)(1 << (bits - 1));
    p->list[p->n - 3].edge = codes;
}

static plan_mark *new_mark(plan *p, int64_t row, int n_edge)
{
    plan_mark *mark = arena_new(&p->mem, sizeof *mark);
    if (!mark) {
        p->failed = true;
        return NULL;
    }
    mark->row = row;
    mark->edge.n = n_edge;
    return mark;
}

/* One row of the head added last: `value` in column 0, zeros behind. The code is the one whose
 * bf16 scale comes nearest. */
static void set_constant_row(plan *p, double value)
{
    plan_mark *codes = new_mark(p, MAKE_CONSTANT_ID, GROUP / 2);
    plan_mark *scale = new_mark(p, MAKE_CONSTANT_ID, 2), *bias = new_mark(p, MAKE_CONSTANT_ID, 2);
    if (p->failed) return;
    int best = 1;
    double best_off = INFINITY;
    for (int q = 1; q < 16; q++) {
        double off = fabs(q * (double)half_from_bf16(half_to_bf16((float)(value / q))) - value);
        if (off < best_off) best = q;
        if (off < best_off) best_off = off;
    }
    codes->fill[0] = codes->fill[1] = 0x88;
    codes->edge.value[0] = (uint8_t)best;
    put_bf16(scale->fill, 0x1p-10);
    put_bf16(bias->fill, -0x1p-7);
    put_bf16(scale->edge.value, value / best);
    p->list[p->n - 3].mark = codes;
    p->list[p->n - 2].mark = scale;
    p->list[p->n - 1].mark = bias;
}

/* The logit at which the constant id has probability `dial` among V ids of logit 0. */
static double constant_logit(double dial, int V)
{
    if (dial >= 1) return 60;
    return dial <= 0 ? 0 : log(dial / (1 - dial)) + log((double)V - 1);
}

/* ---- layers ------------------------------------------------------------------------------- */

static void add_attention(maker *m)
{
    const shape *s = &m->r->s;
    add_linear(m, "self_attn.q_proj", 2 * s->H * HEAD, s->E, 1);
    add_linear(m, "self_attn.k_proj", s->G * HEAD, s->E, 1);
    add_linear(m, "self_attn.v_proj", s->G * HEAD, s->E, 1);
    add_linear(m, "self_attn.o_proj", s->E, s->H * HEAD, m->block);
    add_vector(m, "self_attn.q_norm.weight", HEAD, 0.9, 1.1);
    add_vector(m, "self_attn.k_norm.weight", HEAD, 0.9, 1.1);
}

static void add_delta_rule(maker *m)
{
    const shape *s = &m->r->s;
    int64_t value = s->gdn_Hv * GDN_HEAD, C = 2 * s->gdn_Hk * GDN_HEAD + value;
    add_linear(m, "linear_attn.in_proj_qkv", C, s->E, 1);
    add_linear(m, "linear_attn.in_proj_z", value, s->E, 1);
    add_linear(m, "linear_attn.in_proj_b", s->gdn_Hv, s->E, 1);
    add_linear(m, "linear_attn.in_proj_a", s->gdn_Hv, s->E, 1);
    plan_tensor *conv = plan_add(m->p, DTYPE_BF16, (int64_t[3]){C, 4, 1}, 3,
                                 "language_model.%slinear_attn.conv1d.weight", m->prefix);
    conv->levels = plan_levels(m->p, -0.87, 0.87);
    add_vector(m, "linear_attn.A_log", s->gdn_Hv, 0, 2.5);
    add_vector(m, "linear_attn.dt_bias", s->gdn_Hv, -4, 0);
    add_vector(m, "linear_attn.norm.weight", GDN_HEAD, 0.9, 1.1);
    add_linear(m, "linear_attn.out_proj", s->E, value, m->block);
}

/* The router sees no constant column: rows would all choose the same experts. */
static void add_experts(maker *m)
{
    const shape *s = &m->r->s;
    double in = 1 / sqrt((double)s->E), out = m->block / sqrt((double)s->moe_F);
    add_affine(m, "mlp.gate", 8, (int64_t[3]){0, s->X, s->E}, 3 * in, 128);
    if (m->r->dial >= 0) set_zero_column(m->p, 8);
    add_affine(m, "mlp.switch_mlp.gate_proj", 4, (int64_t[3]){s->X, s->moe_F, s->E}, in, 7.5);
    add_affine(m, "mlp.switch_mlp.up_proj", 4, (int64_t[3]){s->X, s->moe_F, s->E}, in, 7.5);
    add_affine(m, "mlp.switch_mlp.down_proj", 4, (int64_t[3]){s->X, s->E, s->moe_F}, out, 7.5);
    add_linear(m, "mlp.shared_expert.gate_proj", s->moe_F, s->E, 1);
    add_linear(m, "mlp.shared_expert.up_proj", s->moe_F, s->E, 1);
    add_linear(m, "mlp.shared_expert.down_proj", s->E, s->moe_F, m->block);
    add_affine(m, "mlp.shared_expert_gate", 8, (int64_t[3]){0, 1, s->E}, in, 127.5);
}

static void add_layer(maker *m, int i)
{
    const shape *s = &m->r->s;
    snprintf(m->prefix, sizeof m->prefix, "model.layers.%d.", i);
    add_vector(m, "input_layernorm.weight", s->E, 0.9, 1.1);
    add_vector(m, "post_attention_layernorm.weight", s->E, 0.9, 1.1);
    if ((i + 1) % SHAPE_FULL_EVERY == 0)
        add_attention(m);
    else
        add_delta_rule(m);
    if (s->X > 0) {
        add_experts(m);
        return;
    }
    add_linear(m, "mlp.gate_proj", s->F, s->E, 1);
    add_linear(m, "mlp.up_proj", s->F, s->E, 1);
    add_linear(m, "mlp.down_proj", s->E, s->F, m->block);
}

void make_target_plan(plan *p, const make_request *r)
{
    const shape *s = &r->s;
    maker m = {.p = p, .r = r, .block = make_block_scale(r, s->n_layers)};
    double root = sqrt((double)s->E);
    bool is_constant = r->dial >= 0;
    snprintf(m.prefix, sizeof m.prefix, "model.");
    add_affine(&m, "embed_tokens", 4, (int64_t[3]){0, s->V, s->E}, is_constant ? NOISE : 0.03, 7.5);
    if (is_constant) set_anchor_column(p);
    for (int i = 0; i < s->n_layers; i++) add_layer(&m, i);
    snprintf(m.prefix, sizeof m.prefix, "model.");
    add_vector(&m, "norm.weight", s->E, 1, 1);
    if (make_is_tied(r)) return;
    m.prefix[0] = '\0';
    add_affine(&m, "lm_head", 4, (int64_t[3]){0, s->V, s->E}, is_constant ? NOISE : 3 / root, 8);
    if (!is_constant) return;
    set_zero_column(p, 4);
    set_constant_row(p, constant_logit(r->dial, s->V) / root);
}
