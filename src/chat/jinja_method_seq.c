/* Methods of list, tuple, range and dict, and the yes-or-no methods of str. */
#include "chat/jinja_filter_priv.h"
#include "chat/jinja_unicode_priv.h"

const jbuiltin *jmethod_find(jvalue object, str name)
{
    const jbuiltin *const of_str[] = {jmethods_str, jmethods_str_split, jmethods_str_is};
    switch (object.kind) {
    case JVALUE_STR:
        for (size_t i = 0; i < sizeof of_str / sizeof of_str[0]; i++) {
            const jbuiltin *b = jbuiltin_in(of_str[i], name);
            if (b) return b;
        }
        return NULL;
    case JVALUE_LIST: return jbuiltin_in(jmethods_list, name);
    case JVALUE_TUPLE:
    case JVALUE_RANGE: return jbuiltin_in(jmethods_tuple, name);
    case JVALUE_DICT: return jbuiltin_in(jmethods_dict, name);
    default: return NULL;
    }
}

/* ---- str.is… ---- */

static status every_char(jrt *r, jvalue self, bool (*test)(uint32_t), bool when_empty, jvalue *out)
{
    str s = self.s->s;
    uint32_t cp;
    bool is_true = s.len > 0 || when_empty;
    for (size_t at = 0; at < s.len && is_true;) {
        at += (size_t)junicode_at(s, at, &cp);
        is_true = test(cp);
    }
    *out = jvalue_bool(is_true);
    return jrt_spend(r, (int64_t)s.len / 8);
}

static bool is_alnum(uint32_t cp)
{
    return junicode_is_alpha(cp) || junicode_is_numeric(cp);
}

static bool is_ascii(uint32_t cp)
{
    return cp < 0x80;
}

#define IS_METHOD(name, test, when_empty)                                                        \
    static status m_##name(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out) \
    {                                                                                            \
        (void)a, (void)call;                                                                     \
        return every_char(r, self, test, when_empty, out);                                       \
    }
IS_METHOD(isalpha, junicode_is_alpha, false)
IS_METHOD(isalnum, is_alnum, false)
IS_METHOD(isascii, is_ascii, true)
IS_METHOD(isdecimal, junicode_is_decimal, false)
IS_METHOD(isdigit, junicode_is_digit, false)
IS_METHOD(isnumeric, junicode_is_numeric, false)
IS_METHOD(isprintable, junicode_is_printable, true)
IS_METHOD(isspace, junicode_is_space, false)

bool jtext_is_lower(str s, bool wants_upper)
{
    bool any = false;
    uint32_t cp;
    for (size_t at = 0; at < s.len;) {
        at += (size_t)junicode_at(s, at, &cp);
        bool lower = junicode_is_lower(cp), upper = junicode_is_upper(cp);
        if ((wants_upper ? lower : upper) || junicode_is_title(cp)) return false;
        any |= wants_upper ? upper : lower;
    }
    return any;
}

static status m_islower(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    *out = jvalue_bool(jtext_is_lower(self.s->s, false));
    return jrt_spend(r, (int64_t)self.s->s.len / 8);
}

static status m_isupper(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    *out = jvalue_bool(jtext_is_lower(self.s->s, true));
    return jrt_spend(r, (int64_t)self.s->s.len / 8);
}

static status m_istitle(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    str s = self.s->s;
    bool after_cased = false, any = false, is_title = true;
    uint32_t cp;
    for (size_t at = 0; at < s.len && is_title;) {
        at += (size_t)junicode_at(s, at, &cp);
        bool starts = junicode_is_upper(cp) || junicode_is_title(cp),
             follows = junicode_is_lower(cp);
        is_title = !(starts && after_cased) && !(follows && !after_cased);
        after_cased = starts || follows;
        any |= after_cased;
    }
    *out = jvalue_bool(is_title && any);
    return jrt_spend(r, (int64_t)s.len / 8);
}

static status m_isidentifier(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    uint32_t cp = 0;
    TRY(every_char(r, self, junicode_is_name, false, out));
    if (self.s->s.len) junicode_at(self.s->s, 0, &cp);
    *out = jvalue_bool(out->b && junicode_is_name_start(cp));
    return ERR_OK;
}

const jbuiltin jmethods_str_is[] = {
    {"isalnum", m_isalnum, ""},
    {"isalpha", m_isalpha, ""},
    {"isascii", m_isascii, ""},
    {"isdecimal", m_isdecimal, ""},
    {"isdigit", m_isdigit, ""},
    {"isidentifier", m_isidentifier, ""},
    {"islower", m_islower, ""},
    {"isnumeric", m_isnumeric, ""},
    {"isprintable", m_isprintable, ""},
    {"isspace", m_isspace, ""},
    {"istitle", m_istitle, ""},
    {"isupper", m_isupper, ""},
    {0},
};

/* ---- sequences ---- */

static status count_items(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    jlist *items = NULL;
    int64_t n = 0;
    TRY(jiter_collect(r, self, &items));
    for (int64_t i = 0; i < items->n; i++) {
        bool is_same;
        TRY(jop_compare(r, JOP_EQ, items->items[i], a[0], &is_same));
        n += is_same;
    }
    *out = jvalue_int(n);
    return ERR_OK;
}

static status index_item(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    jlist *items = NULL;
    TRY(jiter_collect(r, self, &items));
    int64_t from = 0, to = items->n;
    TRY(jarg_int(r, a[1], "start", &from));
    TRY(jarg_int(r, a[2], "stop", &to));
    if (from < 0) from = from + items->n < 0 ? 0 : from + items->n;
    if (to < 0) to += items->n;
    for (int64_t i = from; i < to && i < items->n; i++) {
        bool is_same;
        TRY(jop_compare(r, JOP_EQ, items->items[i], a[0], &is_same));
        if (!is_same) continue;
        *out = jvalue_int(i);
        return ERR_OK;
    }
    return jrt_fail(r, ERR_FORMAT, "the value is not in the list");
}

static status copy_self(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)r, (void)a, (void)call;
    *out = self; /* nothing can change it */
    return ERR_OK;
}

const jbuiltin jmethods_list[] = {
    {"copy", copy_self, ""},
    {"count", count_items, ".value"},
    {"index", index_item, ".value .start= .stop="},
    {0},
};

const jbuiltin jmethods_tuple[] = {
    {"count", count_items, ".value"},
    {"index", index_item, ".value .start= .stop="},
    {0},
};

/* ---- dict ---- */

static status dict_get(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    uint64_t hash;
    if (!jvalue_hash(a[0], &hash)) return jrt_fail_type(r, "object is unhashable", a[0]);
    const jvalue *v = jdict_get(self.dict, a[0]);
    *out = v ? *v : jvalue_is_missing(a[1]) ? jvalue_none() : a[1];
    return ERR_OK;
}

static status dict_view(jvalue self, jview_kind view, jvalue *out)
{
    *out = (jvalue){.kind = JVALUE_VIEW, .view = (uint8_t)view, .dict = self.dict};
    return ERR_OK;
}

static status dict_items(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)r, (void)a, (void)call;
    return dict_view(self, JVIEW_ITEMS, out);
}

static status dict_keys(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)r, (void)a, (void)call;
    return dict_view(self, JVIEW_KEYS, out);
}

static status dict_values(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)r, (void)a, (void)call;
    return dict_view(self, JVIEW_VALUES, out);
}

const jbuiltin jmethods_dict[] = {
    {"copy", copy_self, ""}, {"get", dict_get, ".key .default="}, {"items", dict_items, ""},
    {"keys", dict_keys, ""}, {"values", dict_values, ""},         {0},
};
