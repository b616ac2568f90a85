/* prompt_fixture: the prompt set of tests/data/prompts.json as token ids. */
#ifndef RIPTIDE_TESTS_PROMPT_FIXTURE_H
#define RIPTIDE_TESTS_PROMPT_FIXTURE_H

#include "base/file.h"
#include "base/json.h"
#include "chat/template.h"
#include "support/test.h"
#include "token/tokenizer.h"

typedef struct {
    arena mem;
    const json *list;
    template *tpl;
} prompts;

static inline void prompts_open(prompts *p, str chat_template)
{
    char path[4400];
    str text;
    err e = {0};
    *p = (prompts){0};
    arena_init(&p->mem, 0);
    snprintf(path, sizeof path, "%s/tests/data/prompts.json", test_root());
    CHECK_OK(file_read(&p->mem, path, 1 << 24, &text, &e), &e);
    CHECK_OK(json_parse(&p->mem, text, path, 64, 0, &p->list, &e), &e);
    CHECK_OK(template_open(&p->tpl, chat_template, "chat_template", &e), &e);
    assert_true(p->list->n >= 40);
}

static inline void prompts_close(prompts *p)
{
    template_close(p->tpl);
    arena_fini(&p->mem);
}

/* Ids of one prompt, template text with special tokens and message text without. */
static inline token_ids prompts_encode(prompts *p, const json *prompt, const tokenizer *t)
{
    template_input in = {.messages = json_get(prompt, "messages"),
                         .tools = json_get(prompt, "tools"),
                         .kwargs = json_get(prompt, "chat_template_kwargs"),
                         .add_generation_prompt = true};
    buf text;
    segments parts;
    token_ids ids = {0};
    err e = {0};
    buf_init(&text);
    segments_init(&parts);
    CHECK_OK(template_render(p->tpl, &in, &text, &parts, &e), &e);
    tokenizer_segment *seg = arena_new_array(&p->mem, (size_t)parts.n, sizeof *seg);
    for (int64_t i = 0; i < parts.n; i++)
        seg[i] = (tokenizer_segment){{text.ptr + parts.ptr[i].offset, parts.ptr[i].len},
                                     parts.ptr[i].is_template};
    CHECK_OK(tokenizer_encode_segments(t, seg, (int)parts.n, 0, &ids, &e), &e);
    segments_fini(&parts);
    buf_fini(&text);
    return ids;
}

#endif
