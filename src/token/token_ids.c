#include "token/token_ids.h"

#include <limits.h>

#include "base/mem.h"

bool token_ids_reserve(token_ids *ids, int64_t more)
{
    if (ids->cap - ids->n >= more) return true;
    int64_t cap = ids->n + more;
    if (cap < 2 * (int64_t)ids->cap) cap = 2 * (int64_t)ids->cap;
    if (cap < 64) cap = 64;
    if (cap > INT_MAX) return false;
    int32_t *ptr = mem_resize(ids->ptr, (size_t)cap * sizeof *ptr);
    if (!ptr) return false;
    ids->ptr = ptr;
    ids->cap = (int)cap;
    return true;
}

bool token_ids_push(token_ids *ids, int32_t id)
{
    if (!token_ids_reserve(ids, 1)) return false;
    ids->ptr[ids->n++] = id;
    return true;
}

void token_ids_fini(token_ids *ids)
{
    mem_free(ids->ptr);
    *ids = (token_ids){0};
}
