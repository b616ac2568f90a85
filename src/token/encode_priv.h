/* encode: one text through one tokenizer, and the working sets that this takes. */
#ifndef RIPTIDE_TOKEN_ENCODE_PRIV_H
#define RIPTIDE_TOKEN_ENCODE_PRIV_H

#include "token/tokenizer.h"

/* Buffers and caches of one call at a time. */
typedef struct encode_work encode_work;
status encode_work_open(encode_work **w, const tokenizer *t, err *e);
void encode_work_close(encode_work *w);

/* See tokenizer_encode_segments. */
status encode_segments(encode_work *w, const tokenizer_segment *segments, int n, int64_t max_tokens,
                       token_ids *ids, err *e);

/* Working sets that no call uses at the moment. Thread: any. */
typedef struct encode_pool encode_pool;
status encode_pool_open(encode_pool **p, err *e);
void encode_pool_close(encode_pool *p);
encode_work *encode_pool_take(encode_pool *p); /* NULL when there is none */
void encode_pool_give(encode_pool *p, encode_work *w);

#endif
