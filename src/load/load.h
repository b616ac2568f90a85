/* load: look at a path, pick the format, and give back everything a model directory says.
 *
 * The only file that knows all formats: directories of safetensors with config.json, MLX affine or
 * plain Hugging Face, and GGUF files, whole or in parts. Files are mapped, never copied whole.
 * Thread: open and close on one thread; the content is read-only. */
#ifndef RIPTIDE_LOAD_LOAD_H
#define RIPTIDE_LOAD_LOAD_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "load/arch.h"
#include "load/weights.h"

/* The tokenizer of a GGUF file, as token/tokenizer.h takes it; n_pieces is 0 when there is none. */
typedef struct {
    const str *pieces;    /* [n_pieces] */
    const int32_t *types; /* [n_pieces] 1 normal, 3 control, 4 user defined, 5 unused */
    int n_pieces;
    const str *merges; /* [n_merges] "left right" */
    int n_merges;
    str pretokenizer;
} load_tokenizer;

typedef struct {
    arena mem;          /* owns everything below */
    const char *path;   /* as given */
    const char *name;   /* last path component, for `model` fields */
    const char *format; /* "mlx", "hf" or "gguf" */
    bool is_draft;
    arch_target target; /* when not is_draft */
    arch_draft draft;   /* when is_draft */
    arch_sampling sampling;
    str tokenizer_json;       /* whole text, empty when there is none */
    load_tokenizer tokenizer; /* of a GGUF file, which has no tokenizer.json */
    str chat_template;        /* chat_template.jinja, else tokenizer_config's or GGUF's, or empty */
    str bos_token, eos_token; /* texts of tokenizer_config or GGUF, or empty */
    weights *weights;
} load_model;

/* Open `path`: a directory, or a GGUF file (any part of a split one). Every tensor the architecture
 * needs must be there with its shape; extra tensors (vision_tower, mtp, GGUF's nextn layers) are
 * ignored. Weights that are looked at must be numbers: vectors whole, of matrices some rows.
 * has_norm_offset is found from the files: how conv1d lies and the mean of the layer norms
 * must agree.
 *
 * Returns  IO, FORMAT (where = file, msg names tensor or key), UNSUPPORTED, NOMEM
 * Owns     the caller closes m; on failure it is left zeroed */
status load_model_open(load_model *m, const char *path, err *e);
/* Configuration and sidecars only: no weight file is mapped, `weights` is NULL. What only the files
 * tell is then a guess from the configuration: format, has_norm_offset, a disputed is_tied. */
status load_model_peek(load_model *m, const char *path, err *e);
/* The same for the first n_bytes of a GGUF file of n_file bytes (the first part of a split one): a
 * look before the rest is fetched. On failure *is_short tells whether more bytes may help. Every
 * tensor that is in this part must be of a type that can be read. */
status load_model_peek_head(load_model *m, const char *name, const uint8_t *bytes, int64_t n_bytes,
                            int64_t n_file, bool *is_short, err *e);
void load_model_close(load_model *m);

/* Check that a draft fits a target (width, vocabulary, taps within layers, mask id, rope base).
 * Returns  INVALID with the key that does not fit */
status load_check_pair(const arch_target *t, const arch_draft *d, err *e);
/* Where both files have a tokenizer (GGUF), its plain tokens must be the same ones.
 * Returns  INVALID with the first token that is not */
status load_check_vocabulary(const load_model *target, const load_model *draft, err *e);

/* Hidden width, heads and so on as one JSON object (for `riptide info`). */
void load_put_arch_json(const load_model *m, buf *out);

#endif
