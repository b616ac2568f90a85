#include "base/workers.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "base/asserts.h"
#include "base/mem.h"
#include "base/thread.h"

/* About 30 to 60 us: longer than the gap between two ops of a step, so that a step never sleeps;
 * short enough that an idle pool costs nothing that anybody sees. */
enum { SPIN_TURNS = 1000, MOST_WORKERS = 1024, CACHE_LINE = 64 };

/* `ticket` tells a worker everything it needs before it may look at the job: the number of the
 * run, and how many workers take part in it. Only those look at the job, and the caller waits for
 * exactly those, so that nobody can see a job change under its eyes. */
enum { TICKET_ACTIVE_BITS = 16 };

typedef struct {
    workers *pool;
    int id;
    thread thread;
} seat;

struct workers {
    int n;           /* the caller included */
    int n_spin;      /* turns to spin before sleeping */
    bool is_closing; /* set before the last ticket */
    seat *seats;     /* [n]; seat 0 is the caller's and has no thread */

    int64_t n_items, grain; /* the job; written by the caller between runs */
    workers_fn *fn;
    void *ctx;

    _Alignas(CACHE_LINE) atomic_uint_least64_t ticket;
    _Alignas(CACHE_LINE) atomic_int n_unfinished; /* active workers other than the caller */
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
static void run_share(workers *w, int id, int n_active)
{
    int64_t n_grains = (w->n_items + w->grain - 1) / w->grain;
    int64_t begin = n_grains * id / n_active * w->grain;
    int64_t end = n_grains * (id + 1) / n_active * w->grain;
    if (end > w->n_items) end = w->n_items;
    w->fn(w->ctx, begin, end, id);
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
        if (s->id >= n_active) continue;
        if (w->is_closing) return NULL;
        run_share(w, s->id, n_active);
        finish_share(w);
    }
}

static void publish_ticket(workers *w, int n_active)
{
    uint64_t run = atomic_load_explicit(&w->ticket, memory_order_relaxed) >> TICKET_ACTIVE_BITS;
    atomic_store(&w->ticket, (run + 1) << TICKET_ACTIVE_BITS | (uint64_t)n_active);
    if (atomic_load(&w->n_asleep) == 0) return;
    mutex_lock(&w->lock);
    cond_broadcast(&w->wake);
    mutex_unlock(&w->lock);
}

static void wait_finished(workers *w)
{
    for (int i = 0; i < w->n_spin; i++) {
        if (atomic_load_explicit(&w->n_unfinished, memory_order_acquire) == 0) return;
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
    w->seats = mem_new_array((size_t)n, sizeof *w->seats);
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
        w->is_closing = true;
        publish_ticket(w, w->n);
        for (int i = 1; i < w->n; i++) thread_join(&w->seats[i].thread);
    }
    cond_fini(&w->done);
    cond_fini(&w->wake);
    mutex_fini(&w->lock);
    mem_free(w->seats);
    mem_free(w);
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
    publish_ticket(w, n_active);
    run_share(w, 0, n_active);
    wait_finished(w);
}
