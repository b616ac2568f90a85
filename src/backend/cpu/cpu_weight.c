#include <string.h>

#include "backend/cpu/cpu_priv.h"
#include "tensor/half.h"
#include "tensor/quant.h"

/* Up to so many outputs a linear keeps f32 activations: a router, the gates of the delta rule and
 * of the shared expert. They cost next to nothing and what they decide weighs much. 8-bit codes
 * are where a checkpoint's author thought the same (MLX quantises routers to 8 bits). */
enum { F32_N = 64, F32_N_8BIT = 1024 };

static panel_format choose_format(const tensor *t, weight_use use, int64_t N)
{
    if (t->type == DTYPE_F32) return (panel_format){.kind = PANEL_F32};
    if (t->type == DTYPE_F16) return (panel_format){.kind = PANEL_F16};
    if (t->type == DTYPE_BF16) return (panel_format){.kind = PANEL_BF16};
    bool keeps_f32 = use == WEIGHT_LINEAR && N <= (t->bits == 8 ? F32_N_8BIT : F32_N);
    panel_format f = {.group = t->group == 32 ? 32 : 64,
                      .has_f32_scales = t->scale_type != DTYPE_BF16};
    if (t->bits <= 4)
        f.kind = keeps_f32 ? PANEL_FQ4 : PANEL_Q4;
    else
        f.kind = keeps_f32 ? PANEL_FQ8 : PANEL_Q8;
    return f;
}

int cpu_weight_layout(panel_format f)
{
    return (int)f.kind | f.group << 8 | (int)f.has_f32_scales << 16 | f.zero << 17;
}

panel_format cpu_weight_format(const dev_weight *w)
{
    return (panel_format){.kind = (panel_kind)(w->layout & 255),
                          .group = w->layout >> 8 & 255,
                          .has_f32_scales = w->layout >> 16 & 1,
                          .zero = w->layout >> 17 & 255};
}

/* ---- repacking ---------------------------------------------------------------------------- */

typedef struct {
    const tensor *t;
    dev_weight *w;
    panel_format format;
} pack_job;

static float load_scale(const void *values, int64_t i, dtype type)
{
    const uint8_t *p = values;
    uint16_t h;
    float f;
    if (type == DTYPE_F32) {
        memcpy(&f, p + 4 * i, 4);
        return f;
    }
    memcpy(&h, p + 2 * i, 2);
    return type == DTYPE_F16 ? half_from_f16(h) : half_from_bf16(h);
}

/* Scales and biases of 16 outputs from n0 on, for the file's group g. */
static void pack_head(const tensor *t, panel_format f, int64_t n0, int64_t g, uint8_t *out)
{
    int64_t n_groups = t->shape[1] / t->group;
    const void *parts[2] = {t->scales, t->biases};
    for (int s = 0; s < 2; s++) {
        for (int64_t i = 0; i < PANEL_N; i++) {
            bool is_there = n0 + i < t->shape[0];
            int64_t at = (n0 + i) * n_groups + g, to = s * PANEL_N + i;
            if (f.has_f32_scales) {
                float v = is_there ? load_scale(parts[s], at, t->scale_type) : 0;
                memcpy(out + 4 * to, &v, 4);
            } else {
                uint16_t v = 0;
                if (is_there) memcpy(&v, (const uint8_t *)parts[s] + 2 * at, 2);
                memcpy(out + 2 * to, &v, 2);
            }
        }
    }
}

/* 32 codes from `bits` little-endian words. */
static void unpack_codes(const uint8_t *p, int bits, uint8_t *q)
{
    uint32_t word[9] = {0};
    memcpy(word, p, 4 * (size_t)bits);
    for (int i = 0; i < 32; i++) {
        int at = i * bits;
        uint64_t pair = word[at / 32] | (uint64_t)word[at / 32 + 1] << 32;
        q[i] = (uint8_t)(pair >> (at % 32) & ((1u << bits) - 1));
    }
}

/* Half-bytes 0 .. 3 of x to the low halves of 4 bytes. */
static uint32_t spread_halves(uint32_t x)
{
    x = (x | x << 8) & 0x00ff00ff;
    return (x | x << 4) & 0x0f0f0f0f;
}

/* One output's codes of a block to its lane (cpu_panel_priv.h): a u32 at out + 64 * run. */
static void pack_lane(const uint8_t *src, int bits, panel_format f, uint8_t *out)
{
    bool is_4bit = panel_is_4bit(f.kind);
    for (int k = 0; k < f.group; k += 32, src += 4 * bits) {
        uint8_t q[32];
        if (bits != 4) unpack_codes(src, bits, q);
        for (int run = 0; run < (is_4bit ? 4 : 8); run++, out += 64) {
            uint32_t lane;
            if (bits == 4) {
                memcpy(&lane, src + 4 * run, 4);
                lane = spread_halves(lane & 0xffff) | spread_halves(lane >> 16) << 4;
            } else if (is_4bit) {
                uint32_t low, high;
                memcpy(&low, q + 8 * run, 4);
                memcpy(&high, q + 8 * run + 4, 4);
                lane = low | high << 4;
            } else {
                memcpy(&lane, q + 4 * run, 4);
            }
            memcpy(out, &lane, 4);
        }
    }
}

