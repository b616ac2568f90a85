/* hf_config: config.json of a Hugging Face or MLX directory to an arch.
 *
 * Keys and defaults as in model-spec 1.1 (targets), 1.4 and 1.5 (drafts). A key that changes what
 * the network computes in a way this program does not do is UNSUPPORTED, not ignored. */
#ifndef RIPTIDE_LOAD_HF_CONFIG_PRIV_H
#define RIPTIDE_LOAD_HF_CONFIG_PRIV_H

#include "load/arch.h"
#include "load/keys_priv.h"
#include "load/mlx_quant_priv.h"

typedef struct {
    bool is_draft;
    arch_target target;   /* when not is_draft; has_norm_offset is left false */
    arch_draft draft;     /* when is_draft */
    bool is_tie_disputed; /* the root and text_config disagree: the files decide */
    mlx_quant quant;
} hf_config;

/* Read the text of `file` (a name for messages); `mem` keeps what quant borrows. */
status hf_config_parse(hf_config *c, arena *mem, str text, const char *file, err *e);

/* Parts of hf_config_parse. `text` is the object with the language model's keys, `root` itself
 * when the file is flat; `label` names it in messages. */
status hf_target_parse(hf_config *c, arch_family family, const json *root, const json *text,
                       const char *label, const char *file, err *e);
status hf_draft_parse(arch_draft *d, bool is_v2, const json *root, const char *file, err *e);

/* Bounds that keep every later product of dimensions far from overflow. */
enum {
    HF_WIDTH_MOST = 1 << 16,
    HF_FFN_MOST = 1 << 18,
    HF_VOCAB_MOST = 1 << 22,
    HF_HEADS_MOST = 512,
    HF_HEAD_SIZE_MOST = 1024,
    HF_POSITION_MOST = 1 << 30
};

/* Keys that targets and drafts share. */
void hf_read_activation(keys *k);
/* rope_theta and a plain rope type, from rope_parameters, rope_scaling or the object itself. Gives
 * back the reader of the rope object (empty when there is none), its status being k's. */
keys hf_read_rope(keys *k, double *theta);
/* H, G and D, each checked, G a divisor of H and D even. D may be absent when it has a value. */
void hf_read_heads(keys *k, int *H, int *G, int *D);

#endif
