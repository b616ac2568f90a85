/* riptide-workshop: kernels under trial against those of the product.
 *
 *   riptide-workshop attention-sweep [substring of a line] [--samples N]
 *   riptide-workshop draft-attention [--rounds N]
 *
 * Prints JSON lines; the exit status is 1 when outputs that must be equal are not. */
#include "trial.cuh"

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "attention-sweep") == 0) return attention_sweep_main(argc - 1, argv + 1);
    if (strcmp(what, "draft-attention") == 0) return draft_attention_main(argc - 1, argv + 1);
    fprintf(stderr, "usage: riptide-workshop attention-sweep | draft-attention\n");
    return 2;
}
