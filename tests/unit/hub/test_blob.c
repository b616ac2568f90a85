/* tags: threads */
/* What a bad network, a bad server and a bad disk do to a download. */
#include "hub_fixture.h"

/* A model of one big file, so that faults have something to hit. */
static void open_one(hub_fixture *x)
{
    fixture_open(x);
    hub_server_put(&x->server, "config.json", STR("{}"), false);
    hub_server_put(&x->server, "model.safetensors", buf_str(&x->weights), true);
}

static void check_whole(hub_fixture *x, const hub_model *m)
{
    fixture_check_file(x, m->path, "model.safetensors", buf_str(&x->weights));
    assert_int_equal(fixture_count(x, "blobs", "incomplete"), 0);
}

TEST(a_cut_connection_is_taken_up_where_it_ended)
{
    hub_fixture x;
    hub_model m;
    err e = {0};
    int64_t at = FIXTURE_WEIGHTS * 97 / 100;
    char want[64];
    open_one(&x);
    hub_server_fault(&x.server, (hub_fault){"/cdn/", NULL, HUB_CUT, at, 1});
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    check_whole(&x, &m);
    assert_int_equal(m.n_fetched, FIXTURE_WEIGHTS + 2);
    snprintf(want, sizeof want, "bytes=%lld-%d", (long long)at, FIXTURE_WEIGHTS - 1);
    assert_string_equal(x.server.seen[x.server.n_seen - 1].range, want);
    assert_non_null(strstr(x.notes, "model.safetensors"));
    fixture_close(&x);
}

TEST(many_cuts_are_no_failure_while_something_comes)
{
    hub_fixture x;
    hub_model m;
    err e = {0};
    open_one(&x);
    hub_server_fault(&x.server, (hub_fault){"/cdn/", NULL, HUB_CUT, 20000, 100});
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    check_whole(&x, &m);
    assert_int_equal(x.server.n_body, FIXTURE_WEIGHTS + 2);
    fixture_close(&x);
}

TEST(a_later_call_takes_up_what_an_earlier_one_left)
{
    hub_fixture x;
    hub_model m;
    err e = {0};
    open_one(&x);
    hub_server_fault(&x.server, (hub_fault){"/cdn/", NULL, HUB_CUT, 100000, 1});
    hub_server_fault(&x.server, (hub_fault){"/cdn/", NULL, HUB_CUT, 0, 100});
    CHECK_STATUS(fixture_pull(&x, &m, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "cut at 100000 of 300000 bytes, which are kept"));
    assert_int_equal(fixture_count(&x, "blobs", "incomplete"), 1);
    assert_int_equal(fixture_count(&x, "snapshots", "model.safetensors"), 0);
    hub_server_forget(&x.server);
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    check_whole(&x, &m);
    assert_int_equal(m.n_fetched, 200000);
    fixture_close(&x);
}

TEST(a_server_without_ranges_sends_all_of_it_and_the_rest_is_taken)
{
    hub_fixture x;
    hub_model m;
    err e = {0};
    open_one(&x);
    hub_server_fault(&x.server, (hub_fault){"/cdn/", NULL, HUB_CUT, 100000, 1});
    hub_server_fault(&x.server, (hub_fault){"/cdn/", NULL, HUB_NO_RANGE, 0, 1});
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    check_whole(&x, &m);
    assert_int_equal(m.n_fetched, FIXTURE_WEIGHTS + 2);
    fixture_close(&x);
}

TEST(a_damaged_part_of_an_earlier_call_is_fetched_anew)
{
    hub_fixture x;
    hub_model m;
    err e = {0};
    open_one(&x);
    hub_server_fault(&x.server, (hub_fault){"/cdn/", NULL, HUB_FLIP, 5, 1});
    CHECK_STATUS(fixture_pull(&x, &m, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "is damaged"));
    assert_int_equal(fixture_count(&x, "snapshots", "model.safetensors"), 0);
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    assert_non_null(strstr(x.notes, "fetching it anew"));
    check_whole(&x, &m);
    fixture_close(&x);
}

TEST(a_partial_file_that_is_too_long_is_no_beginning)
{
    hub_fixture x;
    hub_model m;
    err e = {0};
    char path[700];
    open_one(&x);
    hub_server_fault(&x.server, (hub_fault){"/cdn/", NULL, HUB_CODE, 500, 100});
    CHECK_STATUS(fixture_pull(&x, &m, &e), ERR_IO);
    snprintf(path, sizeof path, "head -c 300001 /dev/zero > %s/%s.incomplete",
             fixture_path(&x, "blobs"), x.server.files[1].digest);
    assert_int_equal(system(path), 0);
    hub_server_forget(&x.server);
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    check_whole(&x, &m);
    fixture_close(&x);
}

