/* schema_ref: what a reference of a schema points at, and where in the schema something stands. */
#ifndef RIPTIDE_GRAMMAR_SCHEMA_REF_PRIV_H
#define RIPTIDE_GRAMMAR_SCHEMA_REF_PRIV_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"

typedef struct {
    const json *root;
    bool ref_is_alone;  /* up to draft 7, what stands beside $ref is not read */
    bool has_inner_ids; /* a part has an $id of its own: references would need its base */
    struct schema_cache
        *cache; /* patterns compiled so far (schema_match_priv.h); set by the user */
} schema_doc;

void schema_doc_init(schema_doc *d, const json *root);

/* The schema that `ref` (the value of a $ref inside the document) points at; only places inside
 * the document: #, #/a/b, #name, or the same behind the document's own $id.
 *
 * Returns  UNSUPPORTED (elsewhere), FORMAT (nowhere); err.where is the pointer of `ref` */
status schema_ref_find(const schema_doc *d, const json *ref, const json **out, err *e);

/* The JSON pointer of a part of the document, as a fragment ("#/properties/a"), with "/key" behind
 * it when key is not NULL; cut to cap. */
void schema_pointer(const json *root, const json *part, const char *key, char *out, int cap);

#endif
