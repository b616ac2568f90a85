/* http_load: the load that programs for HTTP servers put on them, and how they count what it costs.
 *
 * A child process has the connections, so that its CPU time is not the server's:
 *
 *   idle     N connections that have had an answer to GET /health and are kept: growth of memory
 *   streams  M answers in chunks at a time, asked for by the same POST of a chat: CPU time of the
 *            process but for the thread that makes the events
 *   floor    as many bytes, event by event, by plain send() to as many connections: what the kernel
 *            itself takes of that, on this machine at this time
 *
 * Included by one file of a program. */
#ifndef RIPTIDE_BENCH_HTTP_LOAD_H
#define RIPTIDE_BENCH_HTTP_LOAD_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOAD_TICK_MS = 10 }; /* each stream gets an event so often */

typedef struct {
    int n_idle, n_streams, n_tokens; /* events of each stream, its end apart */
    int control, plain;              /* to the child; where it asks for the floor */
    pid_t child;
    /* By the thread that makes the events: how many there were, and its CPU time. */
    atomic_llong n_events, maker_ns;
} http_load;

static inline void load_die(const char *what)
{
    perror(what);
    exit(1);
}

static inline int64_t load_ns(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t) != 0) load_die("clock");
    return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

/* --- the child with the connections ------------------------------------------------------------
 */

static inline int load_dial(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) != 0) load_die("connect");
    return fd;
}

static inline void load_ask(int fd, const char *bytes)
{
    size_t n = strlen(bytes);
    if (send(fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n) load_die("send");
}

/* The parent looks at its memory, then says how to go on. */
static inline void load_wait_for_parent(int control)
{
    char c = 0;
    if (write(control, &c, 1) != 1 || read(control, &c, 1) != 1) load_die("control");
}

static inline void load_hold_idle(int port, int n)
{
    char in[4096];
    for (int i = 0; i < n; i++) {
        int fd = load_dial(port);
        load_ask(fd, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
        if (recv(fd, in, sizeof in, 0) <= 0) load_die("recv");
    }
}

/* Whether bytes end as an answer in chunks does, or with what stood before them. */
static inline bool load_is_end(char tail[5], const char *in, size_t n)
{
    size_t n_new = n < 5 ? n : 5;
    memmove(tail, tail + n_new, 5 - n_new);
    memcpy(tail + 5 - n_new, in + n - n_new, n_new);
    return memcmp(tail, "0\r\n\r\n", 5) == 0;
}

/* m connections that have asked with `head`, read to their last chunk or end; their bytes. */
static inline int64_t load_read_all(int port, int m, const char *head)
{
    static char in[1 << 16];
    int64_t n_bytes = 0;
    struct pollfd *list = calloc((size_t)m, sizeof *list);
    char(*tails)[5] = calloc((size_t)m, sizeof *tails);
    for (int i = 0; i < m; i++) {
        list[i] = (struct pollfd){.fd = load_dial(port), .events = POLLIN};
        load_ask(list[i].fd, head);
    }
    for (int open = m; open > 0;) {
        if (poll(list, (nfds_t)m, -1) < 0) load_die("poll");
        for (int i = 0; i < m; i++) {
            if (list[i].fd < 0 || !list[i].revents) continue;
            ssize_t n = recv(list[i].fd, in, sizeof in, 0);
            if (n > 0) n_bytes += n;
            if (n > 0 && !load_is_end(tails[i], in, (size_t)n)) continue;
            close(list[i].fd);
            list[i].fd = -1;
            open--;
        }
    }
    free(tails);
    free(list);
    return n_bytes;
}

static inline int64_t load_read_streams(int port, int m, int n_tokens)
{
    char body[300], head[500];
    snprintf(
        body, sizeof body,
        "{\"stream\":true,\"max_tokens\":%d,\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"
        ",\"enable_thinking\":false}",
        n_tokens);
    snprintf(head, sizeof head,
             "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
             "application/json\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(body), body);
    return load_read_all(port, m, head);
}

static inline void load_run_child(const http_load *l, int control, int port, int floor_port)
{
    load_hold_idle(port, 1); /* what the first one brings in is not counted */
    load_wait_for_parent(control);
    load_hold_idle(port, l->n_idle);
    load_wait_for_parent(control);
    int64_t n_bytes = load_read_streams(port, l->n_streams, l->n_tokens);
    if (write(control, &n_bytes, sizeof n_bytes) != sizeof n_bytes) load_die("control");
    load_read_all(floor_port, l->n_streams, "x");
}

/* --- the process of the server -----------------------------------------------------------------
 */

static inline int load_listen(int *port, int backlog)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) != 0 || listen(fd, backlog) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &n) != 0)
        load_die("listen");
    *port = ntohs(a.sin_port);
    return fd;
}

