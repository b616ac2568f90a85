#include <stdio.h>

#include "base/mem.h"
#include "load/gguf_priv.h"

enum { VERSION_LEAST = 2, VERSION_MOST = 3, ALIGNMENT_DEFAULT = 32, ALIGNMENT_MOST = 1 << 20 };

static const struct {
    const char *name;
    int n_bytes;
} types[GGUF_TYPES] = {
    [GGUF_U8] = {"u8", 1},       [GGUF_I8] = {"i8", 1},     [GGUF_U16] = {"u16", 2},
    [GGUF_I16] = {"i16", 2},     [GGUF_U32] = {"u32", 4},   [GGUF_I32] = {"i32", 4},
    [GGUF_F32] = {"f32", 4},     [GGUF_BOOL] = {"bool", 1}, [GGUF_STRING] = {"string", 0},
    [GGUF_ARRAY] = {"array", 0}, [GGUF_U64] = {"u64", 8},   [GGUF_I64] = {"i64", 8},
    [GGUF_F64] = {"f64", 8},
};

static const struct {
    uint32_t id;
    dtype type;
} ggml[] = {
    {0, DTYPE_F32},      {1, DTYPE_F16},     {2, DTYPE_Q4_0},     {3, DTYPE_Q4_1},
    {6, DTYPE_Q5_0},     {7, DTYPE_Q5_1},    {8, DTYPE_Q8_0},     {10, DTYPE_Q2_K},
    {11, DTYPE_Q3_K},    {12, DTYPE_Q4_K},   {13, DTYPE_Q5_K},    {14, DTYPE_Q6_K},
    {16, DTYPE_IQ2_XXS}, {17, DTYPE_IQ2_XS}, {18, DTYPE_IQ3_XXS}, {19, DTYPE_IQ1_S},
    {20, DTYPE_IQ4_NL},  {21, DTYPE_IQ3_S},  {22, DTYPE_IQ2_S},   {23, DTYPE_IQ4_XS},
    {24, DTYPE_I8},      {25, DTYPE_I16},    {26, DTYPE_I32},     {27, DTYPE_I64},
    {28, DTYPE_F64},     {29, DTYPE_IQ1_M},  {30, DTYPE_BF16},    {39, DTYPE_MXFP4},
    {40, DTYPE_NVFP4},
};
enum { N_GGML = sizeof ggml / sizeof *ggml };

const char *gguf_type_name(gguf_type t)
{
    return (unsigned)t < GGUF_TYPES ? types[t].name : "no type";
}

int gguf_type_bytes(gguf_type t)
{
    return (unsigned)t < GGUF_TYPES ? types[t].n_bytes : 0;
}

dtype gguf_dtype(uint32_t type_id)
{
    for (int i = 0; i < N_GGML; i++)
        if (ggml[i].id == type_id) return ggml[i].type;
    return DTYPE_NONE;
}

int gguf_type_id(dtype t)
{
    for (int i = 0; i < N_GGML; i++)
        if (ggml[i].type == t) return (int)ggml[i].id;
    return -1;
}

/* What is read next, and what it belongs to, for messages. */
typedef struct {
    const uint8_t *bytes;
    int64_t at, n; /* bytes that are here */
    int64_t n_file;
    bool is_short; /* something lies in the file, but not here */
    const char *where;
    err *e;
    char what[96]; /* "key 'general.name'" */
} reader;

static status fail(const reader *r, const char *reason)
{
    return err_set(r->e, ERR_FORMAT, r->where, (long)r->at, "%s %s", r->what, reason);
}

static status fail_end(reader *r, uint64_t n)
{
    r->is_short = n <= (uint64_t)(r->n_file - r->at);
    return fail(r, "runs past the end of the file: is it cut?");
}

static status take(reader *r, uint64_t n, const uint8_t **out)
{
    if (n > (uint64_t)(r->n - r->at)) return fail_end(r, n);
    *out = r->bytes + r->at;
    r->at += (int64_t)n;
    return ERR_OK;
}

static status take_u32(reader *r, uint32_t *out)
{
    const uint8_t *p = NULL;
    TRY(take(r, 4, &p));
    memcpy(out, p, 4);
    return ERR_OK;
}

static status take_u64(reader *r, uint64_t *out)
{
    const uint8_t *p = NULL;
    TRY(take(r, 8, &p));
    memcpy(out, p, 8);
    return ERR_OK;
}

static status take_string(reader *r, str *out)
{
    uint64_t n = 0;
    const uint8_t *p = NULL;
    TRY(take_u64(r, &n));
    TRY(take(r, n, &p));
    *out = (str){(const char *)p, (size_t)n};
    return ERR_OK;
}

