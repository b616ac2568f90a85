/* nfc: Unicode normalisation form C, the way Hugging Face's normaliser does it (Unicode 9: a
 * code point assigned later is left alone and joins nothing).
 *
 * Text that needs nothing is found out fast and not copied. Linear in the text, also for long
 * runs of combining marks. Thread: an nfc_work belongs to one call at a time. */
#ifndef RIPTIDE_TOKEN_NFC_PRIV_H
#define RIPTIDE_TOKEN_NFC_PRIV_H

#include "base/buf.h"
#include "base/err.h"

/* The bytes [in, in_end) of the source became [out, out_end). */
typedef struct {
    size_t in, in_end, out, out_end;
} nfc_span;

typedef struct {
    int32_t *points; /* [cap] code points of the span at hand */
    int32_t *sorted; /* [cap] */
    int64_t n, cap;
    nfc_span *spans; /* [n_spans] all that nfc_write changed, in order */
    int64_t n_spans, spans_cap;
} nfc_work;
void nfc_work_fini(nfc_work *w); /* leaves zeros */

/* Find the first span at or after `from` that normalising may change; false when there is none.
 * s is well-formed UTF-8. */
bool nfc_find(str s, size_t from, size_t *begin, size_t *end);

/* Append s normalised to `out` and note the spans in w. Returns NOMEM, or OK. */
status nfc_write(nfc_work *w, str s, buf *out);

#endif
