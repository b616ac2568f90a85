/* tags: slow */
/* What a plan says against what opening takes. */
#include <stdlib.h>
#include <unistd.h>

#include "decode/cycle.h"
#include "decode/cycle_priv.h"
#include "load/convert.h"
#include "support/test.h"

/* Vectors take a little besides, which the plan takes from the file. */
TEST(the_weights_of_block_types_are_planned_as_the_cpu_keeps_them)
{
    static const dtype types[] = {DTYPE_Q6_K, DTYPE_Q8_0, DTYPE_Q4_0};
    char dir[] = "/tmp/riptide-plan-XXXXXX", path[64];
    load_model mini;
    err e = {0};
    assert_non_null(mkdtemp(dir));
    CHECK_OK(load_model_open(&mini, "models/mini-dense", &e), &e);
    for (int i = 0; i < 3; i++) {
        load_model m;
        cycle *c;
        cycle_sizes plan;
        snprintf(path, sizeof path, "%s/%d.gguf", dir, i);
        CHECK_OK(load_convert(&mini, path, types[i], 2, &e), &e);
        CHECK_OK(load_model_open(&m, path, &e), &e);
        cycle_options o = {.model = path,
                           .backend = "cpu",
                           .n_threads = 1,
                           .n_slots = 1,
                           .prefill_rows = 32,
                           .max_context = 128,
                           .kv = KV_INT8};
        CHECK_OK(cycle_open(&c, &o, &e), &e);
        CHECK_OK(cycle_plan_sizes(&o, &m, NULL, cycle_backend(c), &plan, &e), &e);
        double takes = (double)cycle_bytes(c).target.weights;
        if (fabs((double)plan.weights - takes) > 0.02 * takes)
            fail_msg("%s: %lld planned, %.0f taken", dtype_name(types[i]), (long long)plan.weights,
                     takes);
        cycle_close(c);
        load_model_close(&m);
        unlink(path);
    }
    load_model_close(&mini);
    rmdir(dir);
}
