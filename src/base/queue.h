/* queue: a bounded queue of pointers between threads (many producers, one consumer).
 *
 * Thread: any may push, one pops. */
#ifndef RIPTIDE_BASE_QUEUE_H
#define RIPTIDE_BASE_QUEUE_H

#include "base/thread.h"

typedef struct queue queue;
status queue_open(queue **q, int cap, err *e);
void queue_close(queue *q);            /* NULL is fine; items still inside are not freed */
bool queue_push(queue *q, void *item); /* false when full */
void *queue_pop(queue *q);             /* NULL when empty */
/* Wait for an item up to timeout_ns (negative: for ever); NULL when none came or queue_wake. */
void *queue_pop_wait(queue *q, int64_t timeout_ns);
/* Make one waiting pop return NULL; kept for the next queue_pop_wait when none waits now. */
void queue_wake(queue *q);
int queue_count(queue *q);

#endif
