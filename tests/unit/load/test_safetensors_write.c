#include "base/file.h"
#include "base/mem.h"
#include "fixture_checkpoint.h"
#include "load/safetensors.h"

static const float logits[6] = {1, -2, 3.5f, 1e-30f, 0, 6};
static const int32_t path_ids[3] = {5, -1, 70000};

static const safetensors_entry entries[] = {
    {"logits", {.type = DTYPE_F32, .n_dims = 2, .shape = {2, 3}, .data = logits}},
    {"draft \"path\"", {.type = DTYPE_I32, .n_dims = 1, .shape = {3}, .data = path_ids}},
    {"empty", {.type = DTYPE_F32, .n_dims = 2, .shape = {0, 7}}},
};

static void check_file(const char *path)
{
    safetensors *s;
    err e;
    CHECK_OK(safetensors_open(&s, path, &e), &e);
    assert_int_equal(safetensors_count(s), 3);
    for (int i = 0; i < 3; i++) {
        const tensor *t = safetensors_find(s, entries[i].name), *want = &entries[i].t;
        assert_non_null(t);
        assert_int_equal(t->type, want->type);
        assert_int_equal(t->n_dims, want->n_dims);
        assert_memory_equal(t->shape, want->shape, (size_t)t->n_dims * 8);
        if (t->n_bytes) assert_memory_equal(t->data, want->data, (size_t)t->n_bytes);
    }
    assert_int_equal((uintptr_t)safetensors_find(s, "logits")->data % 8, 0);
    safetensors_close(s);
}

static int count_files(const fixture *f)
{
    DIR *d = opendir(f->dir);
    int n = 0;
    for (struct dirent *x; (x = readdir(d));) n += x->d_name[0] != '.';
    closedir(d);
    return n;
}

TEST(what_is_written_reads_back_and_replaces_the_old_file)
{
    fixture f;
    err e;
    fixture_init(&f);
    const char *path = fixture_path(&f, "out.safetensors");
    fixture_text(&f, "out.safetensors", "something old");
    CHECK_OK(safetensors_write(path, entries, 3, &e), &e);
    check_file(path);
    CHECK_OK(safetensors_write(path, entries, 3, &e), &e);
    check_file(path);
    assert_int_equal(count_files(&f), 1);
    fixture_fini(&f);
}

TEST(no_tensors_at_all_is_a_file_too)
{
    fixture f;
    safetensors *s;
    err e;
    fixture_init(&f);
    const char *path = fixture_path(&f, "none.safetensors");
    CHECK_OK(safetensors_write(path, NULL, 0, &e), &e);
    CHECK_OK(safetensors_open(&s, path, &e), &e);
    assert_int_equal(safetensors_count(s), 0);
    safetensors_close(s);
    fixture_fini(&f);
}

TEST(python_reads_the_file)
{
    /* The reference implementation is not at hand everywhere; its rules are these few lines. */
    static const char script[] =
        "import json,struct,sys\n"
        "b=open(sys.argv[1],'rb').read()\n"
        "n=struct.unpack('<Q',b[:8])[0]\n"
        "h=json.loads(b[8:8+n])\n"
        "assert b[8:9]==b'{' and n%8==0\n"
        "at=0\n"
        "for k,v in h.items():\n"
        "    assert v['data_offsets'][0]==at\n"
        "    at=v['data_offsets'][1]\n"
        "assert at==len(b)-8-n\n"
        "d=b[8+n:]\n"
        "o=h['logits']['data_offsets']\n"
        "assert h['logits']['dtype']=='F32' and h['logits']['shape']==[2,3]\n"
        "assert struct.unpack('<6f',d[o[0]:o[1]])[2]==3.5\n"
        "o=h['draft \"path\"']['data_offsets']\n"
        "assert struct.unpack('<3i',d[o[0]:o[1]])==(5,-1,70000)\n";
    fixture f;
    err e;
    char command[1200];
    fixture_init(&f);
    CHECK_OK(safetensors_write(fixture_path(&f, "out.safetensors"), entries, 3, &e), &e);
    fixture_text(&f, "check.py", script);
    snprintf(command, sizeof command, "python3 -S %s %s", fixture_path(&f, "check.py"),
             fixture_path(&f, "out.safetensors"));
    int rc = system("python3 -S -c pass 2>/dev/null") == 0 ? system(command) : -1;
    fixture_fini(&f);
    if (rc == -1) TEST_SKIP("no python3");
    assert_int_equal(rc, 0);
}

TEST(what_the_format_cannot_hold_is_refused_and_no_file_is_left)
{
    safetensors_entry bad[][2] = {
        {entries[0], entries[0]},
        {entries[0], {"", entries[1].t}},
        {entries[0], {"__metadata__", entries[1].t}},
        {entries[0], {"x", {.type = DTYPE_AFFINE, .n_dims = 1, .shape = {4}, .data = logits}}},
        {entries[0], {"x", {.type = DTYPE_NONE, .n_dims = 1, .shape = {4}, .data = logits}}},
        {entries[0], {"x", {.type = DTYPE_F32, .n_dims = 2, .shape = {-1, 4}, .data = logits}}},
        {entries[0], {"x", {.type = DTYPE_F32, .n_dims = 1, .shape = {1ll << 62}, .data = logits}}},
        {entries[0], {"x", {.type = DTYPE_F32, .n_dims = 1, .shape = {2}}}},
        {entries[0], {"x", {.type = DTYPE_F32, .n_dims = 9, .shape = {2}, .data = logits}}},
        {entries[0],
         {"x",
          {.type = DTYPE_F32, .n_dims = 3, .shape = {1, 1, 1}, .data = logits, .slice_stride = 5}}},
    };
    fixture f;
    err e;
    fixture_init(&f);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_STATUS(safetensors_write(fixture_path(&f, "o.safetensors"), bad[i], 2, &e),
                     ERR_INVALID);
    assert_int_equal(count_files(&f), 0);
    CHECK_STATUS(safetensors_write("/nowhere/at/all.safetensors", entries, 3, &e), ERR_IO);
    assert_string_equal(e.where, "/nowhere/at/all.safetensors");
    fixture_fini(&f);
}

TEST(a_failed_rename_leaves_the_old_content_and_nothing_beside_it)
{
    fixture f;
    err e;
    fixture_init(&f);
    const char *path = fixture_path(&f, "taken");
    assert_int_equal(mkdir(path, 0700), 0);
    CHECK_STATUS(safetensors_write(path, entries, 3, &e), ERR_IO);
    assert_int_equal(count_files(&f), 1);
    rmdir(path);
    fixture_fini(&f);
}

TEST(every_failed_allocation_is_out_of_memory_and_leaks_nothing)
{
    fixture f;
    fixture_init(&f);
    int64_t live = mem_count().n_live;
    for (int64_t at = 1;; at++) {
        err e;
        mem_fail_at(at);
        status s = safetensors_write(fixture_path(&f, "o.safetensors"), entries, 3, &e);
        mem_fail_at(0);
        assert_int_equal(mem_count().n_live, live);
        if (s == ERR_OK) break;
        CHECK_STATUS(s, ERR_NOMEM);
        assert_int_equal(count_files(&f), 0);
    }
    fixture_fini(&f);
}
