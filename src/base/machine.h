/* machine: what this machine has. */
#ifndef RIPTIDE_BASE_MACHINE_H
#define RIPTIDE_BASE_MACHINE_H

#include <stdint.h>

/* Bytes of memory that this process may come to: the machine's, or its control group's limit where
 * that is less; 0 when the system does not say. */
int64_t machine_memory(void);

#endif