/* A fault of every answer for the weights: what comes of it, and a word of the message. */
static const struct {
    hub_fault fault;
    status want;
    const char *word;
} bad_answers[] = {
    {{"/cdn/", NULL, HUB_PAGE, 0, 99}, ERR_FORMAT, "text/html"},
    {{"/cdn/", NULL, HUB_PAGE_CHUNKS, 0, 99}, ERR_FORMAT, "web page"},
    {{"/cdn/", NULL, HUB_OTHER_RANGE, 0, 99}, ERR_FORMAT, "from byte 1 of"},
    {{"/cdn/", NULL, HUB_OTHER_TOTAL, 0, 99}, ERR_FORMAT, "of 300001"},
    {{"/cdn/", NULL, HUB_ENDLESS, 0, 99}, ERR_FORMAT, "longer than"},
    {{"/cdn/", NULL, HUB_HEADERS, 0, 99}, ERR_FORMAT, "head has no end"},
    {{"/cdn/", "Content-Encoding: gzip\r\n", HUB_EXTRA, 0, 99}, ERR_FORMAT, "compressed"},
    {{"/resolve/" HUB_COMMIT "/model", "X-Repo-Commit: aaaa\r\n", HUB_EXTRA, 0, 99},
     ERR_FORMAT,
     "changed while"},
    {{"/resolve/" HUB_COMMIT "/model",
      "X-Linked-Etag: \"0000000000000000000000000000000000000000000000000000000000000000\"\r\n",
      HUB_EXTRA, 0, 99},
     ERR_FORMAT,
     "changed while"},
    {{"/resolve/" HUB_COMMIT "/model", "file:///etc/passwd", HUB_GOTO, 0, 99},
     ERR_UNSUPPORTED,
     "neither http nor https"},
    {{"/model", "/o/r/model-again", HUB_GOTO, 0, 99}, ERR_FORMAT, "without end"},
    {{"/resolve/" HUB_COMMIT "/model", "ftp://127.0.0.1/x", HUB_GOTO, 0, 99},
     ERR_UNSUPPORTED,
     "neither http nor https"},
    {{"/cdn/", NULL, HUB_CODE, 404, 99}, ERR_INVALID, "does not exist"},
    {{"/cdn/", NULL, HUB_CODE, 403, 99}, ERR_INVALID, "HF_TOKEN"},
    {{"/cdn/", NULL, HUB_CODE, 416, 99}, ERR_IO, "416"},
    {{"/cdn/", NULL, HUB_CODE, 503, 99}, ERR_IO, "503"},
    {{"/cdn/", "Retry-After: 0\r\n", HUB_CODE, 429, 99}, ERR_LIMIT, "no more requests"},
};

TEST(an_answer_that_makes_no_sense_leaves_no_file)
{
    for (size_t i = 0; i < sizeof bad_answers / sizeof *bad_answers; i++) {
        hub_fixture x;
        hub_model m;
        err e = {0};
        open_one(&x);
        hub_server_fault(&x.server, bad_answers[i].fault);
        status s = fixture_pull(&x, &m, &e);
        if (s != bad_answers[i].want || !strstr(e.msg, bad_answers[i].word))
            fail_msg("case %zu: %s: %s", i, status_name(s), e.msg);
        assert_int_equal(fixture_count(&x, "snapshots", "model.safetensors"), 0);
        assert_int_equal(fixture_count(&x, "refs", "main"), 0);
        CHECK_STATUS(hub_find(&x.name, &x.o, &x.mem, &m, &e), ERR_IO);
        hub_server_forget(&x.server);
        CHECK_OK(fixture_pull(&x, &m, &e), &e);
        check_whole(&x, &m);
        fixture_close(&x);
    }
}

TEST(a_server_that_is_busy_for_a_moment_is_asked_again)
{
    hub_fixture x;
    hub_model m;
    err e = {0};
    open_one(&x);
    hub_server_fault(&x.server, (hub_fault){"/api/", "Retry-After: 0\r\n", HUB_CODE, 429, 1});
    hub_server_fault(&x.server, (hub_fault){"/api/", NULL, HUB_CUT, 10, 1});
    hub_server_fault(&x.server, (hub_fault){"/cdn/", NULL, HUB_CODE, 503, 2});
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    check_whole(&x, &m);
    fixture_close(&x);
}

TEST(a_server_that_falls_silent_is_left)
{
    hub_fixture x;
    hub_model m;
    err e = {0};
    open_one(&x);
    x.o.timeout_ms = 1000;
    hub_server_fault(&x.server, (hub_fault){"/cdn/", NULL, HUB_STALL, 60000, 1});
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    check_whole(&x, &m);
    fixture_close(&x);
}

TEST(a_file_that_the_disk_has_no_room_for_is_not_begun)
{
    hub_fixture x;
    hub_model m;
    err e = {0};
    fixture_open(&x);
    hub_server_put(&x.server, "config.json", STR("{}"), false);
    hub_server_fault(
        &x.server,
        (hub_fault){"/api/",
                    "{\"sha\":\"" HUB_COMMIT
                    "\",\"siblings\":[{\"rfilename\":\"config.json\",\"size\":2,\"blobId\":"
                    "\"9e26dfeeb6e641a33dae4961196235bdb965b21b\"},{\"rfilename\":"
                    "\"model.safetensors\",\"size\":1152921504606846976,\"lfs\":{\"sha256\":"
                    "\"0000000000000000000000000000000000000000000000000000000000000001\","
                    "\"size\":1152921504606846976}}]}",
                    HUB_BODY, 0, 9});
    CHECK_STATUS(fixture_pull(&x, &m, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "still to come"));
    assert_int_equal(hub_server_count(&x.server, "model.safetensors"), 0);
    fixture_close(&x);
}

