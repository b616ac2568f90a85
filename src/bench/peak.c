#include "bench/peak_priv.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/clock.h"
#include "base/mem.h"
#include "base/workers.h"

/* ---- host --------------------------------------------------------------------------------- */

typedef struct {
    const uint64_t *data;
    uint64_t sink[64][8]; /* a line a worker, so that reads are not optimised away */
} read_job;

static void read_share(void *ctx, int64_t begin, int64_t end, int worker)
{
    read_job *j = ctx;
    uint64_t s[16] = {0};
    for (int64_t i = begin; i + 16 <= end; i += 16)
        for (int k = 0; k < 16; k++) s[k] ^= j->data[i + k];
    for (int k = 1; k < 16; k++) s[0] ^= s[k];
    j->sink[worker % 64][0] ^= s[0];
}

/* The best of 10 passes in parts of 32 MiB. */
static double host_read(workers *w)
{
    const int64_t n = 32 << 20, part = 4 << 20; /* words */
    uint64_t *data = mem_new_aligned((size_t)n * 8, 4096);
    if (!data) return 0;
    for (int64_t i = 0; i < n; i += 512) data[i] = (uint64_t)i; /* every page its own memory */
    int64_t best = INT64_MAX;
    read_job j = {0};
    for (int rep = 0; rep < 10; rep++)
        for (int64_t at = 0; at < n; at += part) {
            j.data = data + at;
            int64_t t = clock_ns();
            workers_for(w, part, 4096, read_share, &j);
            t = clock_ns() - t;
            if (t < best) best = t;
        }
    mem_free(data);
    return (double)part * 8 / (double)best * 1e9;
}

#if defined(__x86_64__)
/* n rounds of 8 independent dot products of 64 bytes. Eight names, not an array: an array stays in
 * memory at -O2, and its loads and stores are then what is measured. */
__attribute__((target("avx512f,avx512vnni"), noinline)) static int dot_rounds(int64_t n)
{
    __m512i x = _mm512_set1_epi8(1), a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x;
    for (int64_t i = 0; i < n; i++) {
        a = _mm512_dpbusd_epi32(a, x, x);
        b = _mm512_dpbusd_epi32(b, x, x);
        c = _mm512_dpbusd_epi32(c, x, x);
        d = _mm512_dpbusd_epi32(d, x, x);
        e = _mm512_dpbusd_epi32(e, x, x);
        f = _mm512_dpbusd_epi32(f, x, x);
        g = _mm512_dpbusd_epi32(g, x, x);
        h = _mm512_dpbusd_epi32(h, x, x);
        __asm__ volatile("" : "+v"(x), "+v"(a), "+v"(b), "+v"(c), "+v"(d));
        __asm__ volatile("" : "+v"(e), "+v"(f), "+v"(g), "+v"(h));
    }
    a = _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d));
    e = _mm512_add_epi32(_mm512_add_epi32(e, f), _mm512_add_epi32(g, h));
    return _mm512_reduce_add_epi32(_mm512_add_epi32(a, e));
}

/* The same of 32 bytes, a product and a sum of 16 bits each; no two products may be the same. */
#define AVX2_DOT(acc)                                            \
    acc = _mm256_add_epi16(acc, _mm256_maddubs_epi16(x, other)); \
    __asm__ volatile("" : "+x"(acc), "+x"(other))
__attribute__((target("avx2"), noinline)) static int dot_rounds_avx2(int64_t n)
{
    __m256i x = _mm256_set1_epi8(1), other = x, a = x, b = x, c = x, d = x, e = x, f = x, g = x,
            h = x;
    for (int64_t i = 0; i < n; i++) {
        AVX2_DOT(a);
        AVX2_DOT(b);
        AVX2_DOT(c);
        AVX2_DOT(d);
        AVX2_DOT(e);
        AVX2_DOT(f);
        AVX2_DOT(g);
        AVX2_DOT(h);
    }
    a = _mm256_add_epi16(_mm256_add_epi16(a, b), _mm256_add_epi16(c, d));
    e = _mm256_add_epi16(_mm256_add_epi16(e, f), _mm256_add_epi16(g, h));
    return _mm256_extract_epi16(_mm256_add_epi16(a, e), 0);
}

static void dot_share(void *ctx, int64_t begin, int64_t end, int worker)
{
    volatile int *sink = ctx;
    bool is_wide = __builtin_cpu_supports("avx512vnni");
    sink[worker % 64] = is_wide ? dot_rounds(end - begin) : dot_rounds_avx2(end - begin);
}
#endif

/* int8 operations a second of all workers, with VNNI or AVX2; 0 without either. */
enum { DOT_GRAIN = 10000 }; /* rounds: 20 us, so that handing out work does not count */

static double host_rate(workers *w)
{
#if defined(__x86_64__)
    const int64_t n = 100000 * (int64_t)workers_count(w);
    int sink[64] = {0};
    int64_t best = INT64_MAX;
    bool is_wide = __builtin_cpu_supports("avx512vnni");
    if (!is_wide && !__builtin_cpu_supports("avx2")) return 0;
    for (int rep = 0; rep < 50; rep++) {
        int64_t t = clock_ns();
        workers_for(w, n, DOT_GRAIN, dot_share, sink);
        t = clock_ns() - t;
        if (t < best) best = t;
    }
    return (double)n * 8 * (is_wide ? 128 : 64) / (double)best * 1e9;
#else
    (void)w;
    return 0;
#endif
}

static status measure_host(peak *p, int n_threads, err *e)
{
    workers *w = NULL;
    TRY(workers_open(&w, n_threads, e));
    p->read = host_read(w);
    p->n_ops = host_rate(w);
    workers_close(w);
    return ERR_OK;
}

