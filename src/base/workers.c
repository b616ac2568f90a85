#include "base/workers.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "base/asserts.h"
#include "base/mem.h"
#include "base/thread.h"

/* About 30 to 60 us: longer than the gap between two ops of a step, so that a step never sleeps;
 * short enough that an idle pool costs nothing that anybody sees. */
enum { SPIN_TURNS = 1000, MOST_WORKERS = 1024, CACHE_LINE = 64 };

/* About 1 us: longer than a spinning worker takes to see a run and claim its share. */
enum { TURNS_UNTIL_TAKING = 32 };

/* `ticket` is the number of the run, and how many workers take part in it (0: the pool closes).
 * Whoever wants to do a share of a run claims it first, by raising the number in the share's seat
 * to the run's. Only with a claim may the job be looked at: a run is not over before all of its
 * shares are done, so that a job cannot change under the eyes of anybody who holds one; and a
 * worker that comes too late finds its share claimed. */
enum { TICKET_ACTIVE_BITS = 16, CLOSING = 0 };

typedef struct {
    _Alignas(CACHE_LINE) atomic_uint_least64_t claimed; /* the last run of which this share was */
    workers *pool;
    int id;
    thread thread;
} seat;

struct workers {
    int n;       /* the caller included */
    int n_spin;  /* turns to spin before sleeping */
    seat *seats; /* [n]; seat 0 is the caller's, has no thread and needs no claims */

    int64_t n_items, grain; /* the job; written by the caller between runs */
    workers_fn *fn;
    void *ctx;

    _Alignas(CACHE_LINE) atomic_uint_least64_t ticket;
    _Alignas(CACHE_LINE) atomic_int n_unfinished; /* shares other than the caller's own */
    _Alignas(CACHE_LINE) atomic_int n_asleep;     /* workers in or near cond_wait */
    atomic_bool caller_sleeps;
    mutex lock; /* protects nothing but the way into and out of the two waits */
    cond wake, done;
};

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Grains are dealt out evenly; the same cut for the same (n, grain, n_active) every time. */
static void run_share(workers *w, int share, int n_active, int worker)
{
    int64_t n_grains = (w->n_items + w->grain - 1) / w->grain;
    int64_t begin = n_grains * share / n_active * w->grain;
    int64_t end = n_grains * (share + 1) / n_active * w->grain;
    if (end > w->n_items) end = w->n_items;
    w->fn(w->ctx, begin, end, worker);
}

static bool claim(seat *s, uint64_t run)
{
    uint64_t last = atomic_load_explicit(&s->claimed, memory_order_relaxed);
    while (last < run)
        if (atomic_compare_exchange_weak(&s->claimed, &last, run)) return true;
    return false;
}

static uint64_t wait_ticket(workers *w, uint64_t seen)
{
    uint64_t ticket;
    for (int i = 0; i < w->n_spin; i++) {
        ticket = atomic_load_explicit(&w->ticket, memory_order_acquire);
        if (ticket != seen) return ticket;
        pause_briefly();
    }
    /* Either the caller sees n_asleep raised after it wrote the ticket and wakes us, or we see the
     * ticket: both sides use sequentially consistent operations, in opposite order. */
    mutex_lock(&w->lock);
    atomic_fetch_add(&w->n_asleep, 1);
    while ((ticket = atomic_load(&w->ticket)) == seen) cond_wait(&w->wake, &w->lock);
    atomic_fetch_sub(&w->n_asleep, 1);
    mutex_unlock(&w->lock);
    return ticket;
}

static void finish_share(workers *w)
{
    if (atomic_fetch_sub(&w->n_unfinished, 1) != 1) return;
    if (!atomic_load(&w->caller_sleeps)) return;
    mutex_lock(&w->lock);
    cond_signal(&w->done);
    mutex_unlock(&w->lock);
}

static void *run_worker(void *arg)
{
    seat *s = arg;
    workers *w = s->pool;
    for (uint64_t seen = 0;;) {
        seen = wait_ticket(w, seen);
        int n_active = (int)(seen & ((1u << TICKET_ACTIVE_BITS) - 1));
        if (n_active == CLOSING) return NULL;
        if (s->id >= n_active || !claim(s, seen >> TICKET_ACTIVE_BITS)) continue;
        run_share(w, s->id, n_active, s->id);
        finish_share(w);
    }
}

/* Returns the number of the run. */
static uint64_t publish_ticket(workers *w, int n_active)
{
    uint64_t last = atomic_load_explicit(&w->ticket, memory_order_relaxed) >> TICKET_ACTIVE_BITS;
    atomic_store(&w->ticket, (last + 1) << TICKET_ACTIVE_BITS | (uint64_t)n_active);
    if (atomic_load(&w->n_asleep) == 0) return last + 1;
    mutex_lock(&w->lock);
    cond_broadcast(&w->wake);
    mutex_unlock(&w->lock);
    return last + 1;
}

