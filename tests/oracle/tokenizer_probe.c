/* links: token */
/* Reads questions from standard input, answers on standard output; tokenizer.mjs asks.
 *
 *   tokenizer_probe FILE encode    u32 n, n x (u32 specials, u32 length, bytes) -> i32 n, i32 ids
 *   tokenizer_probe FILE decode    u32 n, i32 ids                               -> u32 length,
 * bytes tokenizer_probe FILE bench     a text                     -> JSON: times to open and to
 * encode
 *
 * An encode that fails answers -1. All numbers are little-endian. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/asserts.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "token/detok.h"
#include "token/tokenizer.h"

enum { SEGMENTS_MOST = 64 };

static bool read_all(void *to, size_t n)
{
    return fread(to, 1, n, stdin) == n;
}

static uint32_t read_u32(void)
{
    uint32_t v;
    ASSERT(read_all(&v, sizeof v));
    return v;
}

static void encode_all(const tokenizer *t)
{
    uint32_t n;
    token_ids ids = {0};
    while (read_all(&n, sizeof n)) {
        tokenizer_segment segments[SEGMENTS_MOST];
        char *texts[SEGMENTS_MOST];
        err e;
        ASSERT(n <= SEGMENTS_MOST);
        for (uint32_t i = 0; i < n; i++) {
            bool specials = read_u32() != 0;
            uint32_t len = read_u32();
            ASSERT((texts[i] = mem_new(len)) && read_all(texts[i], len));
            segments[i] = (tokenizer_segment){.text = {texts[i], len}, .specials = specials};
        }
        ids.n = 0;
        status s = tokenizer_encode_segments(t, segments, (int)n, 0, &ids, &e);
        int32_t count = s == ERR_OK ? ids.n : -1;
        if (s != ERR_OK) fprintf(stderr, "%s\n", e.msg);
        fwrite(&count, sizeof count, 1, stdout);
        if (count > 0) fwrite(ids.ptr, sizeof *ids.ptr, (size_t)count, stdout);
        for (uint32_t i = 0; i < n; i++) mem_free(texts[i]);
    }
    token_ids_fini(&ids);
}

static void decode_all(const tokenizer *t)
{
    uint32_t n;
    buf text;
    buf_init(&text);
    while (read_all(&n, sizeof n)) {
        detok d;
        detok_init(&d, tokenizer_vocab(t), false);
        buf_clear(&text);
        for (; n > 0; n--) detok_push(&d, (int32_t)read_u32(), &text);
        detok_flush(&d, &text);
        uint32_t len = (uint32_t)text.len;
        fwrite(&len, sizeof len, 1, stdout);
        if (len > 0) fwrite(text.ptr, 1, len, stdout);
    }
    buf_fini(&text);
}

/* The most memory this program ever held. getrusage would count its parent's too. */
static long resident_kb(void)
{
    long kb = 0;
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %ld", &kb) == 1) break;
    if (f) fclose(f);
    return kb;
}

static void bench(str json_text, const char *path)
{
    enum { OPENS = 5, ENCODES = 7 };
    arena a;
    str text;
    err e;
    double open_ms = 1e9, first_ms = 0, best_ms = 1e9;
    arena_init(&a, 0);
    ASSERT(file_read_stdin(&a, 1 << 30, &text, &e) == ERR_OK);
    tokenizer *t = NULL;
    for (int i = 0; i < OPENS; i++) {
        tokenizer_close(t);
        int64_t start = clock_ns();
        ASSERT(tokenizer_open(&t, json_text, path, &e) == ERR_OK);
        double ms = clock_ms_since(start);
        if (ms < open_ms) open_ms = ms;
    }
    token_ids ids = {0};
    for (int i = 0; i < ENCODES; i++) {
        ids.n = 0;
        int64_t start = clock_ns();
        ASSERT(tokenizer_encode(t, text, true, 0, &ids, &e) == ERR_OK);
        double ms = clock_ms_since(start);
        if (i == 0) first_ms = ms;
        if (ms < best_ms) best_ms = ms;
    }
    printf("{\"bytes\":%zu,\"tokens\":%d,\"open_ms\":%.2f,\"first_ms\":%.2f,\"best_ms\":%.2f,"
           "\"peak_kb\":%ld}\n",
           text.len, ids.n, open_ms, first_ms, best_ms, resident_kb());
    token_ids_fini(&ids);
    tokenizer_close(t);
    arena_fini(&a);
}

int main(int argc, char **argv)
{
    arena a;
    str json_text;
    err e;
    tokenizer *t = NULL;
    char words[512];
    ASSERT(argc == 3);
    arena_init(&a, 0);
    status s = file_read(&a, argv[1], 1 << 30, &json_text, &e);
    if (s == ERR_OK && strcmp(argv[2], "bench") == 0) {
        bench(json_text, argv[1]);
        arena_fini(&a);
        return 0;
    }
    if (s == ERR_OK) s = tokenizer_open(&t, json_text, argv[1], &e);
    if (s != ERR_OK) {
        err_format(&e, words, sizeof words);
        fprintf(stderr, "%s: %s\n", status_name(s), words);
        return 1;
    }
    if (strcmp(argv[2], "encode") == 0)
        encode_all(t);
    else
        decode_all(t);
    tokenizer_close(t);
    arena_fini(&a);
    return 0;
}
