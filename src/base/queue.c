#include "base/queue.h"

#include "base/asserts.h"
#include "base/clock.h"
#include "base/mem.h"

struct queue {
    mutex lock; /* protects everything below */
    cond has_news;
    void **items; /* [cap], a ring */
    int cap, first, n;
    bool is_woken; /* a wake that no waiting pop has seen yet */
};

status queue_open(queue **out, int cap, err *e)
{
    if (cap < 1) return err_set(e, ERR_INVALID, "queue", -1, "capacity %d, want >= 1", cap);
    queue *q = mem_new(sizeof *q);
    void **items = mem_new_array((size_t)cap, sizeof *items);
    if (!q || !items) {
        mem_free(q);
        mem_free(items);
        return err_set(e, ERR_NOMEM, "queue", -1, "no memory for %d items", cap);
    }
    mutex_init(&q->lock);
    cond_init(&q->has_news);
    q->items = items;
    q->cap = cap;
    *out = q;
    return ERR_OK;
}

void queue_close(queue *q)
{
    if (!q) return;
    cond_fini(&q->has_news);
    mutex_fini(&q->lock);
    mem_free(q->items);
    mem_free(q);
}

bool queue_push(queue *q, void *item)
{
    ASSERT(item);
    mutex_lock(&q->lock);
    bool has_room = q->n < q->cap;
    if (has_room) {
        q->items[(q->first + q->n) % q->cap] = item;
        q->n++;
        cond_signal(&q->has_news);
    }
    mutex_unlock(&q->lock);
    return has_room;
}

/* Under the lock. */
static void *take_first(queue *q)
{
    if (q->n == 0) return NULL;
    void *item = q->items[q->first];
    q->first = (q->first + 1) % q->cap;
    q->n--;
    return item;
}

void *queue_pop(queue *q)
{
    mutex_lock(&q->lock);
    void *item = take_first(q);
    mutex_unlock(&q->lock);
    return item;
}

void *queue_pop_wait(queue *q, int64_t timeout_ns)
{
    int64_t deadline = timeout_ns >= 0 ? clock_ns() + timeout_ns : 0;
    mutex_lock(&q->lock);
    void *item;
    while (!(item = take_first(q)) && !q->is_woken) {
        if (timeout_ns < 0) {
            cond_wait(&q->has_news, &q->lock);
            continue;
        }
        int64_t left = deadline - clock_ns();
        if (left <= 0) break;
        cond_wait_ns(&q->has_news, &q->lock, left);
    }
    if (!item) q->is_woken = false;
    mutex_unlock(&q->lock);
    return item;
}

void queue_wake(queue *q)
{
    mutex_lock(&q->lock);
    q->is_woken = true;
    cond_signal(&q->has_news);
    mutex_unlock(&q->lock);
}

int queue_count(queue *q)
{
    mutex_lock(&q->lock);
    int n = q->n;
    mutex_unlock(&q->lock);
    return n;
}
