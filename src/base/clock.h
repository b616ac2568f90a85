/* clock: monotonic time. */
#ifndef RIPTIDE_BASE_CLOCK_H
#define RIPTIDE_BASE_CLOCK_H
#include <stdint.h>
int64_t clock_ns(void);     /* monotonic */
int64_t clock_unix_s(void); /* wall clock seconds, for `created` fields */
static inline double clock_ms_since(int64_t start_ns)
{
    return (double)(clock_ns() - start_ns) * 1e-6;
}
#endif
