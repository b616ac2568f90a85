/* tags: threads */
#include "bench/profile_model_priv.h"

#include <stdlib.h>

#include "base/file.h"
#include "load/load.h"
#include "support/test.h"
#include "unit/bench/small_shape.h"

TEST(a_model_that_nobody_keeps_is_usable_beyond_its_files)
{
    profile_model m;
    load_model target, draft;
    char dirs[2][4300];
    err e = {0};
    CHECK_OK(profile_model_make(&m, &small_dense, 3, &e), &e);
    snprintf(dirs[0], sizeof dirs[0], "%s", m.target);
    snprintf(dirs[1], sizeof dirs[1], "%s", m.draft);
    CHECK_OK(load_model_open(&target, m.target, &e), &e);
    CHECK_OK(load_model_open(&draft, m.draft, &e), &e);
    CHECK_OK(load_check_pair(&target.target, &draft.draft, &e), &e);
    profile_model_remove(&m);
    for (int i = 0; i < 2; i++) assert_false(file_is_dir(dirs[i]));
    assert_int_equal(m.target[0], 0);
    profile_model_remove(&m);
    int64_t sum = 0;
    for (int i = 0; i < weights_count(target.weights); i++) {
        const tensor *t;
        weights_name(target.weights, i, &t);
        sum += ((const uint8_t *)t->data)[t->n_bytes - 1];
    }
    assert_true(sum > 0);
    load_model_close(&draft);
    load_model_close(&target);
}

TEST(where_nothing_can_be_made_nothing_is_left)
{
    profile_model m;
    err e = {0};
    shape nowhere = small_dense;
    nowhere.name = "no/such/folder";
    assert_int_equal(profile_model_make(&m, &nowhere, 3, &e), ERR_IO);
    assert_non_null(strstr(e.where, "riptide-no/such"));
    assert_int_equal(m.target[0], 0);
}