/* A key's or a tensor's name, and from then on r->what names it. */
static status take_name(reader *r, const char *kind, int i, str *out)
{
    snprintf(r->what, sizeof r->what, "%s %d", kind, i);
    TRY(take_string(r, out));
    if (out->len == 0 || out->len > GGUF_NAME_MOST)
        return fail(r, "has a name that is empty or longer than 255 bytes");
    for (size_t k = 0; k < out->len; k++)
        if ((unsigned char)out->ptr[k] < 32) return fail(r, "has a control character in its name");
    snprintf(r->what, sizeof r->what, "%s '%.*s'", kind, out->len > 70 ? 70 : (int)out->len,
             out->ptr);
    return ERR_OK;
}

static status take_type(reader *r, gguf_type *out)
{
    uint32_t type = 0;
    TRY(take_u32(r, &type));
    if (type >= GGUF_TYPES) return fail(r, "has a type that is not known");
    *out = (gguf_type)type;
    return ERR_OK;
}

static status check_bools(const reader *r, const gguf_value *v)
{
    for (int64_t i = 0; v->type == GGUF_BOOL && i < v->n; i++)
        if (v->data[i] > 1) return fail(r, "is neither true nor false");
    return ERR_OK;
}

static status take_value(reader *r, int i, gguf_value *v)
{
    uint64_t n = 1;
    TRY(take_name(r, "key", i, &v->key));
    TRY(take_type(r, &v->type));
    if (v->type == GGUF_ARRAY) {
        v->is_array = true;
        TRY(take_type(r, &v->type));
        if (v->type == GGUF_ARRAY) return fail(r, "is an array of arrays");
        TRY(take_u64(r, &n));
    }
    /* A string takes its length's 8 bytes at least, so that n is bounded by the file's size. */
    uint64_t least = v->type == GGUF_STRING ? 8 : (uint64_t)gguf_type_bytes(v->type);
    if (n > (uint64_t)(r->n - r->at) / least)
        return n > (uint64_t)(r->n_file - r->at) / least ? fail_end(r, UINT64_MAX)
                                                         : fail_end(r, n * least);
    v->n = (int64_t)n;
    v->data = r->bytes + r->at;
    if (v->type == GGUF_STRING) {
        str text;
        for (uint64_t k = 0; k < n; k++) TRY(take_string(r, &text));
    } else {
        r->at += (int64_t)(n * least);
    }
    v->n_bytes = r->bytes + r->at - v->data;
    return check_bools(r, v);
}

/* Dimensions, innermost first in the file, and the bytes they take. */
static status take_shape(reader *r, gguf_item *it)
{
    uint32_t n_dims = 0;
    tensor *t = &it->t;
    int64_t count, n_bytes;
    TRY(take_u32(r, &n_dims));
    if (n_dims < 1 || n_dims > TENSOR_DIMS_MAX) return fail(r, "has not 1 to 4 dimensions");
    t->n_dims = (int)n_dims;
    for (int d = t->n_dims - 1; d >= 0; d--) {
        uint64_t n = 0;
        TRY(take_u64(r, &n));
        if (n < 1 || n > INT64_MAX) return fail(r, "has a dimension of 0 or more than 2^63");
        t->shape[d] = (int64_t)n;
    }
    if (!tensor_count(t, &count)) return fail(r, "has more than 2^63 elements");
    TRY(take_u32(r, &it->type_id));
    t->type = gguf_dtype(it->type_id);
    if (t->type == DTYPE_NONE) return ERR_OK;
    if (t->shape[t->n_dims - 1] % dtype_block(t->type) != 0)
        return fail(r, "has rows that are no whole blocks of its type");
    if (__builtin_mul_overflow(count / dtype_block(t->type), dtype_block_bytes(t->type), &n_bytes))
        return fail(r, "has more than 2^63 bytes");
    t->n_bytes = n_bytes;
    return ERR_OK;
}

static status take_item(reader *r, arena *mem, int i, int64_t alignment, gguf_item *it)
{
    str name = {"", 0};
    uint64_t offset = 0;
    TRY(take_name(r, "tensor", i, &name));
    it->name = arena_copy(mem, name.ptr, name.len);
    if (!it->name) return err_set(r->e, ERR_NOMEM, r->where, -1, "out of memory for names");
    TRY(take_shape(r, it));
    TRY(take_u64(r, &offset));
    if (offset > INT64_MAX || offset % (uint64_t)alignment != 0)
        return fail(r, "has an offset that is not aligned");
    it->offset = (int64_t)offset;
    return ERR_OK;
}

