/* links: base */
/* Reads frames (4 bytes little endian length, then a JSON text) from standard input until its end
 * and answers each with a frame: "ok " and the value as JSON_PYTHON writes it, or
 * "error <STATUS> <pos>". An argument sets the depth. */
#include <stdio.h>

#include "base/json.h"
#include "base/mem.h"

static bool read_frame(buf *b)
{
    unsigned char head[4];
    buf_clear(b);
    if (fread(head, 1, 4, stdin) != 4) return false;
    size_t n = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
    /* Exactly as many bytes as there are, so that a sanitizer sees one read too many. */
    buf_fini(b);
    b->ptr = mem_new(n);
    b->len = b->cap = n;
    return b->ptr && fread(b->ptr, 1, n, stdin) == n;
}

static void write_frame(const buf *b)
{
    size_t n = b->len;
    unsigned char head[4] = {n & 0xff, n >> 8 & 0xff, n >> 16 & 0xff, n >> 24 & 0xff};
    fwrite(head, 1, 4, stdout);
    fwrite(b->ptr, 1, n, stdout);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int64_t depth = JSON_DEPTH_DEFAULT;
    if (argc > 1 && !str_to_int64(str_from(argv[1]), &depth)) return 2;
    buf in, out;
    buf_init(&in);
    buf_init(&out);
    while (read_frame(&in)) {
        arena a;
        err e;
        const json *v;
        arena_init(&a, 0);
        buf_clear(&out);
        status s = json_parse(&a, (str){in.ptr, in.len}, "probe", (int)depth, 0, &v, &e);
        if (s == ERR_OK) {
            buf_put_c(&out, "ok ");
            json_put_value(&out, v, JSON_PYTHON);
        } else {
            buf_printf(&out, "error %s %ld", status_name(s), e.pos);
        }
        arena_fini(&a);
        write_frame(&out);
    }
    buf_fini(&in);
    buf_fini(&out);
    return 0;
}
