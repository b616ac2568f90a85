#include "engine/memory_plan.h"

#include <stdio.h>

#include "base/machine.h"

enum { CELLS_MAX = 512, CELLS_LEAST = 8, WINDOW_SETS = 2 };
/* Left to the system and to what is not in the ledger: a part of the memory, and that at least. */
enum { MARGIN_PART = 16 };
static const int64_t MARGIN_LEAST = 1 << 29;

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t memory_plan_machine(void)
{
    int64_t all = machine_memory();
    return all > 0 ? larger(all - larger(all / MARGIN_PART, MARGIN_LEAST), 1) : 0;
}

/* Left to what the backend takes beside the ledger: its scratch, captured graphs, code. */
int64_t memory_plan_device(int64_t free_bytes)
{
    enum { PART = 32 };
    static const int64_t LEAST = 1 << 30;
    return larger(free_bytes - larger(free_bytes / PART, LEAST), 1);
}

memory_wish memory_plan_wish(const cycle_sizes *sizes, int64_t max_memory)
{
    memory_wish w = {.sizes = *sizes, .n_lanes = sizes->n_slots, .max_bytes = max_memory};
    if (max_memory == 0 && sizes->is_host) w.max_bytes = memory_plan_machine();
    if (sizes->device_free > 0) {
        int64_t most = memory_plan_device(sizes->device_free);
        w.is_device = max_memory == 0 || max_memory > most;
        if (w.is_device) w.max_bytes = most;
    }
    return w;
}

bool memory_plan_suits(const memory_wish *w)
{
    enum { UNKNOWN_MOST = 4, OWN_PART = 4, SHARING = 4 };
    const cycle_sizes *s = &w->sizes;
    if (s->is_host && w->n_lanes > MEMORY_PLAN_LANES_HOST) return false;
    if (w->max_bytes == 0) return w->n_lanes <= UNKNOWN_MOST;
    int64_t left = w->max_bytes - s->weights - s->draft - s->scratch - w->turn_bytes;
    int64_t own = s->states + s->draft_kv + w->n_lanes * s->cell;
    /* The prompt cache is half as large as what it serves (cache_wish). */
    int64_t kv = (left - own) / 3 * 2, contexts = (w->n_lanes + SHARING - 1) / SHARING;
    return own <= left / OWN_PART && kv >= contexts * s->context_blocks * s->block;
}

static double mib(int64_t bytes)
{
    return (double)bytes / 0x1p20;
}

/* What the prompt cache would take beside the lanes' own cells. */
static int64_t cache_wish(const memory_wish *w, int64_t kv)
{
    const cycle_sizes *s = &w->sizes;
    if (w->cache_bytes != 0) return w->cache_bytes;
    int64_t set = s->window * s->window_blocks;
    return larger((kv + s->states) / 2, CELLS_LEAST * s->cell + WINDOW_SETS * set);
}

/* States and windows out of so many bytes: a quarter for windows, two full sets of them at least as
 * far as half of the bytes goes. A lane needs a cell for itself while an answer comes to a
 * boundary. */
static void size_cache(memory_plan *p, const memory_wish *w, int64_t bytes)
{
    const cycle_sizes *s = &w->sizes;
    int64_t set = s->window * s->window_blocks;
    int64_t windows = smaller(larger(bytes / 4, WINDOW_SETS * set), bytes / 2);
    p->n_windows = s->window > 0 ? (int)smaller(windows / s->window, p->n_blocks) : 0;
    int64_t n = (bytes - p->n_windows * s->window) / s->cell;
    p->n_cells = n < 1 ? 0 : w->n_lanes + (int)smaller(smaller(n, p->n_blocks), CELLS_MAX);
    if (p->n_cells == 0) p->n_windows = 0;
    p->cache = p->n_cells * s->cell + p->n_windows * s->window;
}

static int64_t fixed_of(const memory_plan *p)
{
    return p->weights + p->draft + p->scratch + p->states + p->draft_kv + p->turns;
}

