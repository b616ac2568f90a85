#include "cache/kv_pool.h"

#include "base/asserts.h"
#include "base/mem.h"

struct kv_pool {
    int n_blocks, n_free;
    int32_t *free;  /* owned stack, the top is free[n_free - 1] */
    int32_t *count; /* owned, by block */
};

status kv_pool_open(kv_pool **out, int n_blocks, err *e)
{
    if (n_blocks < 1)
        return err_set(e, ERR_INVALID, "kv_pool", -1, "%d blocks, want >= 1", n_blocks);
    kv_pool *p = mem_new(sizeof *p);
    if (p) {
        p->n_blocks = p->n_free = n_blocks;
        p->free = mem_new_array((size_t)n_blocks, sizeof *p->free);
        p->count = mem_new_array((size_t)n_blocks, sizeof *p->count);
    }
    if (!p || !p->free || !p->count) {
        kv_pool_close(p);
        return err_set(e, ERR_NOMEM, "kv_pool", -1, "%d blocks", n_blocks);
    }
    for (int i = 0; i < n_blocks; i++) p->free[i] = n_blocks - 1 - i;
    *out = p;
    return ERR_OK;
}

void kv_pool_close(kv_pool *p)
{
    if (!p) return;
    mem_free(p->free);
    mem_free(p->count);
    mem_free(p);
}

status kv_pool_take(kv_pool *p, int n, int32_t *ids)
{
    if (n > p->n_free) return ERR_LIMIT;
    for (int i = 0; i < n; i++) {
        ids[i] = p->free[--p->n_free];
        p->count[ids[i]] = 1;
    }
    return ERR_OK;
}

void kv_pool_share(kv_pool *p, const int32_t *ids, int n)
{
    for (int i = 0; i < n; i++) {
        ASSERT(p->count[ids[i]] > 0);
        p->count[ids[i]]++;
    }
}

void kv_pool_drop(kv_pool *p, const int32_t *ids, int n)
{
    for (int i = 0; i < n; i++) {
        ASSERT(p->count[ids[i]] > 0);
        if (--p->count[ids[i]] == 0) p->free[p->n_free++] = ids[i];
    }
}

int kv_pool_n_blocks(const kv_pool *p)
{
    return p->n_blocks;
}

int kv_pool_n_free(const kv_pool *p)
{
    return p->n_free;
}

int kv_pool_count(const kv_pool *p, int32_t id)
{
    return p->count[id];
}
