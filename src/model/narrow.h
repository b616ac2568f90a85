/* narrow: recurrent states as BF16: what is kept of them takes half the bytes.
 *
 * So that a state that was kept goes on as one that was not, the live one is rounded too, at every
 * block boundary (design.md, Identity); who runs passes sees to it that none reaches over one.
 * States pass through the host: on a device that costs two transfers of a slot's states for each 64
 * tokens.
 * Thread: the one that owns the backend. After open nothing allocates; calls wait for the device.
 */
#ifndef RIPTIDE_MODEL_NARROW_H
#define RIPTIDE_MODEL_NARROW_H

#include "model/model.h"

typedef struct narrow narrow;

/* Host bytes that it takes. */
int64_t narrow_bytes(const arch_target *a);

/* Over m, which is borrowed until close. Returns NOMEM */
status narrow_open(narrow **n, model *m, err *e);
void narrow_close(narrow *n); /* NULL is fine */

/* All states of the slot to the nearest BF16 values. */
status narrow_round(narrow *n, int slot);

/* The state of one Gated DeltaNet layer (its number among those) of a slot, which was rounded, to
 * BF16 words and back. Returns DEVICE */
status narrow_save(narrow *n, int slot, int layer, dev_buf to);
status narrow_load(narrow *n, dev_buf from, int slot, int layer);

#endif
