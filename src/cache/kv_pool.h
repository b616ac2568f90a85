/* kv_pool: which KV blocks are free, and how many hold each of the rest.
 *
 * Arithmetic on block numbers only: the bytes of a block live in model/state.c. A block holds 64
 * consecutive positions of one sequence, for all layers. A block whose count is above one is
 * read-only.
 *
 * Invariant: n_free + (blocks with count > 0) == n_blocks.
 * Thread: the engine thread only; there is no lock. */
#ifndef RIPTIDE_CACHE_KV_POOL_H
#define RIPTIDE_CACHE_KV_POOL_H

#include <stdint.h>

#include "base/err.h"

typedef struct kv_pool kv_pool;

status kv_pool_open(kv_pool **p, int n_blocks, err *e);
void kv_pool_close(kv_pool *p); /* NULL is fine */

/* Take n free blocks, each with count 1, lowest numbers first where the pool is fresh.
 *
 * ids      [n] out; written only on ERR_OK
 * Returns  LIMIT when fewer than n are free; then nothing is taken
 * Cost     O(n), no allocation */
status kv_pool_take(kv_pool *p, int n, int32_t *ids);

/* One more holder of each; they must be held already. */
void kv_pool_share(kv_pool *p, const int32_t *ids, int n);

/* One holder less of each; a block whose count reaches 0 is free again. */
void kv_pool_drop(kv_pool *p, const int32_t *ids, int n);

int kv_pool_n_blocks(const kv_pool *p);
int kv_pool_n_free(const kv_pool *p);
int kv_pool_count(const kv_pool *p, int32_t id);

#endif
