#include "server/input_items_priv.h"

#include "server/http_head_priv.h"

/* --- the page ----------------------------------------------------------------------------------
 */

static status read_limit(str text, int64_t *out, err *e)
{
    int64_t n;
    if (!str_to_int64(text, &n) || n < 1 || n > INPUT_ITEMS_MAX)
        return err_set(e, ERR_INVALID, "limit", -1, "want 1 to %d", INPUT_ITEMS_MAX);
    *out = n;
    return ERR_OK;
}

static status read_order(str text, bool *is_ascending, err *e)
{
    if (!str_is(text, "asc") && !str_is(text, "desc"))
        return err_set(e, ERR_INVALID, "order", -1, "want asc or desc");
    *is_ascending = str_is(text, "asc");
    return ERR_OK;
}

static status read_parameter(str name, str value, input_items_page *out, err *e)
{
    if (str_is(name, "limit")) return read_limit(value, &out->limit, e);
    if (str_is(name, "order")) return read_order(value, &out->is_ascending, e);
    if (!str_is(name, "after")) return ERR_OK;
    out->after.len = 0;
    if (http_decode_path(value, &out->after)) return ERR_OK;
    if (out->after.failed) return err_set(e, ERR_NOMEM, "after", -1, "copy");
    return err_set(e, ERR_INVALID, "after", -1, "an escape is not two hex digits");
}

status input_items_parse(str query, input_items_page *out, err *e)
{
    *out = (input_items_page){.limit = INPUT_ITEMS_DEFAULT};
    buf_init(&out->after);
    while (query.len > 0) {
        int64_t end = str_find(query, STR("&"), 0);
        str one = end < 0 ? query : str_slice(query, 0, (size_t)end);
        int64_t equals = str_find(one, STR("="), 0);
        query = str_skip(query, end < 0 ? query.len : (size_t)end + 1);
        if (equals < 0) continue;
        TRY(read_parameter(str_slice(one, 0, (size_t)equals), str_skip(one, (size_t)equals + 1),
                           out, e));
    }
    return ERR_OK;
}

void input_items_page_fini(input_items_page *p)
{
    buf_fini(&p->after);
}

/* --- an item -----------------------------------------------------------------------------------
 */

/* Clients may leave the type of a message out. */
static str type_of(const json *item)
{
    str type = STR("");
    json_to_str(json_get(item, "type"), &type);
    return type.len ? type : STR("message");
}

static const char *prefix_of(str type)
{
    static const char *const prefixes[][2] = {
        {"message", "msg"},          {"reasoning", "rs"},
        {"function_call", "fc"},     {"function_call_output", "fco"},
        {"custom_tool_call", "ctc"}, {"custom_tool_call_output", "ctco"},
    };
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (str_is(type, prefixes[i][0])) return prefixes[i][1];
    return "item";
}

void input_items_put_id(buf *out, str response_id, const json *item, int index)
{
    str own = STR(""), prefix = STR("resp_");
    json_to_str(json_get(item, "id"), &own);
    if (own.len) {
        buf_put_str(out, own);
        return;
    }
    if (str_starts(response_id, prefix)) response_id = str_skip(response_id, prefix.len);
    buf_printf(out, "%s_%.*s_in%d", prefix_of(type_of(item)), STR_ARG(response_id), index);
}

/* A part of a message: what the user or the system says is input, the rest output; a refusal stays
 * one. */
static void put_part(json_writer *w, const json *part, bool is_output)
{
    str type = STR("");
    json_to_str(json_get(part, "type"), &type);
    json_open_object(w);
    json_key(w, "type");
    if (str_is(type, "refusal"))
        json_string(w, type);
    else
        json_c_string(w, is_output ? "output_text" : "input_text");
    for (const json *v = part->first; v; v = v->next)
        if (!str_is(v->key, "type")) {
            json_key_str(w, v->key);
            json_value(w, v);
        }
    if (is_output && !json_get(part, "annotations") && !str_is(type, "refusal")) {
        json_key(w, "annotations");
        json_raw(w, STR("[]"));
    }
    json_close_object(w);
}

static void put_content(json_writer *w, const json *item)
{
    const json *content = json_get(item, "content");
    str role = STR("");
    json_to_str(json_get(item, "role"), &role);
    const bool is_output = str_is(role, "assistant");
    json_key(w, "content");
    json_open_array(w);
    if (json_is(content, JSON_STRING)) {
        json text = *content;
        text.key = STR("text");
        text.next = NULL;
        put_part(w, &(json){.kind = JSON_OBJECT, .n = 1, .first = &text}, is_output);
    }
    for (const json *v = json_is(content, JSON_ARRAY) ? content->first : NULL; v; v = v->next)
        put_part(w, v, is_output);
    json_close_array(w);
}

