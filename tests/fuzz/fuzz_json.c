/* links: base */
/* A text that is taken must survive writing and reading again; one that is refused must be refused
 * at a place inside it. */
#include "base/asserts.h"
#include "base/json.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void read_numbers(const json *v)
{
    int64_t i;
    uint64_t u;
    double d;
    for (; v; v = v->next) {
        bool whole = json_to_int64(v, &i), positive = json_to_uint64(v, &u);
        bool real = json_to_double(v, &d);
        ASSERT(!(whole && positive) || (uint64_t)i == u);
        ASSERT(!whole || !real || (double)i == d);
    }
}

/* As JSON_PYTHON; the caller gives it back. */
static buf rewrite(str text, int flags, status *s)
{
    arena a;
    err e;
    const json *v = NULL;
    buf b;
    buf_init(&b);
    arena_init(&a, 0);
    *s = json_parse(&a, text, "fuzz", 64, flags, &v, &e);
    if (*s == ERR_OK) {
        json_put_value(&b, v, JSON_PYTHON);
        read_numbers(v);
        read_numbers(v->first);
    } else {
        ASSERT(e.pos >= 0 && (size_t)e.pos <= text.len);
        ASSERT(!v);
    }
    arena_fini(&a);
    return b;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    status first, second;
    buf once = rewrite((str){(const char *)data, n}, 0, &first);
    if (first == ERR_OK) {
        ASSERT(utf8_check(buf_str(&once)) < 0);
        buf twice = rewrite(buf_str(&once), 0, &second);
        ASSERT(second == ERR_OK && str_equal(buf_str(&once), buf_str(&twice)));
        buf_fini(&twice);
    }
    buf_fini(&once);
    once = rewrite((str){(const char *)data, n}, JSON_UNIQUE_KEYS, &second);
    ASSERT(first == ERR_OK || second != ERR_OK);
    buf_fini(&once);
    return 0;
}
