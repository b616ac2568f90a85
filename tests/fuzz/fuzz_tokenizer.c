/* links: token */
/* Any bytes as a tokenizer.json; when it opens, any bytes as text. The input is the file, a byte
 * 0xff (which JSON has not), then the text. What is encoded must decode to text, and cutting the
 * text into segments must not change it. */
#include "base/asserts.h"
#include "base/utf8.h"
#include "token/detok.h"
#include "token/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_text(const tokenizer *t, str text, bool specials)
{
    token_ids ids = {0}, again = {0};
    err e;
    size_t half = text.len / 2;
    while (half < text.len && (text.ptr[half] & 0xc0) == 0x80) half++;
    tokenizer_segment segments[] = {{str_slice(text, 0, half), specials},
                                    {str_skip(text, half), specials}};
    status s = tokenizer_encode(t, text, specials, 100000, &ids, &e);
    ASSERT(s == ERR_OK || s == ERR_LIMIT);
    ASSERT(s == ERR_OK || ids.n == 0);
    if (utf8_check(text) < 0) {
        ASSERT(tokenizer_encode_segments(t, segments, 2, 100000, &again, &e) == s);
        ASSERT(again.n == ids.n);
        ASSERT(ids.n == 0 || memcmp(ids.ptr, again.ptr, (size_t)ids.n * sizeof *ids.ptr) == 0);
    }
    buf out;
    detok d;
    buf_init(&out);
    detok_init(&d, tokenizer_vocab(t), false);
    for (int i = 0; i < ids.n; i++) {
        ASSERT(vocab_has(tokenizer_vocab(t), ids.ptr[i]));
        detok_push(&d, ids.ptr[i], &out);
    }
    detok_flush(&d, &out);
    ASSERT(utf8_check(buf_str(&out)) < 0);
    buf_fini(&out);
    token_ids_fini(&ids);
    token_ids_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *end = n ? memchr(data, 0xff, n) : NULL;
    size_t n_file = end ? (size_t)(end - data) : n;
    str file = {(const char *)data, n_file};
    str text = {(const char *)data + n_file + (end != NULL), n - n_file - (end != NULL)};
    tokenizer *t = NULL;
    err e;
    if (tokenizer_open(&t, file, "fuzz", &e) != ERR_OK) return 0;
    check_text(t, text, true);
    check_text(t, text, false);
    tokenizer_close(t);
    return 0;
}