/* The caller does the shares whose workers have not begun: they sleep still, or something else
 * has their core. */
static void take_shares(workers *w, uint64_t run, int n_active)
{
    for (int i = n_active - 1; i > 0; i--) {
        if (!claim(&w->seats[i], run)) continue;
        run_share(w, i, n_active, 0);
        atomic_fetch_sub(&w->n_unfinished, 1);
    }
}

static void wait_finished(workers *w, uint64_t run, int n_active)
{
    int n_turns = w->n_spin > TURNS_UNTIL_TAKING ? w->n_spin : TURNS_UNTIL_TAKING;
    for (int i = 0; i < n_turns; i++) {
        if (atomic_load_explicit(&w->n_unfinished, memory_order_acquire) == 0) return;
        if (i == TURNS_UNTIL_TAKING - 1) take_shares(w, run, n_active);
        pause_briefly();
    }
    mutex_lock(&w->lock);
    atomic_store(&w->caller_sleeps, true);
    while (atomic_load(&w->n_unfinished) != 0) cond_wait(&w->done, &w->lock);
    atomic_store(&w->caller_sleeps, false);
    mutex_unlock(&w->lock);
}

status workers_open(workers **out, int n, err *e)
{
    if (n < 0 || n > MOST_WORKERS)
        return err_set(e, ERR_INVALID, "workers", -1, "%d threads, want 0 to %d", n, MOST_WORKERS);
    int n_cores = thread_n_cores();
    if (n == 0) n = n_cores < MOST_WORKERS ? n_cores : MOST_WORKERS;
    workers *w = mem_new_aligned(sizeof *w, CACHE_LINE);
    if (!w) return err_set(e, ERR_NOMEM, "workers", -1, "no memory for the pool");
    mutex_init(&w->lock);
    cond_init(&w->wake);
    cond_init(&w->done);
    w->n = 1;
    /* With more threads than cores a spinning one keeps another from its work. */
    w->n_spin = n <= n_cores ? SPIN_TURNS : 0;
    status s = ERR_OK;
    w->seats = mem_new_aligned((size_t)n * sizeof *w->seats, CACHE_LINE);
    if (!w->seats) {
        s = err_set(e, ERR_NOMEM, "workers", -1, "no memory for %d threads", n);
        goto fail;
    }
    for (int i = 1; i < n; i++) {
        seat *next = &w->seats[i];
        next->pool = w;
        next->id = i;
        s = thread_start(&next->thread, "worker", run_worker, next, e);
        if (s != ERR_OK) goto fail;
        w->n = i + 1;
    }
    *out = w;
    return ERR_OK;
fail:
    workers_close(w);
    return s;
}

void workers_close(workers *w)
{
    if (!w) return;
    if (w->n > 1) {
        publish_ticket(w, CLOSING);
        for (int i = 1; i < w->n; i++) thread_join(&w->seats[i].thread);
    }
    cond_fini(&w->done);
    cond_fini(&w->wake);
    mutex_fini(&w->lock);
    mem_free(w->seats);
    mem_free(w);
}

status workers_pin(workers *w, err *e)
{
    int n_cores = thread_n_cores();
    if (w->n > n_cores)
        return err_set(e, ERR_INVALID, "pin-threads", -1, "%d threads on %d cores", w->n, n_cores);
    for (int i = 1; i < w->n; i++)
        if (!thread_pin(&w->seats[i].thread, i))
            return err_set(e, ERR_UNSUPPORTED, "pin-threads", -1,
                           "the system does not let thread %d have a core of its own", i);
    return ERR_OK;
}

int workers_count(const workers *w)
{
    return w->n;
}

void workers_for(workers *w, int64_t n, int64_t grain, workers_fn *fn, void *ctx)
{
    ASSERT(grain >= 1 && n >= 0);
    if (n == 0) return;
    int64_t n_grains = (n + grain - 1) / grain;
    if (w->n == 1 || n_grains == 1) {
        fn(ctx, 0, n, 0);
        return;
    }
    int n_active = n_grains < w->n ? (int)n_grains : w->n;
    w->n_items = n;
    w->grain = grain;
    w->fn = fn;
    w->ctx = ctx;
    atomic_store_explicit(&w->n_unfinished, n_active - 1, memory_order_relaxed);
    uint64_t run = publish_ticket(w, n_active);
    run_share(w, 0, n_active, 0);
    wait_finished(w, run, n_active);
}