/* Codes of the list itself. */
static const struct {
    int code;
    const char *header;
    const char *token;
    status want;
    const char *word;
} refusals[] = {
    {401, "X-Error-Code: RepoNotFound\r\n", NULL, ERR_INVALID, "set HF_TOKEN"},
    {401, "", "hf_x", ERR_INVALID, "gives no access"},
    {403, "X-Error-Code: GatedRepo\r\n", NULL, ERR_INVALID, "accept its terms at"},
    {404, "X-Error-Code: RepoNotFound\r\n", "hf_x", ERR_INVALID, "does not exist"},
    {404, "X-Error-Code: RevisionNotFound\r\n", "hf_x", ERR_INVALID, "no revision main"},
    {429, "Retry-After: 0\r\n", NULL, ERR_LIMIT, "429"},
    {500, "", NULL, ERR_IO, "code 500"},
};

TEST(a_refusal_says_what_to_do)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        hub_fixture x;
        hub_model m;
        err e = {0};
        open_one(&x);
        x.o.token = refusals[i].token;
        hub_server_fault(&x.server,
                         (hub_fault){"/api/", refusals[i].header, HUB_CODE, refusals[i].code, 99});
        status s = fixture_pull(&x, &m, &e);
        if (s != refusals[i].want || !strstr(e.msg, refusals[i].word))
            fail_msg("code %d: %s: %s", refusals[i].code, status_name(s), e.msg);
        assert_string_equal(e.where, "o/r");
        assert_int_equal(fixture_count(&x, "", ""), 0);
        fixture_close(&x);
    }
}

TEST(when_the_hub_cannot_be_asked_the_cache_serves)
{
    static const hub_fault faults[] = {{"/api/", NULL, HUB_CODE, 429, 99},
                                       {"/api/", NULL, HUB_CODE, 502, 99},
                                       {"/api/", NULL, HUB_PAGE, 0, 99},
                                       {"/api/", NULL, HUB_CUT, 9, 99},
                                       {"/api/", NULL, HUB_ENDLESS, 0, 99}};
    hub_fixture x;
    hub_model m;
    err e = {0};
    open_one(&x);
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        hub_server_forget(&x.server);
        hub_server_fault(&x.server, faults[i]);
        CHECK_OK(fixture_pull(&x, &m, &e), &e);
        check_whole(&x, &m);
        assert_non_null(strstr(x.notes, "taking what the cache has"));
    }
    hub_server_forget(&x.server);
    x.o.endpoint = "http://127.0.0.1:1";
    CHECK_OK(fixture_pull(&x, &m, &e), &e);
    x.name.repo[0] = 'q';
    CHECK_STATUS(fixture_pull(&x, &m, &e), ERR_IO);
    fixture_close(&x);
}

TEST(a_name_that_leads_out_of_its_folder_is_refused)
{
    static const char *const names[] = {"../config.json", "/etc/passwd", "a/../../b", "a//b", "./a",
                                        "..\\\\a",        "a\\u0000b",   "C:/x",      "",     "a/"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        hub_fixture x;
        hub_model m;
        err e = {0};
        char text[512];
        open_one(&x);
        snprintf(text, sizeof text,
                 "{\"sha\":\"" HUB_COMMIT "\",\"siblings\":[{\"rfilename\":\"%s\",\"size\":2,"
                 "\"blobId\":\"9e26dfeeb6e641a33dae4961196235bdb965b21b\"}]}",
                 names[i]);
        hub_server_fault(&x.server, (hub_fault){"/api/", text, HUB_BODY, 0, 9});
        CHECK_STATUS(fixture_pull(&x, &m, &e), ERR_FORMAT);
        assert_non_null(strstr(e.msg, "leave its folder"));
        assert_int_equal(fixture_count(&x, "", ""), 0);
        fixture_close(&x);
    }
}

TEST(an_index_names_shards_and_nothing_else)
{
    static const struct {
        const char *index;
        status want;
    } cases[] = {
        {"{\"weight_map\":{\"a\":\"../../../config.json\"}}", ERR_FORMAT},
        {"{\"weight_map\":{\"a\":\"sub/x.safetensors\"}}", ERR_FORMAT},
        {"{\"weight_map\":{\"a\":7}}", ERR_FORMAT},
        {"{\"weight_map\":{}}", ERR_FORMAT},
        {"[", ERR_FORMAT},
        {"{\"weight_map\":{\"a\":\"absent.safetensors\"}}", ERR_IO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hub_fixture x;
        hub_model m;
        err e = {0};
        open_one(&x);
        hub_server_put(&x.server, "model.safetensors.index.json", str_from(cases[i].index), false);
        CHECK_STATUS(fixture_pull(&x, &m, &e), cases[i].want);
        assert_int_equal(hub_server_count(&x.server, "model.safetensors"),
                         hub_server_count(&x.server, "index.json"));
        fixture_close(&x);
    }
}
