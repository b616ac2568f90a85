#include "bench/shape_priv.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* There is no published draft for 0.8b: its depth is the 27B's, its widths follow the target. */
static const shape shapes[] = {
    {.name = "0.8b",
     .E = 1024,
     .n_layers = 24,
     .H = 8,
     .G = 2,
     .gdn_Hk = 16,
     .gdn_Hv = 16,
     .F = 3584,
     .V = 248320,
     .is_tied = true,
     .draft = {5, 3584, 8, 2, 248070, 5, {1, 6, 11, 16, 21}}},
    {.name = "27b",
     .E = 5120,
     .n_layers = 64,
     .H = 24,
     .G = 4,
     .gdn_Hk = 16,
     .gdn_Hv = 48,
     .F = 17408,
     .V = 248320,
     .draft = {5, 17408, 32, 8, 248070, 5, {5, 19, 33, 47, 61}}},
    {.name = "35b-a3b",
     .E = 2048,
     .n_layers = 40,
     .H = 16,
     .G = 2,
     .gdn_Hk = 16,
     .gdn_Hv = 32,
     .X = 256,
     .K = 8,
     .moe_F = 512,
     .V = 248320,
     .draft = {6, 6144, 32, 8, 248077, 8, {1, 6, 11, 16, 22, 27, 32, 37}}},
};

const shape *shape_find(const char *name)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(name, shapes[i].name) == 0) return &shapes[i];
    return NULL;
}

void shape_set_layers(shape *s, int n_layers)
{
    if (n_layers == s->n_layers) return;
    shape_draft *d = &s->draft;
    int n = d->n_taps, last = n_layers > 5 ? n_layers - 3 : 2, count = 0;
    s->n_layers = n_layers;
    for (int i = 0; i < n; i++) {
        int tap = (int)lrint(1 + i * (double)(last - 1) / (n - 1));
        if (tap > n_layers - 1) tap = n_layers - 1;
        if (count == 0 || tap > d->taps[count - 1]) d->taps[count++] = tap;
    }
    d->n_taps = count;
}
