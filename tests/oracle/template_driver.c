/* links: chat */
/* template_driver: renders templates for tests/oracle/template.py.
 *
 * Reads one JSON object a line: {"template": text, "vars": object} renders any template with any
 * variables; {"template": text, "input": {messages, tools, kwargs, bos_token, eos_token,
 * add_generation_prompt}} goes through chat/template.h. Answers one line each: {"text": …, "parts":
 * [[length, is_template], …]} or {"error": words, "status": name, "is_open": failed at open}. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "chat/jinja_rt_priv.h"
#include "chat/template.h"

enum { NOW = 1700000000 };

static void answer_error(const err *e, status s, bool is_open)
{
    buf b;
    json_writer w;
    buf_init(&b);
    json_writer_init(&w, &b);
    json_open_object(&w);
    json_key(&w, "error");
    json_c_string(&w, e->msg);
    json_key(&w, "status");
    json_c_string(&w, status_name(s));
    json_key(&w, "is_open");
    json_bool(&w, is_open);
    json_close_object(&w);
    puts(b.ptr);
    buf_fini(&b);
}

static void answer_text(str text, const segments *parts)
{
    buf b;
    json_writer w;
    buf_init(&b);
    json_writer_init(&w, &b);
    json_open_object(&w);
    json_key(&w, "text");
    json_string(&w, text);
    json_key(&w, "parts");
    json_open_array(&w);
    for (int64_t i = 0; i < parts->n; i++) {
        json_open_array(&w);
        json_uint(&w, parts->ptr[i].len);
        json_bool(&w, parts->ptr[i].is_template);
        json_close_array(&w);
    }
    json_close_array(&w);
    json_close_object(&w);
    puts(b.ptr);
    buf_fini(&b);
}

static void render_any(arena *a, str source, const json *vars)
{
    jprogram program;
    err e = {0};
    status s = jprogram_open(&program, source, "template", &e);
    if (s) {
        answer_error(&e, s, true);
        return;
    }
    jvalue value;
    jbuilder b;
    if (jvalue_from_json(a, vars, JVALUE_DEPTH, &value)) exit(1);
    jrt r = {.program = &program,
             .a = a,
             .vars = value.dict,
             .budget = 50 << 20,
             .text_most = 64 << 20,
             .now_s = NOW,
             .e = &e};
    jrt_builder(&r, &b);
    s = jexec_program(&r, &b);
    segments none = {0};
    if (s)
        answer_error(&e, s, false);
    else
        answer_text((str){b.ptr ? b.ptr : "", b.len}, &none);
    jprogram_close(&program);
}

/* Opening probes the template; keep the last one. */
static const template *open_cached(str source, err *e, status *s)
{
    static template *last;
    static buf last_source;
    *s = ERR_OK;
    if (last && str_equal(buf_str(&last_source), source)) return last;
    template_close(last);
    last = NULL;
    buf_clear(&last_source);
    buf_put_str(&last_source, source);
    *s = template_open(&last, source, "template", e);
    return last;
}

static void render_chat(str source, const json *input)
{
    err e = {0};
    status s;
    const template *t = open_cached(source, &e, &s);
    if (!t) {
        answer_error(&e, s, true);
        return;
    }
    template_input in = {.messages = json_get(input, "messages"), .now_s = NOW};
    if (!json_is(json_get(input, "tools"), JSON_NULL)) in.tools = json_get(input, "tools");
    in.kwargs = json_get(input, "kwargs");
    json_to_str(json_get(input, "bos_token"), &in.bos_token);
    json_to_str(json_get(input, "eos_token"), &in.eos_token);
    json_to_bool(json_get(input, "add_generation_prompt"), &in.add_generation_prompt);
    buf out;
    segments parts;
    buf_init(&out);
    segments_init(&parts);
    s = template_render(t, &in, &out, &parts, &e);
    if (s)
        answer_error(&e, s, false);
    else
        answer_text(buf_str(&out), &parts);
    segments_fini(&parts);
    buf_fini(&out);
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    setvbuf(stdout, NULL, _IOLBF, 1 << 16);
    while ((n = getline(&line, &cap, stdin)) > 0) {
        arena a;
        err e = {0};
        const json *request = NULL;
        arena_init(&a, 0);
        if (json_parse(&a, (str){line, (size_t)n}, "request", 256, 0, &request, &e)) {
            fprintf(stderr, "template_driver: %s\n", e.msg);
            return 1;
        }
        str source = {0};
        json_to_str(json_get(request, "template"), &source);
        const json *vars = json_get(request, "vars");
        if (vars)
            render_any(&a, source, vars);
        else
            render_chat(source, json_get(request, "input"));
        arena_fini(&a);
    }
    free(line);
    return 0;
}
