/* hostile: requests that must never reach a handler. Each is refused by its head or its chunk
 * framing; the list is that of the comparison of HTTP libraries this project made, with the two
 * CVE forms of llhttp written out. `status` is what the answer must be. */
#ifndef RIPTIDE_TESTS_HOSTILE_H
#define RIPTIDE_TESTS_HOSTILE_H

#include "base/str.h"

typedef struct {
    const char *name;
    str bytes;
    int status;
} hostile_request;

#define HOSTILE_POST "POST /v1/chat/completions HTTP/1.1\r\n"
#define HOSTILE_HOST "Host: localhost\r\n"

static const hostile_request hostile_requests[] = {
    {"content-length with transfer-encoding",
     STR(HOSTILE_POST HOSTILE_HOST
         "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
     400},
    {"two content-lengths that differ",
     STR(HOSTILE_POST HOSTILE_HOST "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"), 400},
    {"content-length with a plus", STR(HOSTILE_POST HOSTILE_HOST "Content-Length: +2\r\n\r\n{}"),
     400},
    {"content-length in hex", STR(HOSTILE_POST HOSTILE_HOST "Content-Length: 0x2\r\n\r\n{}"), 400},
    {"content-length below zero", STR(HOSTILE_POST HOSTILE_HOST "Content-Length: -1\r\n\r\n{}"),
     400},
    {"content-length above 64 bits",
     STR(HOSTILE_POST HOSTILE_HOST "Content-Length: 10000000000000000000\r\n\r\n{}"), 400},
    {"space before the colon", STR(HOSTILE_POST HOSTILE_HOST "Content-Length : 2\r\n\r\n{}"), 400},
    {"a folded field", STR(HOSTILE_POST HOSTILE_HOST "X-A: b\r\n c\r\nContent-Length: 2\r\n\r\n{}"),
     400},
    {"a bare carriage return",
     STR(HOSTILE_POST HOSTILE_HOST "X-A: b\rX-B: c\r\nContent-Length: 2\r\n\r\n{}"), 400},
    {"a bare line feed", STR(HOSTILE_POST HOSTILE_HOST "X-A: b\nContent-Length: 2\r\n\r\n{}"), 400},
    {"a NUL in a value", STR(HOSTILE_POST HOSTILE_HOST "X-A: b\0c\r\nContent-Length: 2\r\n\r\n{}"),
     400},
    {"transfer-encoding xchunked",
     STR(HOSTILE_POST HOSTILE_HOST "Transfer-Encoding: xchunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), 400},
    {"transfer-encoding chunked, identity",
     STR(HOSTILE_POST HOSTILE_HOST
         "Transfer-Encoding: chunked, identity\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
     400},
    {"a chunk size with 0x",
     STR(HOSTILE_POST HOSTILE_HOST "Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n"),
     400},
    {"a chunk without its line end",
     STR(HOSTILE_POST HOSTILE_HOST "Transfer-Encoding: chunked\r\n\r\n2\r\n{}0\r\n\r\n"), 400},
    {"no host", STR(HOSTILE_POST "Content-Length: 2\r\n\r\n{}"), 400},
    {"two hosts", STR(HOSTILE_POST HOSTILE_HOST "Host: 127.0.0.1\r\nContent-Length: 2\r\n\r\n{}"),
     400},
    {"HTTP/1.9",
     STR("POST /v1/chat/completions HTTP/1.9\r\n" HOSTILE_HOST "Content-Length: 2\r\n\r\n{}"), 505},
    {"a field without a colon",
     STR(HOSTILE_POST HOSTILE_HOST "Nonsense\r\nContent-Length: 2\r\n\r\n{}"), 400},
    {"CVE-2023-30589: CR ends a field",
     STR(HOSTILE_POST HOSTILE_HOST
         "X-Abc:\rxTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
     400},
    {"CVE-2024-27982: space before Content-Length",
     STR(HOSTILE_POST HOSTILE_HOST
         " Content-Length: 38\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"),
     400},
    {"a header of 1 MB", {NULL, 0}, 431}, /* made by hostile_megabyte() */
};
enum { N_HOSTILE = sizeof hostile_requests / sizeof *hostile_requests };
_Static_assert(N_HOSTILE == 22, "the set has 22 requests");

/* The last request of the set, into out[>= HOSTILE_MEGABYTE]; returns its length. */
enum { HOSTILE_MEGABYTE = (1 << 20) + 256 };
static inline size_t hostile_megabyte(char *out)
{
    static const char head[] = HOSTILE_POST HOSTILE_HOST "X-A: ",
                      tail[] = "\r\nContent-Length: 2\r\n\r\n{}";
    size_t n = sizeof head - 1;
    memcpy(out, head, n);
    memset(out + n, 'a', 1 << 20);
    n += 1 << 20;
    memcpy(out + n, tail, sizeof tail - 1);
    return n + sizeof tail - 1;
}

#endif
