#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/asserts.h"

status thread_start(thread *t, const char *name, void *(*run)(void *), void *arg, err *e)
{
    thread next = {.is_started = true};
    int failure = pthread_create(&next.id, NULL, run, arg);
    if (failure != 0)
        return err_set(e, failure == ENOMEM ? ERR_NOMEM : ERR_LIMIT, name, -1,
                       "cannot start the thread: %s", strerror(failure));
    char cut[16]; /* the kernel's limit; the name only helps a person with a debugger */
    snprintf(cut, sizeof cut, "%s", name);
    pthread_setname_np(next.id, cut);
    *t = next;
    return ERR_OK;
}

void thread_join(thread *t)
{
    if (!t->is_started) return;
    int failure = pthread_join(t->id, NULL);
    ASSERT(failure == 0);
    *t = (thread){.is_started = false};
}

bool thread_pin(const thread *t, int i)
{
    cpu_set_t mine, one;
    if (sched_getaffinity(0, sizeof mine, &mine) != 0) return false;
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, &mine) || i-- > 0) continue;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        return pthread_setaffinity_np(t->id, sizeof one, &one) == 0;
    }
    return false;
}

void mutex_init(mutex *m)
{
    int failure = pthread_mutex_init(&m->m, NULL);
    ASSERT(failure == 0);
}

void mutex_fini(mutex *m)
{
    int failure = pthread_mutex_destroy(&m->m);
    ASSERT(failure == 0);
}

void mutex_lock(mutex *m)
{
    int failure = pthread_mutex_lock(&m->m);
    ASSERT(failure == 0);
}

void mutex_unlock(mutex *m)
{
    int failure = pthread_mutex_unlock(&m->m);
    ASSERT(failure == 0);
}

void cond_init(cond *c)
{
    pthread_condattr_t attr;
    int failure = pthread_condattr_init(&attr);
    ASSERT(failure == 0);
    failure = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    ASSERT(failure == 0);
    failure = pthread_cond_init(&c->c, &attr);
    ASSERT(failure == 0);
    pthread_condattr_destroy(&attr);
}

void cond_fini(cond *c)
{
    int failure = pthread_cond_destroy(&c->c);
    ASSERT(failure == 0);
}

void cond_wait(cond *c, mutex *m)
{
    int failure = pthread_cond_wait(&c->c, &m->m);
    ASSERT(failure == 0);
}

bool cond_wait_ns(cond *c, mutex *m, int64_t timeout_ns)
{
    struct timespec t;
    if (timeout_ns < 0) timeout_ns = 0;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += timeout_ns / 1000000000;
    t.tv_nsec += timeout_ns % 1000000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    int failure = pthread_cond_timedwait(&c->c, &m->m, &t);
    ASSERT(failure == 0 || failure == ETIMEDOUT);
    return failure == 0;
}

void cond_signal(cond *c)
{
    pthread_cond_signal(&c->c);
}

void cond_broadcast(cond *c)
{
    pthread_cond_broadcast(&c->c);
}

/* What a container grants (cgroup v2 cpu.max), rounded up; threads beyond it only get throttled.
 * 0 when there is no such limit. */
static int quota_cores(void)
{
    long quota, period;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!f) return 0;
    int n_read = fscanf(f, "%ld %ld", &quota, &period); /* "max 100000" without a limit */
    fclose(f);
    if (n_read != 2 || quota <= 0 || period <= 0) return 0;
    return (int)((quota + period - 1) / period);
}

int thread_n_cores(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    int quota = quota_cores();
    if (quota > 0 && quota < n) n = quota;
    return n > 0 ? n : 1;
}
