/* sidecar: the small files beside config.json, each of which may be absent. */
#ifndef RIPTIDE_LOAD_SIDECAR_PRIV_H
#define RIPTIDE_LOAD_SIDECAR_PRIV_H

#include "load/load.h"

/* generation_config.json into m->sampling and m->target's stop ids (in front of config.json's) and
 * pad id; tokenizer.json, tokenizer_config.json and chat_template.jinja into m's texts. */
status sidecar_read_all(load_model *m, err *e);

#endif
