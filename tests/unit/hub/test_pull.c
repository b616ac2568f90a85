/* tags: threads */
/* What lies in the cache after a download, and which bytes crossed the wire for it. */
#include "base/mem.h"
#include "hub_fixture.h"

static void check_safetensors(hub_fixture *x, const hub_model *m)
{
    str w = buf_str(&x->weights);
    assert_string_equal(m->path, fixture_path(x, "snapshots/" HUB_COMMIT));
    assert_string_equal(m->commit, HUB_COMMIT);
    fixture_check_file(x, m->path, "config.json", STR("{\"model_type\": \"x\"}\n"));
    fixture_check_file(x, m->path, "model-00001-of-00002.safetensors", str_slice(w, 0, 200000));
    fixture_check_file(x, m->path, "model-00002-of-00002.safetensors", str_skip(w, 200000));
    fixture_check_file(x, fixture_path(x, "refs"), "main", STR(HUB_COMMIT));
    assert_int_equal(fixture_count(x, "blobs", "incomplete"), 0);
}

TEST(a_model_lies_in_the_cache_as_the_hubs_own_tools_put_it)
{
    hub_fixture x;
    hub_model m;
    err e = {0};
    char target[256];
    fixture_open(&x);
    fixture_safetensors(&x);
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    check_safetensors(&x, &m);
    assert_int_equal(fixture_count(&x, "blobs", ""), 5);
    assert_int_equal(fixture_count(&x, "snapshots", ""), 5);
    assert_int_equal(hub_server_count(&x.server, "other.safetensors"), 0);
    assert_int_equal(hub_server_count(&x.server, "README"), 0);
    /* "{\"model_type\": \"x\"}\n" as `git hash-object` names it. */
    ssize_t n = readlink(fixture_path(&x, "snapshots/" HUB_COMMIT "/config.json"), target, 255);
    assert_true(n > 0);
    target[n] = '\0';
    assert_string_equal(target, "../../blobs/f891060d5b6dcb5fc89976e6cb12aed4f98ea8f2");
    assert_true(x.last.n_done == x.last.n_total && x.last.n_total == m.n_bytes);
    assert_int_equal(m.n_fetched, m.n_bytes);
    fixture_close(&x);
}

TEST(a_second_call_fetches_nothing_but_the_list)
{
    hub_fixture x;
    hub_model m;
    err e = {0};
    fixture_open(&x);
    fixture_safetensors(&x);
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    hub_server_forget(&x.server);
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    check_safetensors(&x, &m);
    assert_int_equal(m.n_fetched, 0);
    assert_int_equal(x.server.n_seen, 1);
    fixture_close(&x);
}

TEST(a_new_commit_fetches_only_what_is_new)
{
    hub_fixture x;
    hub_model m;
    err e = {0};
    fixture_open(&x);
    fixture_safetensors(&x);
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    hub_server_forget(&x.server);
    hub_server_put(&x.server, "config.json", STR("{\"model_type\": \"y\"}\n"), false);
    memset(x.server.commit, 'a', 40);
    /* The server finds files behind its first commit only, so name that of the second there. */
    CHECK_STATUS(fixture_pull(&x, &m, &e), ERR_INVALID);
    fixture_check_file(&x, fixture_path(&x, "refs"), "main", STR(HUB_COMMIT));
    snprintf(x.server.commit, sizeof x.server.commit, HUB_COMMIT);
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    assert_int_equal(m.n_fetched, 20);
    fixture_check_file(&x, m.path, "config.json", STR("{\"model_type\": \"y\"}\n"));
    fixture_close(&x);
}

TEST(the_configuration_is_looked_at_before_any_weight)
{
    hub_fixture x;
    hub_model m;
    err e = {0};
    fixture_open(&x);
    fixture_safetensors(&x);
    x.refusal = "no such family";
    CHECK_STATUS(fixture_pull(&x, &m, &e), ERR_UNSUPPORTED);
    assert_string_equal(e.msg, "no such family");
    assert_true(x.saw_config && x.n_looks == 1);
    assert_int_equal(hub_server_count(&x.server, "model-0000"), 0);
    CHECK_STATUS(hub_find(&x.name, &x.o, &x.mem, &m, &e), ERR_IO);
    fixture_close(&x);
}

TEST(of_a_gguf_file_the_head_is_looked_at_and_no_byte_comes_twice)
{
    hub_fixture x;
    hub_model m;
    err e = {0};
    fixture_open(&x);
    fixture_gguf(&x);
    x.wants = 3 << 20;
    x.refusal = "no such architecture";
    CHECK_STATUS(fixture_pull(&x, &m, &e), ERR_UNSUPPORTED);
    assert_true(x.server.n_body < FIXTURE_GGUF && x.n_looked == 4 << 20 && x.n_looks == 2);
    x.refusal = NULL;
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    assert_string_equal(m.path, fixture_path(&x, "snapshots/" HUB_COMMIT "/M-Q4_K_M.gguf"));
    fixture_check_file(&x, m.path, NULL, buf_str(&x.gguf));
    assert_int_equal(x.server.n_body, FIXTURE_GGUF);
    assert_int_equal(hub_server_count(&x.server, "mmproj"), 0);
    fixture_close(&x);
}

TEST(a_look_ends_before_the_weights_and_counts_what_is_missing)
{
    hub_fixture x;
    hub_model m;
    err e = {0};
    fixture_open(&x);
    fixture_safetensors(&x);
    x.o.only_looks = true;
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    assert_null(m.path);
    assert_true(m.n_missing == FIXTURE_WEIGHTS && m.n_bytes > m.n_missing && m.n_files == 5);
    assert_true(x.n_looks == 1 && hub_server_count(&x.server, "model-0000") == 0);
    x.o.is_offline = true;
    CHECK_STATUS(fixture_pull(&x, &m, &e), ERR_IO);
    fixture_close(&x);
}

