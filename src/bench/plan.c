#include "bench/plan_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "tensor/half.h"

void plan_init(plan *p, uint64_t seed)
{
    *p = (plan){.seed = seed};
    arena_init(&p->mem, 0);
}

void plan_fini(plan *p)
{
    arena_fini(&p->mem);
}

static plan_tensor *next_tensor(plan *p)
{
    static plan_tensor sink;
    if (p->n == p->cap && !p->failed) {
        int cap = p->cap ? p->cap * 2 : 256;
        plan_tensor *list = arena_new_array(&p->mem, (size_t)cap, sizeof *list);
        if (list && p->n) memcpy(list, p->list, (size_t)p->n * sizeof *list);
        if (list) {
            p->list = list;
            p->cap = cap;
        }
        p->failed = !list;
    }
    return p->failed ? &sink : &p->list[p->n++];
}

plan_tensor *plan_add(plan *p, dtype type, const int64_t *dims, int n_dims, const char *fmt, ...)
{
    char name[200];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(name, sizeof name, fmt, args);
    va_end(args);
    plan_tensor *t = next_tensor(p);
    *t = (plan_tensor){.type = type, .n_dims = n_dims, .n_rows = 1};
    t->name = arena_copy(&p->mem, name, (size_t)len);
    if (!t->name) p->failed = true;
    t->n_bytes = dtype_bits(type) / 8;
    for (int i = 0; i < n_dims; i++) {
        t->shape[i] = dims[i];
        t->n_bytes *= dims[i];
        if (i < n_dims - 1) t->n_rows *= dims[i];
    }
    t->key = hash_bytes(name, (size_t)len, p->seed);
    return t;
}

const uint16_t *plan_levels(plan *p, double lo, double hi)
{
    static const uint16_t none[256];
    uint16_t *levels = arena_new_array(&p->mem, 256, sizeof *levels);
    if (!levels) {
        p->failed = true;
        return none;
    }
    for (int i = 0; i < 256; i++) levels[i] = half_to_bf16((float)(lo + (hi - lo) * i / 255));
    return levels;
}

void plan_shard(plan *p, int64_t max_bytes)
{
    int64_t at = 0;
    int shard = 0;
    p->n_bytes = 0;
    for (int i = 0; i < p->n; i++) {
        plan_tensor *t = &p->list[i];
        if (at > 0 && at + t->n_bytes > max_bytes) {
            shard++;
            at = 0;
        }
        t->shard = shard;
        t->offset = at;
        at += t->n_bytes;
        p->n_bytes += t->n_bytes;
    }
    p->n_shards = shard + 1;
}

/* ---- contents ----------------------------------------------------------------------------- */

static uint64_t word_at(uint64_t key, int64_t i)
{
    return rng_mix64(key + (uint64_t)i * 0x9e3779b97f4a7c15ULL);
}

static void fill_random(uint64_t key, int64_t at, int64_t n, uint8_t *out)
{
    for (int64_t i = 0; i < n; i += 8) {
        uint64_t w = word_at(key, (at + i) / 8);
        memcpy(out + i, &w, n - i < 8 ? (size_t)(n - i) : 8);
    }
}

/* Each number of 2 bytes takes one byte of the stream. */
static void fill_levels(const plan_tensor *t, int64_t at, int64_t n, uint8_t *out)
{
    int64_t first = at / 2, count = n / 2;
    uint64_t w = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t number = first + i;
        if (i == 0 || number % 8 == 0) w = word_at(t->key, number / 8) >> (number % 8 * 8);
        memcpy(out + 2 * i, &t->levels[w & 255], 2);
        w >>= 8;
    }
}

static void put_edge(const plan_edge *edge, int64_t at_in_row, uint8_t *out, int64_t n)
{
    for (int64_t i = 0; i < n && at_in_row + i < edge->n; i++)
        out[i] = (uint8_t)((out[i] & edge->keep[at_in_row + i]) | edge->value[at_in_row + i]);
}

static void put_mark(const plan_mark *m, int64_t at_in_row, uint8_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = m->fill[(at_in_row + i) & 1];
    put_edge(&m->edge, at_in_row, out, n);
}

void plan_fill(const plan_tensor *t, int64_t at, int64_t n, uint8_t *out)
{
    if (t->levels)
        fill_levels(t, at, n, out);
    else
        fill_random(t->key, at, n, out);
    if (!t->edge && !t->mark) return;
    int64_t row_bytes = t->n_bytes / t->n_rows;
    for (int64_t row = at / row_bytes; row * row_bytes < at + n; row++) {
        int64_t begin = row * row_bytes > at ? row * row_bytes : at;
        int64_t end = (row + 1) * row_bytes < at + n ? (row + 1) * row_bytes : at + n;
        if (t->mark && t->mark->row == row)
            put_mark(t->mark, begin - row * row_bytes, out + (begin - at), end - begin);
        else if (t->edge)
            put_edge(t->edge, begin - row * row_bytes, out + (begin - at), end - begin);
    }
}
