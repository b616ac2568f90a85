/* Which model and which draft the flags name. */
#include <stdlib.h>
#include <unistd.h>

#include "engine/engine_flags.h"
#include "support/test.h"

static void touch(const char *path)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
}

/* Resolve `model` with `draft` (NULL: not given) and compare the draft that comes out. */
static void check_draft(const char *model, const char *draft, const char *want)
{
    engine_flags f;
    engine_options o;
    arena a;
    err e = {0};
    arena_init(&a, 0);
    engine_flags_init(&f, 1);
    f.model = model;
    f.draft_model = draft;
    CHECK_OK(engine_flags_resolve(&f, &a, &o, &e), &e);
    assert_string_equal(o.model, model);
    if (want)
        assert_string_equal(o.draft, want);
    else
        assert_null(o.draft);
    arena_fini(&a);
}

TEST(a_draft_beside_the_model_is_found_as_folder_and_as_file)
{
    char dir[] = "/tmp/riptide-flags-XXXXXX", model[64], draft[64];
    assert_non_null(mkdtemp(dir));
    check_draft("models/mini-dense", NULL, "models/mini-dense-dflash2");
    check_draft("models/mini-dense", "none", NULL);
    snprintf(model, sizeof model, "%s/m.gguf", dir);
    snprintf(draft, sizeof draft, "%s/m-dflash2.gguf", dir);
    touch(model);
    check_draft(model, NULL, NULL);
    touch(draft);
    check_draft(model, NULL, draft);
    check_draft(model, "none", NULL);
    check_draft(model, "models/mini-dense-dflash2", "models/mini-dense-dflash2");
    unlink(model);
    unlink(draft);
    rmdir(dir);
}

TEST(a_path_that_is_not_there_is_named)
{
    engine_flags f;
    engine_options o;
    arena a;
    err e = {0};
    arena_init(&a, 0);
    engine_flags_init(&f, 1);
    f.model = "/nowhere/m.gguf";
    CHECK_STATUS(engine_flags_resolve(&f, &a, &o, &e), ERR_IO);
    assert_string_equal(e.where, "/nowhere/m.gguf");
    f.model = "models/mini-dense";
    f.draft_model = "/nowhere/d.gguf";
    CHECK_STATUS(engine_flags_resolve(&f, &a, &o, &e), ERR_IO);
    assert_string_equal(e.where, "/nowhere/d.gguf");
    arena_fini(&a);
}
