/* small_shape: a checkpoint shape for tests. */
#ifndef RIPTIDE_TESTS_UNIT_BENCH_SMALL_SHAPE_H
#define RIPTIDE_TESTS_UNIT_BENCH_SMALL_SHAPE_H

#include "bench/make_priv.h"

/* The real structure, small: four layers, one of them attention. */
static const shape small_dense = {.name = "small",
                                  .E = 256,
                                  .n_layers = 4,
                                  .H = 2,
                                  .G = 1,
                                  .gdn_Hk = 2,
                                  .gdn_Hv = 4,
                                  .F = 384,
                                  .V = 3072,
                                  .is_tied = true,
                                  .draft = {2, 384, 2, 1, 3000, 2, {1, 2}}};

#endif
