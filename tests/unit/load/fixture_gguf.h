/* fixture_gguf: GGUF files put together byte by byte from model-spec 4.3. */
#ifndef RIPTIDE_TESTS_FIXTURE_GGUF_H
#define RIPTIDE_TESTS_FIXTURE_GGUF_H

#include <stdlib.h>
#include <unistd.h>

#include "load/gguf_priv.h"
#include "support/test.h"

#define MADE __attribute__((unused)) static

typedef struct {
    uint8_t *ptr;
    size_t len, cap;
} made_bytes;

MADE void put_bytes(made_bytes *b, const void *bytes, size_t n)
{
    if (b->len + n > b->cap) {
        b->cap = 2 * (b->len + n);
        b->ptr = realloc(b->ptr, b->cap);
    }
    if (n > 0) memcpy(b->ptr + b->len, bytes, n);
    b->len += n;
}
MADE void put_u32(made_bytes *b, uint32_t v)
{
    put_bytes(b, &v, 4);
}
MADE void put_u64(made_bytes *b, uint64_t v)
{
    put_bytes(b, &v, 8);
}
MADE void put_text(made_bytes *b, const char *s)
{
    put_u64(b, strlen(s));
    put_bytes(b, s, strlen(s));
}

/* A file: keys and infos are collected apart, so that counts and places follow by themselves. */
typedef struct {
    made_bytes keys, infos, data;
    uint32_t version;
    uint64_t n_keys, n_items;
} made_gguf;

MADE made_gguf made_new(void)
{
    return (made_gguf){.version = 3};
}
MADE void made_key(made_gguf *g, const char *key, uint32_t type)
{
    put_text(&g->keys, key);
    put_u32(&g->keys, type);
    g->n_keys++;
}
MADE void made_u32(made_gguf *g, const char *key, uint32_t v)
{
    made_key(g, key, GGUF_U32);
    put_u32(&g->keys, v);
}
MADE void made_u16(made_gguf *g, const char *key, uint16_t v)
{
    made_key(g, key, GGUF_U16);
    put_bytes(&g->keys, &v, 2);
}
MADE void made_f32(made_gguf *g, const char *key, float v)
{
    made_key(g, key, GGUF_F32);
    put_bytes(&g->keys, &v, 4);
}
MADE void made_bool(made_gguf *g, const char *key, uint8_t v)
{
    made_key(g, key, GGUF_BOOL);
    put_bytes(&g->keys, &v, 1);
}
MADE void made_str(made_gguf *g, const char *key, const char *v)
{
    made_key(g, key, GGUF_STRING);
    put_text(&g->keys, v);
}
MADE void made_ints(made_gguf *g, const char *key, const int32_t *v, int n)
{
    made_key(g, key, GGUF_ARRAY);
    put_u32(&g->keys, GGUF_I32);
    put_u64(&g->keys, (uint64_t)n);
    put_bytes(&g->keys, v, (size_t)n * 4);
}
MADE void made_strs(made_gguf *g, const char *key, const char *const *v, int n)
{
    made_key(g, key, GGUF_ARRAY);
    put_u32(&g->keys, GGUF_STRING);
    put_u64(&g->keys, (uint64_t)n);
    for (int i = 0; i < n; i++) put_text(&g->keys, v[i]);
}
/* An info only: `ne` innermost first. */
MADE void made_info(made_gguf *g, const char *name, int n_dims, const int64_t *ne, uint32_t type,
                    uint64_t offset)
{
    put_text(&g->infos, name);
    put_u32(&g->infos, (uint32_t)n_dims);
    for (int d = 0; d < n_dims; d++) put_u64(&g->infos, (uint64_t)ne[d]);
    put_u32(&g->infos, type);
    put_u64(&g->infos, offset);
    g->n_items++;
}
/* A tensor with its bytes, aligned to 32. */
MADE void made_tensor(made_gguf *g, const char *name, int n_dims, const int64_t *ne, uint32_t type,
                      const void *bytes, size_t n)
{
    static const uint8_t zeros[32];
    if (g->data.len % 32 != 0) put_bytes(&g->data, zeros, 32 - g->data.len % 32);
    made_info(g, name, n_dims, ne, type, g->data.len);
    put_bytes(&g->data, bytes, n);
}
/* The whole file; frees the pieces. */
MADE made_bytes made_end(made_gguf *g)
{
    static const uint8_t zeros[32];
    made_bytes b = {0};
    put_bytes(&b, "GGUF", 4);
    put_u32(&b, g->version);
    put_u64(&b, g->n_items);
    put_u64(&b, g->n_keys);
    put_bytes(&b, g->keys.ptr, g->keys.len);
    put_bytes(&b, g->infos.ptr, g->infos.len);
    if (b.len % 32 != 0) put_bytes(&b, zeros, 32 - b.len % 32);
    put_bytes(&b, g->data.ptr, g->data.len);
    free(g->keys.ptr);
    free(g->infos.ptr);
    free(g->data.ptr);
    *g = made_new();
    return b;
}
MADE void made_write(made_gguf *g, const char *path)
{
    made_bytes b = made_end(g);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b.ptr, 1, b.len, f), b.len);
    assert_int_equal(fclose(f), 0);
    free(b.ptr);
}

#endif
