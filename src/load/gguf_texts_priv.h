/* gguf_texts: the tokenizer and the chat template that a GGUF file carries. */
#ifndef RIPTIDE_LOAD_GGUF_TEXTS_PRIV_H
#define RIPTIDE_LOAD_GGUF_TEXTS_PRIV_H

#include "load/gguf_priv.h"
#include "load/load.h"

/* Copies into m's arena: m->tokenizer, chat_template, bos_token, eos_token. A file without tokens
 * leaves them as they are.
 *
 * Returns  FORMAT, UNSUPPORTED, naming the key; NOMEM */
status gguf_texts_read(load_model *m, const gguf *g, err *e);

#endif
