/* links: chat */
/* A template, a NUL, and its variables as JSON. Whatever is rendered is UTF-8 and covered by its
 * runs; whatever is refused says where. */
#include "base/asserts.h"
#include "base/utf8.h"
#include "chat/jinja_rt_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { MEMORY_MOST = 64 << 20, WORK_MOST = 1 << 19, TEXT_MOST = 1 << 20 };

static void check_runs(const jbuilder *b)
{
    size_t at = 0;
    for (int i = 0; i < b->n_runs; i++) {
        ASSERT(b->runs[i].end > at);
        ASSERT(i == 0 || b->runs[i].is_input != b->runs[i - 1].is_input);
        at = b->runs[i].end;
    }
    ASSERT(at == b->len);
}

static void render(const jprogram *program, str variables)
{
    arena a;
    err e = {0};
    const json *tree = NULL;
    jvalue vars = {0};
    arena_init(&a, MEMORY_MOST);
    if (json_parse(&a, variables, "variables", 64, 0, &tree, NULL) == ERR_OK &&
        tree->kind == JSON_OBJECT)
        (void)jvalue_from_json(&a, tree, JVALUE_DEPTH, &vars);
    jdict *empty = jdict_new(&a, 0);
    if (vars.kind != JVALUE_DICT) vars.dict = empty;
    jrt r = {.program = program,
             .a = &a,
             .vars = vars.dict,
             .budget = WORK_MOST,
             .text_most = TEXT_MOST,
             .now_s = 1,
             .e = &e};
    jbuilder b;
    jrt_builder(&r, &b);
    status s = vars.dict ? jexec_program(&r, &b) : ERR_NOMEM;
    if (s == ERR_OK) {
        check_runs(&b);
        ASSERT(utf8_check((str){b.ptr ? b.ptr : "", b.len}) < 0);
    } else {
        ASSERT(s != ERR_INVALID && s != ERR_IO);
    }
    arena_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    str text = {(const char *)data, n}, variables = {"{}", 2};
    const uint8_t *end = n ? memchr(data, 0, n) : NULL;
    if (end) {
        text.len = (size_t)(end - data);
        variables = (str){(const char *)end + 1, n - text.len - 1};
    }
    jprogram program;
    err e = {0};
    status s = jprogram_open(&program, text, "fuzz", &e);
    if (s) {
        ASSERT(e.code == s && e.msg[0]);
        return 0;
    }
    render(&program, variables);
    jprogram_close(&program);
    return 0;
}