/* The numbers of the command line, and as many open files as the system lets one have. */
static inline void load_init(http_load *l, int argc, char **argv)
{
    struct rlimit r;
    l->n_idle = argc > 1 ? atoi(argv[1]) : 5000;
    l->n_streams = argc > 2 ? atoi(argv[2]) : 256;
    l->n_tokens = argc > 3 ? atoi(argv[3]) : 500;
    getrlimit(RLIMIT_NOFILE, &r);
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
}

/* Start the child, once the server listens on `port` and before there are threads. */
static inline void load_fork(http_load *l, int port)
{
    int ends[2], floor_port;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) load_die("socketpair");
    l->plain = load_listen(&floor_port, l->n_streams);
    l->child = fork();
    if (l->child == 0) {
        load_run_child(l, ends[1], port, floor_port);
        _exit(0);
    }
    close(ends[1]);
    l->control = ends[0];
}

/* The thread that makes events: another `n` of them, and the CPU time that it has taken so far. */
static inline void load_note_events(http_load *l, int n)
{
    atomic_fetch_add(&l->n_events, n);
    atomic_store(&l->maker_ns, load_ns(CLOCK_THREAD_CPUTIME_ID));
}

static inline int64_t load_resident_bytes(void)
{
    long pages[2] = {0};
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &pages[0], &pages[1]) != 2) load_die("statm");
    fclose(f);
    return pages[1] * sysconf(_SC_PAGESIZE);
}

/* CPU seconds of sending n_bytes to each of m connections, n_events times each. */
static inline double load_send_plainly(int listening, int m, int n_events, size_t n_bytes)
{
    int *fds = calloc((size_t)m, sizeof *fds), one = 1;
    char *bytes = calloc(1, n_bytes);
    for (int i = 0; i < m; i++) {
        fds[i] = accept(listening, NULL, NULL);
        if (fds[i] < 0) load_die("accept");
        setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    int64_t start_ns = load_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int k = 0; k < n_events; k++) {
        for (int i = 0; i < m; i++)
            if (send(fds[i], bytes, n_bytes, MSG_NOSIGNAL) != (ssize_t)n_bytes) load_die("send");
        usleep(LOAD_TICK_MS * 1000);
    }
    double cpu_s = (double)(load_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns) / 1e9;
    for (int i = 0; i < m; i++) close(fds[i]);
    free(fds);
    free(bytes);
    return cpu_s;
}

static inline void load_hear(http_load *l)
{
    char c;
    if (read(l->control, &c, 1) != 1) load_die("the child");
}

static inline void load_go_on(http_load *l)
{
    if (write(l->control, "", 1) != 1) load_die("control");
}

static inline double load_share(double cpu_s, double n_events)
{
    return cpu_s / n_events * 1e6; /* % of a core for 10,000 events a second */
}

/* On the main thread, which does nothing else, while others serve: print what the load costs. */
static inline void load_measure(http_load *l)
{
    load_hear(l);
    int64_t before = load_resident_bytes();
    load_go_on(l);
    load_hear(l);
    double grown = (double)(load_resident_bytes() - before);
    printf("idle: %d kept connections take %.1f MB, %.0f bytes each\n", l->n_idle, grown / 1e6,
           grown / (l->n_idle ? l->n_idle : 1));

    int64_t start_ns = load_ns(CLOCK_MONOTONIC), cpu_ns = load_ns(CLOCK_PROCESS_CPUTIME_ID),
            maker_ns = atomic_load(&l->maker_ns), n_bytes = 0;
    load_go_on(l);
    if (read(l->control, &n_bytes, sizeof n_bytes) != sizeof n_bytes) load_die("the child");
    double wall_s = (double)(load_ns(CLOCK_MONOTONIC) - start_ns) / 1e9;
    double maker_s = (double)(atomic_load(&l->maker_ns) - maker_ns) / 1e9;
    double cpu_s = (double)(load_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns) / 1e9 - maker_s;
    double n = (double)atomic_load(&l->n_events);
    printf("streams: %d at a time, %.0f events in %.2f s (%.0f a second), %.1f MB\n", l->n_streams,
           n, wall_s, n / wall_s, (double)n_bytes / 1e6);
    printf("serving: %.2f s of CPU, %.2f %% of a core for each 10,000 events a second; the thread "
           "that makes them %.2f %%\n",
           cpu_s, load_share(cpu_s, n), load_share(maker_s, n));
    double plain_s = load_send_plainly(l->plain, l->n_streams, l->n_tokens,
                                       (size_t)((double)n_bytes / n));
    printf("floor: %.2f s by plain send(), %.2f %% of a core for each 10,000 events a second\n",
           plain_s, load_share(plain_s, (double)l->n_streams * l->n_tokens));
    waitpid(l->child, NULL, 0);
}

#endif