/* ---- cuda --------------------------------------------------------------------------------- */

enum { SIDE = 8192, ROWS = 2048, COPIES = 4, COPY_BYTES = 1 << 30 };

typedef struct {
    backend *b;
    dev_weight w[COPIES];
    int n_open;
    dev_buf x, y, from, to;
} device_job;

static status open_device_job(device_job *j, err *e)
{
    const backend_ops *op = j->b->ops;
    backend_limits limits = {.T = ROWS, .L = 1, .E = SIDE, .K = SIDE, .N = SIDE, .M = 1};
    int64_t n = (int64_t)SIDE * SIDE;
    TRY(op->reserve(j->b, &limits, e));
    TRY(op->alloc(j->b, (int64_t)ROWS * SIDE * 2, &j->x, e));
    TRY(op->alloc(j->b, (int64_t)ROWS * SIDE * 2, &j->y, e));
    TRY(op->alloc(j->b, COPY_BYTES, &j->from, e));
    TRY(op->alloc(j->b, COPY_BYTES, &j->to, e));
    uint16_t *host = mem_new((size_t)n * 2);
    if (!host) return err_set(e, ERR_NOMEM, "peak", -1, "a weight of %ld bytes", (long)(n * 2));
    for (int64_t i = 0; i < n; i++) host[i] = (uint16_t)(0x3c00 | (i * 40503 >> 9 & 0x807f));
    status s = op->upload(j->b, j->x, host, (int64_t)ROWS * SIDE * 2);
    tensor t = {
        .type = DTYPE_BF16, .n_dims = 2, .shape = {SIDE, SIDE}, .data = host, .n_bytes = n * 2};
    for (int i = 0; i < COPIES && s == ERR_OK; i++) {
        s = op->weight_open(j->b, &t, WEIGHT_LINEAR, &j->w[i], e);
        if (s == ERR_OK) j->n_open++;
    }
    mem_free(host);
    return s;
}

static void close_device_job(device_job *j)
{
    const backend_ops *op = j->b->ops;
    for (int i = 0; i < j->n_open; i++) op->weight_close(j->b, &j->w[i]);
    if (j->x.ptr) op->release(j->b, &j->x);
    if (j->y.ptr) op->release(j->b, &j->y);
    if (j->from.ptr) op->release(j->b, &j->from);
    if (j->to.ptr) op->release(j->b, &j->to);
}

/* ns of one call with T rows, the best of 5 runs of 32. */
static double time_linear(device_job *j, int T)
{
    enum { CALLS = 32 };
    const backend_ops *op = j->b->ops;
    double best = 1e30;
    for (int rep = 0; rep < 5; rep++) {
        op->sync(j->b);
        int64_t t = clock_ns();
        for (int i = 0; i < CALLS; i++)
            if (op->linear(j->b, &(linear_args){.x = j->x,
                                                .T = T,
                                                .n_parts = 1,
                                                .part = {{&j->w[i % COPIES], j->y, LINEAR_ACT}}}) !=
                ERR_OK)
                return 1e30;
        op->sync(j->b);
        double ns = (double)(clock_ns() - t) / CALLS;
        if (ns < best) best = ns;
    }
    return best;
}

static double time_copy(device_job *j)
{
    double best = 1e30;
    for (int rep = 0; rep < 10; rep++) {
        j->b->ops->sync(j->b);
        int64_t t = clock_ns();
        if (j->b->ops->copy(j->b, j->to, j->from, COPY_BYTES) != ERR_OK) return 1e30;
        j->b->ops->sync(j->b);
        if ((double)(clock_ns() - t) < best) best = (double)(clock_ns() - t);
    }
    return best;
}

static status measure_device(peak *p, backend *b, err *e)
{
    device_job j = {.b = b};
    status s = open_device_job(&j, e);
    if (s == ERR_OK) {
        p->copied = 2.0 * COPY_BYTES / time_copy(&j) * 1e9;
        p->read = (double)j.w[0].n_bytes / time_linear(&j, 1) * 1e9;
        if (p->copied > p->read) p->read = p->copied;
        p->n_ops = 2.0 * ROWS * SIDE * SIDE / time_linear(&j, ROWS) * 1e9;
    }
    close_device_job(&j);
    return s;
}

/* ---- names -------------------------------------------------------------------------------- */

static void read_name(const char *path, const char *key, char *out, size_t cap)
{
    char line[256];
    FILE *f = fopen(path, "r");
    snprintf(out, cap, "unknown");
    if (!f) return;
    while (fgets(line, sizeof line, f)) {
        const char *value = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || !value) continue;
        value += 1 + strspn(value + 1, " \t");
        snprintf(out, cap, "%.*s", (int)strcspn(value, "\n"), value);
        break;
    }
    fclose(f);
}

void peak_name_machine(char *out, size_t cap, bool is_device)
{
    glob_t found = {0};
    if (!is_device) {
        read_name("/proc/cpuinfo", "model name", out, cap);
    } else if (glob("/proc/driver/nvidia/gpus/*/information", 0, NULL, &found) == 0) {
        read_name(found.gl_pathv[0], "Model", out, cap);
    } else {
        snprintf(out, cap, "unknown NVIDIA GPU");
    }
    globfree(&found);
}

status peak_measure(peak *p, const char *backend_name, int n_threads, err *e)
{
    backend *b;
    *p = (peak){0};
    TRY(backend_open(&b, &(backend_options){.name = backend_name, .n_threads = n_threads}, e));
    bool is_device = strcmp(b->name, "cuda") == 0;
    peak_name_machine(p->machine, sizeof p->machine, is_device);
    status s = is_device ? measure_device(p, b, e) : measure_host(p, b->n_threads, e);
    b->ops->close(b);
    return s;
}
