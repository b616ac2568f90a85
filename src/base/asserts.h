/* asserts: a programmer's mistake stops the program at once, in release builds too. */
#ifndef RIPTIDE_BASE_ASSERTS_H
#define RIPTIDE_BASE_ASSERTS_H

#include <stdio.h>
#include <stdlib.h>

#define ASSERT(cond)                                                                     \
    do {                                                                                 \
        if (__builtin_expect(!(cond), 0)) {                                              \
            fprintf(stderr, "%s:%d: assertion failed: %s\n", __FILE__, __LINE__, #cond); \
            abort();                                                                     \
        }                                                                                \
    } while (0)

#ifdef RIPTIDE_DEBUG
#define DASSERT(cond) ASSERT(cond)
#else
#define DASSERT(cond) ((void)sizeof(cond))
#endif

#endif