TEST(a_variant_names_the_file)
{
    hub_fixture x;
    hub_model m;
    err e = {0};
    fixture_open(&x);
    fixture_gguf(&x);
    x.o.check = NULL;
    assert_true(hub_name_parse(STR("o/r:q8_0"), &x.name));
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    assert_string_equal(m.path, fixture_path(&x, "snapshots/" HUB_COMMIT "/M-Q8_0.gguf"));
    assert_true(hub_name_parse(STR("o/r:Q3_K"), &x.name));
    CHECK_STATUS(fixture_pull(&x, &m, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "M-Q4_K_M, M-Q8_0"));
    fixture_close(&x);
}

TEST(the_token_goes_to_the_hub_and_not_where_that_redirects_to)
{
    hub_fixture x;
    hub_model m;
    err e = {0};
    fixture_open(&x);
    fixture_safetensors(&x);
    x.o.token = "hf_secret";
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    int n_with = 0, n_cdn = 0;
    for (int i = 0; i < x.server.n_seen; i++) {
        bool is_cdn = strstr(x.server.seen[i].url, "/cdn/") != NULL;
        n_cdn += is_cdn;
        n_with += strcmp(x.server.seen[i].token, "Bearer hf_secret") == 0;
        if (is_cdn) assert_string_equal(x.server.seen[i].token, "");
    }
    assert_int_equal(n_cdn, 3);
    assert_int_equal(n_with, x.server.n_seen - 3);
    fixture_close(&x);
}

typedef struct {
    hub_fixture *x;
    arena mem;
    hub_options o;
    status s;
} other_call;

static void *call_again(void *arg)
{
    other_call *c = arg;
    hub_model m;
    c->s = hub_pull(&c->x->name, &c->o, &c->mem, &m, NULL);
    return NULL;
}

TEST(two_at_once_fetch_it_once)
{
    hub_fixture x;
    hub_model m;
    err e = {0};
    thread t;
    fixture_open(&x);
    fixture_gguf(&x);
    other_call c = {.x = &x, .o = x.o};
    c.o.check = NULL;
    c.o.on_note = NULL;
    c.o.on_progress = NULL;
    arena_init(&c.mem, 0);
    hub_server_fault(&x.server, (hub_fault){"/cdn/", NULL, HUB_CUT, 1 << 20, 1});
    CHECK_OK(thread_start(&t, "other", call_again, &c, &e), &e);
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    thread_join(&t);
    CHECK_STATUS(c.s, ERR_OK);
    assert_int_equal(x.server.n_body, FIXTURE_GGUF);
    fixture_check_file(&x, m.path, NULL, buf_str(&x.gguf));
    arena_fini(&c.mem);
    fixture_close(&x);
}

TEST(a_branch_of_several_parts_and_a_commit_are_revisions)
{
    hub_fixture x;
    hub_model m;
    err e = {0};
    fixture_open(&x);
    fixture_safetensors(&x);
    x.o.revision = "refs/pr/1";
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    assert_int_equal(hub_server_count(&x.server, "/revision/refs%2Fpr%2F1?blobs=true"), 1);
    fixture_check_file(&x, fixture_path(&x, "refs/refs/pr"), "1", STR(HUB_COMMIT));
    x.o.revision = HUB_COMMIT;
    CHECK_OK(hub_find(&x.name, &x.o, &x.mem, &m, &e), &e);
    x.o.revision = "../../escape";
    CHECK_STATUS(fixture_pull(&x, &m, &e), ERR_INVALID);
    fixture_close(&x);
}

TEST(without_the_network_what_is_complete_is_found)
{
    hub_fixture x;
    hub_model m;
    err e = {0};
    fixture_open(&x);
    fixture_safetensors(&x);
    x.o.is_offline = true;
    CHECK_STATUS(fixture_pull(&x, &m, &e), ERR_IO);
    x.o.is_offline = false;
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    hub_server_forget(&x.server);
    x.o.is_offline = true;
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    check_safetensors(&x, &m);
    assert_int_equal(x.server.n_seen, 0);
    /* A blob that is gone leaves its link, and the model is not complete. */
    char command[700];
    snprintf(command, sizeof command, "rm $(readlink -f %s/model-00002-of-00002.safetensors)",
             m.path);
    assert_int_equal(system(command), 0);
    CHECK_STATUS(fixture_pull(&x, &m, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "model-00002-of-00002.safetensors"));
    fixture_close(&x);
}

TEST(every_failed_allocation_is_an_error_and_none_leaks)
{
    hub_fixture x;
    hub_model m;
    fixture_open(&x);
    hub_server_put(&x.server, "config.json", STR("{}"), false);
    hub_server_put(&x.server, "model.safetensors", STR("weights"), true);
    status s = ERR_NOMEM;
    int64_t n_live = mem_count().n_live;
    for (int64_t n = 1; s != ERR_OK; n++) {
        arena a;
        err e = {0};
        char command[128];
        snprintf(command, sizeof command, "rm -rf %s/models--o--r", x.dir);
        if (n % 8 == 0) assert_int_equal(system(command), 0);
        arena_init(&a, 0);
        mem_fail_at(n);
        s = hub_pull(&x.name, &x.o, &a, &m, &e);
        mem_fail_at(0);
        if (s != ERR_OK && s != ERR_NOMEM)
            fail_msg("allocation %d: %s: %s", (int)n, e.where, e.msg);
        arena_fini(&a);
        assert_int_equal(mem_count().n_live, n_live);
        assert_true(n < 500);
    }
    fixture_close(&x);
}
