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
    assert_int_equal(serve_int(v, "timings/prompt_n"), n_prompt - cached);
    text = serve_text(v, "choices/0/message/content");
    assert_int_equal(text.len, n_first);
    assert_memory_equal(text.ptr, first, n_first);
    serve_close(&f);
}
