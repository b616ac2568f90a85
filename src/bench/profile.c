#include "bench/bench_priv.h"
int bench_decode_profile(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return 1;
}
