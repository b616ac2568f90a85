/* token_ids: a growable list of token ids, owned by whoever declares it. Zeros are an empty one.
 *
 * Thread: one at a time. */
#ifndef RIPTIDE_TOKEN_TOKEN_IDS_H
#define RIPTIDE_TOKEN_TOKEN_IDS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    int32_t *ptr; /* [n] owned; NULL when nothing was ever added */
    int n, cap;
} token_ids;

/* Make room for `more` ids after the n there are; false when there is no memory. */
bool token_ids_reserve(token_ids *ids, int64_t more);
bool token_ids_push(token_ids *ids, int32_t id);
void token_ids_fini(token_ids *ids); /* leaves zeros; twice is harmless */

#endif