static status find_alignment(reader *r, const gguf_tables *t, int64_t *out)
{
    *out = ALIGNMENT_DEFAULT;
    for (int i = 0; i < t->n_values; i++) {
        const gguf_value *v = &t->values[i];
        if (!str_is(v->key, "general.alignment")) continue;
        snprintf(r->what, sizeof r->what, "key 'general.alignment'");
        int64_t n;
        bool is_number = !v->is_array && v->type == GGUF_U32 && gguf_int_at(v, 0, &n);
        if (!is_number || n < 1 || n > ALIGNMENT_MOST || (n & (n - 1)))
            return fail(r, "is not a u32 that is a power of two up to 2^20");
        *out = n;
    }
    return ERR_OK;
}

/* Only now is it known where the data begins: give each tensor its bytes. */
static status place_items(reader *r, gguf_tables *t, int64_t alignment)
{
    int64_t begin = (r->at + alignment - 1) / alignment * alignment;
    int64_t n_data = begin < r->n_file ? r->n_file - begin : 0;
    for (int i = 0; i < t->n_items; i++) {
        gguf_item *it = &t->items[i];
        snprintf(r->what, sizeof r->what, "tensor '%.70s'", it->name);
        if (it->offset > n_data || it->t.n_bytes > n_data - it->offset)
            return fail(r, "lies past the end of the file: is it cut?");
        /* Of a head alone no tensor has data: nobody is to look at bytes that are not here. */
        if (it->t.type != DTYPE_NONE && r->n == r->n_file)
            it->t.data = r->bytes + begin + it->offset;
    }
    return ERR_OK;
}

static status check_magic(reader *r)
{
    const uint8_t *magic = NULL;
    uint32_t version = 0;
    snprintf(r->what, sizeof r->what, "the head");
    if (r->n < 4 && r->n < r->n_file) return fail_end(r, 4);
    if (r->n < 4 || memcmp(r->bytes, "GGUF", 4) != 0)
        return err_set(r->e, ERR_FORMAT, r->where, 0, "does not begin with 'GGUF'");
    TRY(take(r, 4, &magic));
    TRY(take_u32(r, &version));
    if (version >= VERSION_LEAST && version <= VERSION_MOST) return ERR_OK;
    if ((version & 0xffff) == 0)
        return err_set(r->e, ERR_UNSUPPORTED, r->where, 4, "is a big-endian GGUF file");
    return err_set(r->e, ERR_UNSUPPORTED, r->where, 4, "is GGUF version %u: 2 and 3 can be read",
                   (unsigned)version);
}

static status check_count(reader *r, const char *what, uint64_t n, uint64_t most)
{
    if (n <= most) return ERR_OK;
    return err_set(r->e, ERR_FORMAT, r->where, (long)r->at,
                   "the head claims %llu %s, more than %llu", (unsigned long long)n, what,
                   (unsigned long long)most);
}

static status read_tables(reader *r, gguf_tables *t, arena *mem)
{
    uint64_t n_items = 0, n_values = 0;
    int64_t alignment = 0;
    TRY(check_magic(r));
    TRY(take_u64(r, &n_items));
    TRY(take_u64(r, &n_values));
    TRY(check_count(r, "tensors", n_items, GGUF_TENSORS_MOST));
    TRY(check_count(r, "keys", n_values, GGUF_KEYS_MOST));
    /* A key takes 13 bytes at least, a tensor 33. */
    if (n_values * 13 + n_items * 33 > (uint64_t)r->n_file)
        return fail(r, "claims more keys and tensors than the file has room for: is it cut?");
    t->values = mem_new_array((size_t)n_values, sizeof *t->values);
    t->items = mem_new_array((size_t)n_items, sizeof *t->items);
    if (!t->values || !t->items) return err_set(r->e, ERR_NOMEM, r->where, -1, "out of memory");
    for (; t->n_values < (int)n_values; t->n_values++)
        TRY(take_value(r, t->n_values, &t->values[t->n_values]));
    TRY(find_alignment(r, t, &alignment));
    for (; t->n_items < (int)n_items; t->n_items++)
        TRY(take_item(r, mem, t->n_items, alignment, &t->items[t->n_items]));
    return place_items(r, t, alignment);
}

status gguf_parse(gguf_tables *t, arena *mem, const uint8_t *bytes, int64_t n_bytes, int64_t n_file,
                  bool *is_short, const char *where, err *e)
{
    reader r = {.bytes = bytes, .n = n_bytes, .n_file = n_file, .where = where, .e = e};
    *t = (gguf_tables){0};
    status s = read_tables(&r, t, mem);
    *is_short = s != ERR_OK && r.is_short;
    return s;
}
