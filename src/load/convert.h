/* convert: a model of any format that load.h opens, written as one GGUF file.
 *
 * Names, metadata, +1 norms, -exp(A_log) and the order of value heads as model-spec 4.3 has them;
 * drafts in llama.cpp's dialect. Matrices get the type asked for; rows that are no whole blocks of
 * it fall back to Q8_0, then F16; norms, convolutions, decays, routers and the delta rule's gates
 * are F32, as in the files seen. */
#ifndef RIPTIDE_LOAD_CONVERT_H
#define RIPTIDE_LOAD_CONVERT_H

#include "load/load.h"

/* Write m, whose weights are open, to `path`.
 *
 * type       what block_encode.h can write
 * n_threads  that encode, 0 for the cores of the process; the file is the same with any number
 * Returns    INVALID for another type; FORMAT for a tokenizer that cannot be carried over;
 *            UNSUPPORTED for what GGUF has no key for; IO; NOMEM */
status load_convert(const load_model *m, const char *path, dtype type, int n_threads, err *e);

#endif
