/* stop: stop strings over emitted bytes.
 *
 * Text is let through up to the first completed stop string and cut exactly before it. What may
 * still become one is held back, and nothing more. Of strings completed by the same byte the one
 * that began first wins.
 * Thread: one at a time. */
#ifndef RIPTIDE_SAMPLE_STOP_H
#define RIPTIDE_SAMPLE_STOP_H

#include "base/buf.h"

enum { STOP_STRINGS_MAX = 16, STOP_BYTES_MAX = 1024 };

typedef struct {
    const str *strings; /* borrowed [n], none empty, each <= STOP_BYTES_MAX */
    int n;
    buf held; /* owned: a suffix of the text that may begin a stop string */
    int hit;  /* index of the string that was completed, or -1 */
} stop;

/* Owns its held bytes; give them back with stop_fini. */
void stop_init(stop *s, const str *strings, int n);
void stop_fini(stop *s);

/* Append to `out` what of the text so far may be shown. After a hit nothing more is. */
void stop_push(stop *s, str text, buf *out);

/* End of text: what was held back is shown after all. */
void stop_flush(stop *s, buf *out);

#endif
