/* gguf_names: what a canonical tensor (weights.h) is called in a GGUF file (model-spec 4.3). */
#ifndef RIPTIDE_LOAD_GGUF_NAMES_PRIV_H
#define RIPTIDE_LOAD_GGUF_NAMES_PRIV_H

enum { GGUF_SPELLINGS_MOST = 3, GGUF_SPELLING_CAP = 96 };

typedef struct {
    int n; /* 0 for a name that is not known */
    char name[GGUF_SPELLINGS_MOST][GGUF_SPELLING_CAP];
} gguf_spellings;

/* All spellings that files use, the usual one first. */
gguf_spellings gguf_names_find(const char *canonical);

#endif
