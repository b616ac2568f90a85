/* thread: the pthread pieces we use, under our names, with errors as status. */
#ifndef RIPTIDE_BASE_THREAD_H
#define RIPTIDE_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct {
    pthread_t id;
    bool is_started;
} thread;
status thread_start(thread *t, const char *name, void *(*run)(void *), void *arg, err *e);
void thread_join(thread *t); /* harmless when not started */
/* Bind a started thread to the i-th (from 0) of the cores that the calling thread may use. False
 * when there is no such core or the system refuses. */
bool thread_pin(const thread *t, int i);

typedef struct {
    pthread_mutex_t m;
} mutex;
typedef struct {
    pthread_cond_t c;
} cond;
void mutex_init(mutex *m);
void mutex_fini(mutex *m);
void mutex_lock(mutex *m);
void mutex_unlock(mutex *m);
void cond_init(cond *c); /* on the monotonic clock */
void cond_fini(cond *c);
void cond_wait(cond *c, mutex *m);
/* false when `timeout_ns` passed without a signal */
bool cond_wait_ns(cond *c, mutex *m, int64_t timeout_ns);
void cond_signal(cond *c);
void cond_broadcast(cond *c);

/* Cores this process may run on. */
int thread_n_cores(void);

#endif
