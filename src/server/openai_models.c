/* GET /v1/models and /v1/models/NAME: what is served, and how much fits. */
#include "base/json.h"
#include "server/endpoint_priv.h"
#include "server/route_priv.h"

static void put_model(json_writer *w, const server *s, str name)
{
    const engine_info *about = s->about;
    const template_caps *caps = s->template ? template_get_caps(s->template) : NULL;
    json_open_object(w);
    json_key(w, "id");
    json_string(w, name);
    json_key(w, "object");
    json_c_string(w, "model");
    json_key(w, "created");
    json_int(w, s->created_s);
    json_key(w, "owned_by");
    json_c_string(w, "riptide");
    if (!str_is(name, about->model_name)) {
        json_key(w, "root");
        json_c_string(w, about->model_name);
    }
    json_key(w, "max_model_len");
    json_int(w, about->max_context);
    json_key(w, "context_length");
    json_int(w, about->max_context);
    json_key(w, "vision");
    json_bool(w, false);
    json_key(w, "input_modalities");
    json_raw(w, STR("[\"text\"]"));
    json_key(w, "tools");
    json_bool(w, caps && caps->has_tools);
    json_key(w, "reasoning");
    json_bool(w, caps && caps->starts_thinking);
    json_key(w, "draft_model");
    if (about->draft_name)
        json_c_string(w, about->draft_name);
    else
        json_null(w);
    json_close_object(w);
}

void endpoint_models(server *s, conn *c)
{
    buf b;
    json_writer w;
    buf_init(&b);
    json_writer_init(&w, &b);
    json_open_object(&w);
    json_key(&w, "object");
    json_c_string(&w, "list");
    json_key(&w, "data");
    json_open_array(&w);
    put_model(&w, s, str_from(s->about->model_name));
    for (int i = 0; i < s->opt.n_names; i++) put_model(&w, s, s->opt.names[i]);
    json_close_array(&w);
    json_close_object(&w);
    conn_reply_buf(c, 200, NULL, &b);
    buf_fini(&b);
}

void endpoint_model(server *s, conn *c)
{
    buf name, body;
    buf_init(&name);
    buf_init(&body);
    bool is_text = http_decode_path(route_rest(c->route, http_head_path(conn_head(c))), &name);
    if (is_text && server_has_name(s, buf_str(&name))) {
        json_writer w;
        json_writer_init(&w, &body);
        put_model(&w, s, buf_str(&name));
        conn_reply_buf(c, 200, NULL, &body);
    } else {
        api_error a;
        api_error_set(&a, 404, "model_not_found", "model", "there is no model \"%.*s\" here",
                      (int)(name.len < 200 ? name.len : 200), buf_str(&name).ptr);
        conn_reply_error(c, &a, NULL);
    }
    buf_fini(&name);
    buf_fini(&body);
}
