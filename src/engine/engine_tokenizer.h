/* engine_tokenizer: the tokenizer of a loaded model, from whichever form its files have it in. */
#ifndef RIPTIDE_ENGINE_ENGINE_TOKENIZER_H
#define RIPTIDE_ENGINE_ENGINE_TOKENIZER_H

#include "decode/cycle.h"
#include "token/tokenizer.h"

/* A text of many kinds must come back from its ids as it went in, with ids that the embedding has.
 *
 * Returns  FORMAT when that fails or the model has none, else what opening one returns
 * Owns     the caller closes *t; the model's texts are not needed afterwards */
status engine_tokenizer_open(tokenizer **t, const load_model *m, err *e);

#endif
