/* tags: slow, timeout=120 */
/* What a client sees of the prompt cache. */
#include "serve_fixture.h"

static const char question[] =
    "{'messages':[{'role':'system','content':'You are a coding agent. Answer in one short piece of "
    "code. Tools: read a file, write a file, list a folder, run the tests, search the sources for "
    "a word, show the history of a line. Call one at a time and wait for what it says.'},"
    "{'role':'user','content':'What is 12 + 30?'}],'max_tokens':8,'temperature':0,"
    "'chat_template_kwargs':{'enable_thinking':false}}";

TEST(a_prompt_sent_again_is_counted_as_cached_and_answered_alike)
{
    serve_fixture f;
    serve_open(&f, serve_options(), 1, 4, 512);
    assert_int_equal(serve_chat(&f, question), 200);
    const json *v = serve_json(&f);
    int64_t n_prompt = serve_int(v, "usage/prompt_tokens");
    assert_true(n_prompt > 65);
    assert_int_equal(serve_int(v, "usage/prompt_tokens_details/cached_tokens"), 0);
    assert_true(str_is(serve_text(v, "timings/cache_stop"), "tokens"));
    char first[512];
    str text = serve_text(v, "choices/0/message/content");
    assert_true(text.len > 0 && text.len < sizeof first);
    memcpy(first, text.ptr, text.len);
    size_t n_first = text.len;

    assert_int_equal(serve_chat(&f, question), 200);
    v = serve_json(&f);
    int64_t cached = (n_prompt - 1) / 64 * 64;
    assert_int_equal(serve_int(v, "usage/prompt_tokens"), n_prompt);
    assert_int_equal(serve_int(v, "usage/prompt_tokens_details/cached_tokens"), cached);
    assert_int_equal(serve_int(v, "timings/cache_n"), cached);
    assert_true(str_is(serve_text(v, "timings/cache_stop"), "end"));
    assert_int_equal(serve_int(v, "timings/prompt_n"), n_prompt - cached);
    text = serve_text(v, "choices/0/message/content");
    assert_int_equal(text.len, n_first);
    assert_memory_equal(text.ptr, first, n_first);
    serve_close(&f);
}

#define TOOLS                                                                                    \
    "'tools':[{'type':'function','function':{'name':'read_file','description':'Read a file',"    \
    "'parameters':{'type':'object','properties':{'path':{'type':'string'}},'required':['path']}" \
    "}},{'type':'function','function':{'name':'run_shell','description':'Run a shell command',"  \
    "'parameters':{'type':'object','properties':{'command':{'type':'string'}}}}}],"              \
    "'max_tokens':96,'temperature':0}"
#define ASKED "{'messages':[{'role':'user','content':'Please fix gcd.py.'}"

/* A client that keeps neither reasoning nor the spacing of arguments: what comes behind its answer
 * is all that is new. */
TEST(a_call_that_comes_back_without_its_reasoning_is_known_as_it_was_generated)
{
    serve_fixture f;
    char body[2048];
    serve_open(&f, serve_options(), 1, 4, 768);
    assert_int_equal(serve_chat(&f, ASKED "]," TOOLS), 200);
    const json *v = serve_json(&f);
    const char call[] = "choices/0/message/tool_calls/0";
    str id = serve_text(v, "choices/0/message/tool_calls/0/id");
    str name = serve_text(v, "choices/0/message/tool_calls/0/function/name");
    str arguments = serve_text(v, "choices/0/message/tool_calls/0/function/arguments");
    assert_non_null(serve_at(v, call));
    assert_true(serve_text(v, "choices/0/message/reasoning_content").len > 0);
    int64_t n_before = serve_int(v, "usage/prompt_tokens") +
                       serve_int(v, "usage/completion_tokens");
    const json *given = serve_parse(&f, arguments);
    str path = serve_text(given, "path");
    assert_true(path.len > 0);

    snprintf(body, sizeof body,
             ASKED ",{'role':'assistant','content':null,'tool_calls':[{'id':'%.*s','type':"
                   "'function','function':{'name':'%.*s','arguments':{ 'path' :  '%.*s' }}}]},"
                   "{'role':'tool','tool_call_id':'%.*s','content':'x'}]," TOOLS,
             STR_ARG(id), STR_ARG(name), STR_ARG(path), STR_ARG(id));
    assert_int_equal(serve_chat(&f, body), 200);
    v = serve_json(&f);
    assert_int_equal(serve_int(v, "usage/prompt_tokens_details/cached_tokens"),
                     (n_before - 1) / 64 * 64);
    turn_counters c = engine_stats(f.en).turns;
    assert_int_equal(c.kept, 2);
    assert_int_equal(c.used, 1);
    serve_close(&f);
}