static void add_up(memory_plan *p)
{
    p->total = fixed_of(p) + p->kv + p->cache;
}

static status refuse(const memory_wish *w, const memory_plan *p, int64_t least_kv,
                     int64_t least_cache, err *e)
{
    const cycle_sizes *s = &w->sizes;
    int64_t fixed = fixed_of(p);
    int64_t blocks = (p->limit - fixed - least_cache) / s->block;
    char hint[96] = "even without a context it would not";
    if (blocks > 0)
        snprintf(hint, sizeof hint, "with --max-context %lld it would",
                 (long long)blocks * OPS_BLOCK);
    return err_set(
        e, ERR_NOMEM, "memory", -1,
        "does not fit into %.0f MiB%s: weights %.0f MiB, draft %.0f, scratch %.0f, states "
        "of %d lanes %.0f, KV of one context of %lld tokens %.0f, prompt cache %.0f "
        "together are %.0f; %s",
        mib(p->limit), w->is_device ? " of the device" : "", mib(p->weights),
        mib(p->draft + p->draft_kv), mib(p->scratch), w->n_lanes, mib(p->states),
        (long long)s->context_blocks * OPS_BLOCK, mib(least_kv), mib(least_cache),
        mib(fixed + least_kv + least_cache), hint);
}

status memory_plan_make(const memory_wish *w, memory_plan *out, err *e)
{
    const cycle_sizes *s = &w->sizes;
    memory_plan p = {.weights = s->weights,
                     .draft = s->draft,
                     .scratch = s->scratch,
                     .states = s->states,
                     .draft_kv = s->draft_kv,
                     .turns = w->turn_bytes,
                     .limit = w->max_bytes};
    bool is_on = w->cache_bytes >= 0, is_given = w->cache_bytes > 0;
    int64_t fixed = fixed_of(&p), own = w->n_lanes * s->cell;
    if (w->n_blocks > 0 && w->n_blocks < s->context_blocks)
        return err_set(e, ERR_INVALID, "blocks", -1, "%lld of 64 tokens, one context needs %lld",
                       (long long)w->n_blocks, (long long)s->context_blocks);
    int64_t most_kv = (w->n_blocks > 0 ? w->n_blocks : w->n_lanes * s->context_blocks) * s->block;
    int64_t least_kv = w->n_blocks > 0 ? most_kv : s->context_blocks * s->block;
    int64_t most_cache = is_on ? own + cache_wish(w, most_kv) : 0;
    int64_t least_cache = is_given ? most_cache : is_on ? own + s->cell : 0;
    int64_t room = p.limit > 0 ? p.limit - fixed : most_kv + most_cache;
    if (room < least_kv + least_cache) return refuse(w, &p, least_kv, least_cache, e);
    double part = 1, more = (double)(most_kv - least_kv + most_cache - least_cache);
    p.is_short = room < most_kv + most_cache;
    if (p.is_short && more > 0) part = (double)(room - least_kv - least_cache) / more;
    p.n_blocks = (least_kv + (int64_t)(part * (double)(most_kv - least_kv))) / s->block;
    p.kv = p.n_blocks * s->block;
    if (is_on)
        size_cache(&p, w, least_cache + (int64_t)(part * (double)(most_cache - least_cache)) - own);
    if (is_given && p.n_cells == 0)
        return err_set(e, ERR_INVALID, "cache-memory", -1,
                       "%lld bytes do not hold one state of %lld%s", (long long)w->cache_bytes,
                       (long long)s->cell, s->window > 0 ? " beside the draft's context" : "");
    add_up(&p);
    *out = p;
    return ERR_OK;
}

bool memory_plan_shrink(memory_plan *p, const memory_wish *w)
{
    if (p->n_cells == 0) return false;
    int64_t bytes = p->cache - w->n_lanes * w->sizes.cell;
    size_cache(p, w, bytes / 2);
    p->is_short = true;
    add_up(p);
    return p->n_cells > 0;
}
