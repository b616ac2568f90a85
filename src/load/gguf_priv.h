/* gguf_priv: one GGUF file (model-spec 4.3), read in place.
 *
 * Nothing is trusted: every count, length and offset is compared with the bytes that are left
 * before it is used, no key or tensor may stand twice, tensors may not overlap, and what is
 * allocated is bounded by caps of this file, not by what a header claims.
 * Thread: open and close on one thread; the content is read-only. */
#ifndef RIPTIDE_LOAD_GGUF_PRIV_H
#define RIPTIDE_LOAD_GGUF_PRIV_H

#include "base/arena.h"
#include "base/str.h"
#include "tensor/tensor.h"

enum { GGUF_KEYS_MOST = 1 << 14, GGUF_TENSORS_MOST = 1 << 17, GGUF_NAME_MOST = 255 };

/* The numbers that the file uses. */
typedef enum {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPES
} gguf_type;

/* "u8", "string", … Never NULL. */
const char *gguf_type_name(gguf_type t);
/* Bytes of a value of a fixed size; 0 for strings and arrays. */
int gguf_type_bytes(gguf_type t);

typedef struct {
    str key;
    gguf_type type; /* of each element; never ARRAY */
    bool is_array;
    int64_t n;           /* elements, 1 when it is no array */
    const uint8_t *data; /* the elements as in the file, unaligned, all inside it */
    int64_t n_bytes;
} gguf_value;

typedef struct {
    const char *name; /* terminated, in the arena */
    uint32_t type_id; /* ggml's number */
    tensor t;         /* outermost dimension first; type NONE when the number is not known: then
                       * data and n_bytes are 0 */
    int64_t offset;   /* of its data, in the data section */
} gguf_item;

typedef struct gguf gguf;

/* Whether a file begins with "GGUF"; false also when it cannot be read. */
bool gguf_has_magic(const char *path);

/* Map `path` and read its tables.
 *
 * Returns  IO; FORMAT with where = path, pos = byte offset, and key or tensor and reason in msg;
 *          UNSUPPORTED for another version or byte order; NOMEM
 * Owns     the caller closes *g; values, items and names are borrowed from it */
status gguf_open(gguf **g, const char *path, err *e);
/* The same for n bytes that outlive *g; `name` for messages. */
status gguf_open_bytes(gguf **g, const uint8_t *bytes, int64_t n_bytes, const char *name, err *e);
/* The same for the first n_bytes of a file of n_file: its tensors have no data. On failure
 * *is_short tells whether more bytes may help. */
status gguf_open_head(gguf **g, const uint8_t *bytes, int64_t n_bytes, int64_t n_file,
                      bool *is_short, const char *name, err *e);
void gguf_close(gguf *g); /* NULL is fine */

const char *gguf_path(const gguf *g);
/* NULL when there is no such key or tensor. */
const gguf_value *gguf_find(const gguf *g, const char *key);
const gguf_item *gguf_find_tensor(const gguf *g, const char *name);
/* Iterate in file order. */
int gguf_count_keys(const gguf *g);
const gguf_value *gguf_key_at(const gguf *g, int i);
int gguf_count(const gguf *g);
const gguf_item *gguf_at(const gguf *g, int i);
/* Drop [p, p + n_bytes) from memory when it lies in this file's mapping; false when not. */
bool gguf_forget(const gguf *g, const void *p, int64_t n_bytes);

/* The string elements of a value one after another: *at starts at 0 and moves on. */
str gguf_next_string(const gguf_value *v, int64_t *at);
/* Element i of a value of integers or bools as a number; false for other types or past INT64_MAX.
 */
bool gguf_int_at(const gguf_value *v, int64_t i, int64_t *out);

/* ggml's number of a type, and back; NONE and -1 when it has none here. */
dtype gguf_dtype(uint32_t type_id);
int gguf_type_id(dtype t);

/* gguf_header.c: what the head of a file says. The tables are from mem_new: the caller frees. */
typedef struct {
    gguf_value *values;
    int n_values;
    gguf_item *items;
    int n_items;
} gguf_tables;
/* Fills *t as far as it comes, also on failure. Of the file's n_file bytes the first n_bytes are
 * here; a failure with *is_short may be none when more are. Tensors have data only when all are. */
status gguf_parse(gguf_tables *t, arena *mem, const uint8_t *bytes, int64_t n_bytes, int64_t n_file,
                  bool *is_short, const char *where, err *e);

#endif
