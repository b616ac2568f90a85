/* peak: what the machine can do, measured beside the stages.
 *
 * Host backends: all threads read an array that no cache holds; int8 dot products in registers, of
 * vectors: AMX's tiles are not counted, so with them a share above one is possible.
 * cuda: the better of a copy (bytes read and written) and one row through large bf16 weights; the
 * math rate is this backend's own bf16 linear with many rows, so that a share above one of it is
 * possible and a weak linear flatters every share: compare it with the data sheet. */
#ifndef RIPTIDE_BENCH_PEAK_PRIV_H
#define RIPTIDE_BENCH_PEAK_PRIV_H

#include "backend/backend.h"

typedef struct {
    double read;      /* bytes a second */
    double n_ops;     /* operations a second; 0 = not known here */
    double copied;    /* cuda: bytes read and written a second by a copy; else 0 */
    char machine[96]; /* processor or GPU, as the system names it */
} peak;

/* Opens and closes a backend of that name of its own. */
status peak_measure(peak *p, const char *backend_name, int n_threads, err *e);

/* The processor, or the first GPU. */
void peak_name_machine(char *out, size_t cap, bool is_device);

#endif
