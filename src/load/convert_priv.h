/* convert_priv: the metadata of a converted model. */
#ifndef RIPTIDE_LOAD_CONVERT_PRIV_H
#define RIPTIDE_LOAD_CONVERT_PRIV_H

#include "load/convert.h"
#include "load/gguf_write.h"

/* All keys of model-spec 4.3 for m; `file_type` is llama.cpp's number, or -1 for none. */
status convert_put_keys(const load_model *m, int file_type, gguf_out_keys *k, err *e);
/* convert_tokenizer.c: those of the tokenizer and the template, which are left out when m has none.
 *
 * Returns  FORMAT when tokenizer.json is not one of byte-level BPE as GGUF can say it; NOMEM */
status convert_put_tokenizer(const load_model *m, gguf_out_keys *k, err *e);

#endif
