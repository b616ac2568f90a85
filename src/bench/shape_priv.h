/* shape: the geometry of the targets and drafts that make-model can write (model-spec 1.1, 1.5).
 *
 * Plain data; letters as in design.md. */
#ifndef RIPTIDE_BENCH_SHAPE_PRIV_H
#define RIPTIDE_BENCH_SHAPE_PRIV_H

#include <stdbool.h>

enum { SHAPE_TAPS_MAX = 8, SHAPE_FULL_EVERY = 4 };

typedef struct {
    int n_layers, F, H, G; /* head size 128, block 8, rank 256, window 2048 in all of them */
    int mask_id;
    int n_taps, taps[SHAPE_TAPS_MAX];
} shape_draft;

typedef struct {
    const char *name;
    int E, n_layers, H, G; /* head size 256 */
    int gdn_Hk, gdn_Hv;    /* both head sizes 128 */
    int F;                 /* dense FFN width, 0 for MoE */
    int X, K, moe_F;       /* the shared expert is as wide as one expert */
    int V;
    bool is_tied;
    shape_draft draft;
} shape;

/* "0.8b", "27b", "35b-a3b"; NULL for any other name. */
const shape *shape_find(const char *name);

/* Another number of layers; the draft's taps are then spread by the default rule of model-spec
 * 1.4, each layer once. */
void shape_set_layers(shape *s, int n_layers);

#endif
