#include "chat/jinja_text_priv.h"
#include "support/test.h"

static arena a;

/* Runs of a text: "tttii" with a letter per byte. */
static const char *origins(const jtext *t)
{
    static char out[100];
    for (size_t i = 0; i < t->s.len; i++) out[i] = jtext_is_input_at(t, i) ? 'i' : 't';
    out[t->s.len] = 0;
    return out;
}

static const jtext *mixed(void)
{
    jbuilder b;
    jbuilder_init(&b, &a, 100);
    jbuilder_put(&b, STR("ab"), false);
    jbuilder_put(&b, STR("cde"), true);
    jbuilder_put(&b, STR(""), false);
    jbuilder_put(&b, STR("f"), true);
    jbuilder_put(&b, STR("gh"), false);
    return jbuilder_text(&b);
}

TEST(a_builder_remembers_where_bytes_came_from)
{
    const jtext *t = mixed();
    assert_int_equal(t->n_runs, 3);
    assert_string_equal(origins(t), "ttiiiitt");
    arena_fini(&a);
}

TEST(a_slice_takes_its_runs_along)
{
    const jtext *t = mixed();
    assert_string_equal(origins(jtext_slice(&a, t, 1, 7)), "tiiiit");
    const jtext *inner = jtext_slice(&a, t, 2, 6);
    assert_int_equal(inner->n_runs, 0);
    assert_true(inner->is_input && str_is(inner->s, "cdef"));
    assert_false(jtext_slice(&a, t, 6, 8)->is_input);
    assert_int_equal(jtext_slice(&a, t, 3, 3)->s.len, 0);
    jbuilder b;
    jbuilder_init(&b, &a, 100);
    jbuilder_put_slice(&b, t, 1, 3);
    jbuilder_put_text(&b, t);
    assert_string_equal(origins(jbuilder_text(&b)), "tittiiiitt");
    arena_fini(&a);
}

TEST(walking_gives_one_piece_per_run)
{
    const jtext *t = mixed();
    jtext_walk w = {0};
    str piece;
    bool is_input;
    assert_true(jtext_next(t, &w, &piece, &is_input) && str_is(piece, "ab") && !is_input);
    assert_true(jtext_next(t, &w, &piece, &is_input) && str_is(piece, "cdef") && is_input);
    assert_true(jtext_next(t, &w, &piece, &is_input) && str_is(piece, "gh") && !is_input);
    assert_false(jtext_next(t, &w, &piece, &is_input));
    arena_fini(&a);
}

TEST(a_builder_stops_at_its_limit_and_without_memory)
{
    jbuilder b;
    jbuilder_init(&b, &a, 4);
    jbuilder_put(&b, STR("abc"), false);
    jbuilder_put(&b, STR("de"), false);
    assert_true(b.failed && b.is_over);
    assert_null(jbuilder_text(&b));
    arena small;
    arena_init(&small, 64);
    jbuilder_init(&b, &small, 1000);
    jbuilder_put(&b, STR("abc"), false);
    assert_true(b.failed && !b.is_over);
    arena_fini(&small);
    arena_fini(&a);
}
