/* http_peer: what the programs that put http_probe's load on another server have in common: the
 * thread that makes the events. Each running stream gets one every LOAD_TICK_MS, until it has had
 * n_tokens, then its end. The text of an event is there from the start: of all that a server of
 * models does, the peer only carries bytes from a thread to clients.
 *
 * Included by one file of a program. */
#ifndef RIPTIDE_BENCH_HTTP_PEER_H
#define RIPTIDE_BENCH_HTTP_PEER_H

#include <pthread.h>
#include <stdbool.h>

#include "http_load.h"

enum { PEER_STREAMS_MAX = 4096 };

/* As long as an event of http_probe is without the frame of its chunk. */
static const char peer_event[] =
    "data: {\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\",\"object\":\"chat.completion."
    "chunk\",\"created\":1700000000,\"model\":\"counted\",\"system_fingerprint\":\"riptide-"
    "0123456789ab\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" lantern\"},\"logprobs\":"
    "null,\"finish_reason\":null}]}\n\n";
static const char peer_end[] = "data: [DONE]\n\n";

typedef struct {
    void *stream;
    int left;
} peer_run;

typedef struct {
    http_load load;
    pthread_t thread;
    pthread_mutex_t lock; /* protects what follows */
    peer_run runs[PEER_STREAMS_MAX];
    int n_runs;
    /* On the thread that makes events: bytes of a stream, which stay as they are. */
    void (*say)(void *stream, const char *bytes, size_t n, bool is_last);
} peer;

/* A stream begins. Any thread. */
static inline void peer_begin(peer *p, void *stream)
{
    pthread_mutex_lock(&p->lock);
    if (p->n_runs == PEER_STREAMS_MAX) load_die("too many streams");
    p->runs[p->n_runs++] = (peer_run){stream, p->load.n_tokens};
    pthread_mutex_unlock(&p->lock);
}

static inline void *peer_count(void *arg)
{
    peer *p = arg;
    for (;;) {
        pthread_mutex_lock(&p->lock);
        int n = p->n_runs;
        for (int i = 0; i < p->n_runs;) {
            peer_run *run = &p->runs[i];
            if (run->left-- > 0) {
                p->say(run->stream, peer_event, sizeof peer_event - 1, false);
                i++;
            } else {
                p->say(run->stream, peer_end, sizeof peer_end - 1, true);
                *run = p->runs[--p->n_runs];
            }
        }
        pthread_mutex_unlock(&p->lock);
        load_note_events(&p->load, n);
        usleep(LOAD_TICK_MS * 1000);
    }
    return NULL;
}

/* Behind load_fork. */
static inline void peer_start(peer *p)
{
    pthread_mutex_init(&p->lock, NULL);
    if (pthread_create(&p->thread, NULL, peer_count, p) != 0) load_die("thread");
}

#endif
