/* guard: memory that ends at an unreadable page, so that one byte too far is a crash. */
#ifndef RIPTIDE_TESTS_GUARD_H
#define RIPTIDE_TESTS_GUARD_H
#include <stddef.h>
/* A copy of n bytes whose last byte is the last readable one. */
void *guard_copy(const void *bytes, size_t n);
void guard_free(void *p, size_t n);
#endif