/* What a type must have and a client may leave out. */
static void put_missing(json_writer *w, const json *item, str type)
{
    const char *key = NULL, *value = "\"\"";
    if (str_is(type, "function_call"))
        key = "arguments";
    else if (str_is(type, "custom_tool_call"))
        key = "input";
    else if (str_is(type, "reasoning"))
        key = "summary", value = "[]";
    if (key && !json_get(item, key)) {
        json_key(w, key);
        json_raw(w, str_from(value));
    }
    if (json_is(json_get(item, "status"), JSON_STRING)) return;
    json_key(w, "status");
    json_c_string(w, "completed");
}

static void put_item(json_writer *w, str id, const json *item)
{
    str type = type_of(item);
    const bool is_message = str_is(type, "message");
    json_open_object(w);
    json_key(w, "id");
    json_string(w, id);
    json_key(w, "type");
    json_string(w, type);
    for (const json *v = item->first; v; v = v->next) {
        if (str_is(v->key, "id") || str_is(v->key, "type") || v->kind == JSON_NULL) continue;
        if (is_message && str_is(v->key, "content")) continue;
        if (json_get_str(item, v->key) != v) continue; /* said again later */
        json_key_str(w, v->key);
        json_value(w, v);
    }
    if (is_message) put_content(w, item);
    put_missing(w, item, type);
    json_close_object(w);
}

/* --- the list ----------------------------------------------------------------------------------
 */

/* Items in the order in which they are listed. */
typedef struct {
    str response_id;
    const json **items; /* [n] */
    int n;
    bool is_ascending;
    buf id; /* of the one that was named last */
} listing;

static status open_listing(listing *l, arena *a, const json *items, err *e)
{
    int i = 0;
    l->items = arena_new_array(a, (size_t)l->n + 1, sizeof *l->items);
    if (!l->items) return err_set(e, ERR_NOMEM, "input_items", -1, "%d items", l->n);
    for (const json *v = items->first; v && i < l->n; v = v->next, i++)
        l->items[l->is_ascending ? i : l->n - 1 - i] = v;
    return ERR_OK;
}

/* Stays empty once memory was missing. */
static str name_item(listing *l, int place)
{
    l->id.len = 0;
    input_items_put_id(&l->id, l->response_id, l->items[place],
                       l->is_ascending ? place : l->n - 1 - place);
    return buf_str(&l->id);
}

/* The place behind the one with that id. */
static status find_behind(listing *l, str id, int *out, err *e)
{
    for (int i = 0; i < l->n; i++) {
        if (!str_equal(name_item(l, i), id)) continue;
        *out = i + 1;
        return ERR_OK;
    }
    if (l->id.failed) return err_set(e, ERR_NOMEM, "after", -1, "an item's id");
    return err_set(e, ERR_INVALID, "after", -1, "no item of it is called \"%.*s\"",
                   (int)(id.len < 100 ? id.len : 100), id.ptr);
}

static void put_id_of(json_writer *w, const char *key, listing *l, int place, bool has_any)
{
    json_key(w, key);
    if (has_any)
        json_string(w, name_item(l, place));
    else
        json_null(w);
    if (l->id.failed) w->out->failed = true;
}

static void put_list(buf *out, listing *l, int from, int to)
{
    json_writer w;
    json_writer_init(&w, out);
    json_open_object(&w);
    json_key(&w, "object");
    json_c_string(&w, "list");
    json_key(&w, "data");
    json_open_array(&w);
    for (int i = from; i < to; i++) put_item(&w, name_item(l, i), l->items[i]);
    json_close_array(&w);
    put_id_of(&w, "first_id", l, from, from < to);
    put_id_of(&w, "last_id", l, to - 1, from < to);
    json_key(&w, "has_more");
    json_bool(&w, to < l->n);
    json_close_object(&w);
}

status input_items_put(buf *out, str response_id, const json *items, int n,
                       const input_items_page *page, arena *a, err *e)
{
    listing l = {.response_id = response_id, .n = n, .is_ascending = page->is_ascending};
    int from = 0;
    buf_init(&l.id);
    status s = open_listing(&l, a, items, e);
    if (s == ERR_OK && page->after.len) s = find_behind(&l, buf_str(&page->after), &from, e);
    if (s == ERR_OK) put_list(out, &l, from, n - from > page->limit ? from + (int)page->limit : n);
    if (s == ERR_OK && out->failed) s = err_set(e, ERR_NOMEM, "input_items", -1, "the list");
    buf_fini(&l.id);
    return s;
}
