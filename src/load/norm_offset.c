#include "load/norm_offset_priv.h"

#include <math.h>
#include <stdio.h>

#include "base/mem.h"

/* Training pulls w towards zero, so a mean outside (-0.75, 0.75) is not believable as w, nor one
 * outside (0.25, 1.75) as 1 + w. Between 0.25 and 0.75 the layout alone decides. A norm that is
 * never offset starts at one; only a mean within 0.1 of zero is refused there, since trained gains
 * may shrink. */
static const double HF_MOST = 0.75, MLX_LEAST = 0.25, PLAIN_LEAST = 0.1;

typedef struct {
    const weights *w;
    float *row; /* [cap] */
    int64_t cap;
    double sum;
    int64_t n;
} mean_of;

static void add_norm(mean_of *m, int layer, const char *part)
{
    char name[96];
    snprintf(name, sizeof name, "layers.%d.%s", layer, part);
    const tensor *t = weights_find(m->w, name);
    if (!t || t->n_dims != 1 || t->shape[0] > m->cap) return;
    tensor_row_f32(t, 0, m->row);
    for (int64_t i = 0; i < t->shape[0]; i++) m->sum += (double)m->row[i];
    m->n += t->shape[0];
}

static status begin(mean_of *m, const weights *w, int64_t cap, err *e)
{
    *m = (mean_of){.w = w, .cap = cap, .row = mem_new_array((size_t)cap, sizeof(float))};
    if (m->row) return ERR_OK;
    return err_set(e, ERR_NOMEM, safetensors_where(w->files.dir), -1, "out of memory");
}

/* The mean over the layers of some parts (a list that NULL ends), 1 when there are none. */
static double take_mean(mean_of *m, int n_layers, const char *const *parts)
{
    m->sum = 0;
    m->n = 0;
    for (int i = 0; i < n_layers; i++)
        for (int j = 0; parts[j]; j++) add_norm(m, i, parts[j]);
    return m->n ? m->sum / (double)m->n : 1;
}

static const char *const layer_norms[] = {"input_layernorm.weight",
                                          "post_attention_layernorm.weight", NULL};

static status check_plain(const char *where, const char *what, double mean, err *e)
{
    if (fabs(mean) >= PLAIN_LEAST) return ERR_OK; /* false for NaN */
    return err_set(e, ERR_FORMAT, where, -1,
                   "%s hold values around one, but here their mean is %.3f: was an offset removed?",
                   what, mean);
}

static const char *layout_name(weights_layout layout)
{
    return layout == WEIGHTS_LAYOUT_MLX    ? "MLX"
           : layout == WEIGHTS_LAYOUT_GGUF ? "GGUF"
                                           : "Hugging Face";
}

status norm_offset_find(const weights *w, const arch_target *a, bool *has_offset, err *e)
{
    static const char *const gated[] = {"linear_attn.norm.weight", NULL};
    const char *where = safetensors_where(w->files.dir);
    mean_of m;
    TRY(begin(&m, w, a->E > a->gdn_dv ? a->E : a->gdn_dv, e));
    double mean = take_mean(&m, a->n_layers, layer_norms);
    double gated_mean = take_mean(&m, a->n_layers, gated);
    mem_free(m.row);
    TRY(check_plain(where, "gated norms (linear_attn.norm)", gated_mean, e));
    bool is_hf = w->layout == WEIGHTS_LAYOUT_HF;
    if (w->layout == WEIGHTS_LAYOUT_NONE) is_hf = mean < 0.5;
    bool agrees = is_hf ? mean < HF_MOST : mean > MLX_LEAST;
    if (!agrees || !isfinite(mean))
        return err_set(e, ERR_FORMAT, where, -1,
                       "norms and convolutions disagree: conv1d lies as %s writes it, whose layer "
                       "norms have a mean near %d, but here it is %.3f: was 1 added or left out?",
                       layout_name(w->layout), is_hf ? 0 : 1, mean);
    *has_offset = is_hf;
    return ERR_OK;
}

status norm_offset_check_draft(const weights *w, const arch_draft *d, err *e)
{
    mean_of m;
    TRY(begin(&m, w, d->E, e));
    double mean = take_mean(&m, d->n_layers, layer_norms);
    mem_free(m.row);
    return check_plain(safetensors_where(w->files.dir), "a draft's norms", mean, e);
}