static void pack_affine(const tensor *t, panel_format f, int64_t n0, uint8_t *out)
{
    int64_t K = t->shape[1], row_bytes = quant_affine_row_bytes(K, t->bits);
    int head = panel_head_bytes(f);
    for (int64_t k0 = 0; k0 < K; k0 += f.group, out += panel_block_bytes(f)) {
        pack_head(t, f, n0, k0 / t->group, out);
        for (int64_t i = 0; i < PANEL_N && n0 + i < t->shape[0]; i++) {
            const uint8_t *src = (const uint8_t *)t->data + (n0 + i) * row_bytes + k0 * t->bits / 8;
            pack_lane(src, t->bits, f, out + head + 4 * i);
        }
    }
}

/* Elements of `size` bytes: [N][K] to [K][16]. */
static void pack_plain(const tensor *t, int64_t n0, int64_t size, uint8_t *out)
{
    int64_t K = t->shape[1];
    for (int64_t i = 0; i < PANEL_N && n0 + i < t->shape[0]; i++) {
        const uint8_t *src = (const uint8_t *)t->data + (n0 + i) * K * size;
        if (size == 4)
            for (int64_t k = 0; k < K; k++) memcpy(out + (k * PANEL_N + i) * 4, src + k * 4, 4);
        else
            for (int64_t k = 0; k < K; k++) memcpy(out + (k * PANEL_N + i) * 2, src + k * 2, 2);
    }
}

static void pack_panels(void *ctx, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const pack_job *j = ctx;
    int64_t n_panels = cpu_weight_panels(j->w), n_bytes = panel_bytes(j->format, j->w->K);
    for (int64_t i = begin; i < end; i++) {
        int64_t n0 = i % n_panels * PANEL_N;
        tensor t = j->w->use == WEIGHT_EXPERTS ? tensor_slice(j->t, i / n_panels) : *j->t;
        uint8_t *out = (uint8_t *)j->w->data.ptr + i * n_bytes;
        if (panel_is_affine(j->format.kind))
            pack_affine(&t, j->format, n0, out);
        else
            pack_plain(&t, n0, dtype_bits(t.type) / 8, out);
    }
}

/* ---- open and close ----------------------------------------------------------------------- */

static bool is_known(const tensor *t)
{
    return dtype_is_float(t->type) || dtype_is_block(t->type) ||
           (t->type == DTYPE_AFFINE && quant_affine_is_valid(t->bits, t->group));
}

status cpu_weight_open(backend *b, const tensor *t, weight_use use, dev_weight *out, err *e)
{
    char text[80];
    int n_dims = use == WEIGHT_EXPERTS ? 3 : 2;
    if (!is_known(t) || t->n_dims != n_dims)
        return err_set(e, ERR_UNSUPPORTED, "cpu weight", -1, "%s as a weight of %d dimensions",
                       tensor_format(t, text, sizeof text), n_dims);
    dev_weight w = {.type = t->type, .bits = t->bits, .group = t->group, .use = use, .X = 1};
    if (n_dims == 3) w.X = (int)t->shape[0];
    w.N = t->shape[n_dims - 2];
    w.K = t->shape[n_dims - 1];
    if (t->type == DTYPE_AFFINE && w.K % t->group != 0)
        return err_set(e, ERR_UNSUPPORTED, "cpu weight", -1, "%s: rows are no whole groups",
                       tensor_format(t, text, sizeof text));
    if (use == WEIGHT_TABLE) { /* rows are looked up in the file's own pages */
        w.view = *t;
        w.n_bytes = t->n_bytes;
        *out = w;
        return ERR_OK;
    }
    if (dtype_is_block(t->type)) return cpu_block_weight_open(b, t, use, out, e);
    panel_format f = choose_format(t, use, w.N);
    w.layout = cpu_weight_layout(f);
    w.n_bytes = w.X * cpu_weight_panels(&w) * panel_bytes(f, w.K);
    cpu_chunk *chunk;
    void *panels = cpu_pool_take(&cpu_of(b)->weights, w.n_bytes, &chunk);
    if (!panels)
        return err_set(e, ERR_NOMEM, "cpu weight", -1, "%lld bytes for %s", (long long)w.n_bytes,
                       tensor_format(t, text, sizeof text));
    w.owned = chunk;
    w.data = (dev_buf){panels, w.n_bytes};
    pack_job j = {t, &w, f};
    workers_for(cpu_of(b)->pool, w.X * cpu_weight_panels(&w), 1, pack_panels, &j);
    *out = w;
    return ERR_OK;
}

void cpu_weight_close(backend *b, dev_weight *w)
{
    (void)b;
    cpu_pool_drop(w->owned);
    *w = (dev_weight){0};
}
