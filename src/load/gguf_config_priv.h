/* gguf_config: the metadata of a GGUF file (model-spec 4.3) to an arch. A key that changes what the
 * network computes in a way this program does not do is UNSUPPORTED, not ignored. */
#ifndef RIPTIDE_LOAD_GGUF_CONFIG_PRIV_H
#define RIPTIDE_LOAD_GGUF_CONFIG_PRIV_H

#include "load/arch.h"
#include "load/gguf_keys_priv.h"
#include "load/gguf_set_priv.h"

typedef struct {
    bool is_draft;
    arch_target target; /* when not is_draft */
    arch_draft draft;   /* when is_draft */
    arch_sampling sampling;
} gguf_config;

/* Returns  FORMAT, UNSUPPORTED, with the key in msg */
status gguf_config_parse(gguf_config *c, const gguf_set *s, err *e);

/* Parts of it. `prefix` is the architecture with a point behind it. */
status gguf_target_parse(arch_target *a, arch_family family, const gguf_set *s, const char *prefix,
                         err *e);
status gguf_draft_parse(arch_draft *d, const gguf_set *s, const char *prefix, err *e);

/* Rows of a tensor of at least 2 dimensions, into *out; FORMAT when it is missing. */
status gguf_read_rows(const gguf_set *s, const char *name, int most, int *out, err *e);
/* Keys that targets and drafts share. */
void gguf_read_heads(gguf_keys *k, int *H, int *G, int *D);
void gguf_read_rope(gguf_keys *k, double *theta);

#endif
