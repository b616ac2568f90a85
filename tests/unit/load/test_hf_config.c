#include "base/file.h"
#include "base/mem.h"
#include "load/hf_config_priv.h"
#include "support/test.h"

static status parse_file(const char *path, hf_config *c, arena *mem, err *e)
{
    str text;
    status s = file_read(mem, path, 1 << 20, &text, e);
    return s == ERR_OK ? hf_config_parse(c, mem, text, path, e) : s;
}

TEST(the_bundled_configurations_are_read)
{
    static const char *const names[] = {"mini-dense", "mini-moe", "mini-dense-dflash2",
                                        "mini-moe-dflash2"};
    for (int i = 0; i < 4; i++) {
        char path[100];
        hf_config c;
        arena mem;
        err e;
        arena_init(&mem, 0);
        snprintf(path, sizeof path, "models/%s/config.json", names[i]);
        CHECK_OK(parse_file(path, &c, &mem, &e), &e);
        assert_int_equal(c.is_draft, i >= 2);
        assert_int_equal(c.quant.is_present, i < 2);
        assert_int_equal(c.quant.n, i == 1 ? 16 : 0);
        if (i < 2) assert_true(c.target.n_eos == 2 && c.target.eos[0] == 2069);
        arena_fini(&mem);
    }
}

TEST(a_file_cut_anywhere_is_refused)
{
    arena mem, scratch;
    str text;
    err e;
    arena_init(&mem, 0);
    CHECK_OK(file_read(&mem, "models/mini-moe/config.json", 1 << 20, &text, &e), &e);
    for (size_t n = 0; n < str_trim(text).len; n += 7) {
        hf_config c;
        arena_init(&scratch, 0);
        CHECK_STATUS(hf_config_parse(&c, &scratch, str_slice(text, 0, n), "c", &e), ERR_FORMAT);
        arena_fini(&scratch);
    }
    arena_fini(&mem);
}

TEST(every_failed_allocation_is_out_of_memory_and_leaks_nothing)
{
    int64_t live = mem_count().n_live;
    for (int64_t at = 1;; at++) {
        hf_config c;
        arena mem;
        err e;
        arena_init(&mem, 0);
        mem_fail_at(at);
        status s = parse_file("models/mini-moe/config.json", &c, &mem, &e);
        mem_fail_at(0);
        arena_fini(&mem);
        assert_int_equal(mem_count().n_live, live);
        if (s == ERR_OK) break;
        CHECK_STATUS(s, ERR_NOMEM);
    }
}
