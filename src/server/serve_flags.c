#include "server/serve_flags_priv.h"

#include <string.h>

enum { LANES_DEFAULT = 0 /* by the memory */, QUEUE_DEFAULT = 32, GRACE_DEFAULT = 10 };

void serve_flags_init(serve_flags *f)
{
    *f = (serve_flags){
        .host = "127.0.0.1",
        .port = 8000,
        .max_request_size = 128 << 20,
        .queue_size = QUEUE_DEFAULT,
        .stop_grace = GRACE_DEFAULT,
        .response_store_size = RESPONSE_STORE_BYTES,
        .reasoning_budget = -1,
        .log_level = "info",
    };
    engine_flags_init(&f->engine, LANES_DEFAULT);
}

void serve_flags_rows(serve_flags *f, option_row *rows)
{
    int n = engine_flags_rows(&f->engine, rows);
    const option_row own[] = {
        {.name = "host", .type = OPTION_TEXT, .target = &f->host, .help = "address to listen at"},
        {.name = "port",
         .type = OPTION_INT,
         .target = &f->port,
         .min = 0,
         .max = 65535,
         .help = "0 picks a free one"},
        {.name = "api-key",
         .type = OPTION_TEXT,
         .target = &f->api_key,
         .help = "clients must send it (better given as RIPTIDE_API_KEY)"},
        {.name = "allow-no-key",
         .type = OPTION_FLAG,
         .target = &f->allow_no_key,
         .help = "listen at a public address without a key"},
        {.name = "allowed-host",
         .type = OPTION_TEXT,
         .target = &f->allowed_host,
         .help = "further host names clients may use, a,b,c"},
        {.name = "allowed-origin",
         .type = OPTION_TEXT,
         .target = &f->allowed_origin,
         .help = "origins of web pages that may ask, http://a:1,http://b (* with a key: any)"},
        {.name = "served-model-name",
         .type = OPTION_TEXT,
         .target = &f->served_model_name,
         .help = "further names of the model, a,b,c"},
        {.name = "max-request-size",
         .type = OPTION_SIZE,
         .target = &f->max_request_size,
         .min = 1024,
         .max = 1 << 30,
         .help = "most bytes of a request"},
        {.name = "queue-size",
         .type = OPTION_INT,
         .target = &f->queue_size,
         .min = 1,
         .max = 1 << 16,
         .help = "answers that may wait for a lane"},
        {.name = "stop-grace",
         .type = OPTION_INT,
         .target = &f->stop_grace,
         .min = 1,
         .max = 3600,
         .help = "seconds that running answers get after the first signal"},
        {.name = "response-store",
         .type = OPTION_TEXT,
         .target = &f->response_store,
         .help = "file in which /v1/responses are kept over a restart (default: in memory)"},
        {.name = "response-store-size",
         .type = OPTION_SIZE,
         .target = &f->response_store_size,
         .min = 0,
         .max = (int64_t)1 << 40,
         .help = "most bytes of them; the one not used for longest goes"},
        {.name = "log-level",
         .type = OPTION_CHOICE,
         .target = &f->log_level,
         .choices = "debug|info|warn|error",
         .help =
             "what is told on standard error; info has a line of each request, without its body"},
        {.name = "request-log",
         .type = OPTION_TEXT,
         .target = &f->request_log,
         .help = "file to which requests are added with their bodies, to be sent again"},
        {.name = "reasoning-budget",
         .type = OPTION_INT,
         .target = &f->reasoning_budget,
         .min = -1,
         .max = 1 << 24,
         .help = "most tokens of reasoning where a request does not say (-1: no limit)"},
        {.name = "allow-reasoning-loops",
         .type = OPTION_FLAG,
         .target = &f->allow_reasoning_loops,
         .help = "do not end reasoning that only repeats itself"},
        {.name = "no-self-test",
         .type = OPTION_FLAG,
         .target = &f->no_self_test,
         .help = "do not try a built-in exercise once the model is ready"},
    };
    _Static_assert(sizeof own / sizeof *own == SERVE_FLAG_ROWS - ENGINE_FLAG_ROWS, "rows");
    memcpy(rows + n, own, sizeof own);
    rows[SERVE_FLAG_ROWS] = (option_row){0};
}

/* "a, b" as an array in `a`. */
static status split_list(arena *a, const char *text, const char *flag, const str **out, int *n,
                         err *e)
{
    str rest = str_from(text);
    if (rest.len == 0) return ERR_OK;
    str *list = arena_new_array(a, rest.len / 2 + 1, sizeof *list);
    if (!list) return err_set(e, ERR_NOMEM, flag, -1, "list");
    int count = 0;
    for (bool goes_on = true; goes_on;) {
        int64_t comma = str_find(rest, STR(","), 0);
        goes_on = comma >= 0;
        str item = str_trim(goes_on ? str_slice(rest, 0, (size_t)comma) : rest);
        if (item.len > 0) list[count++] = item;
        if (goes_on) rest = str_skip(rest, (size_t)comma + 1);
    }
    *out = list;
    *n = count;
    return ERR_OK;
}

/* Names stand in paths and in JSON. */
static status check_names(const str *names, int n, err *e)
{
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < names[i].len; k++) {
            char c = names[i].ptr[k];
            if (c <= ' ' || c == 0x7f || c == '\\' || c == '%' || c == '?' || c == '#')
                return err_set(e, ERR_INVALID, "--served-model-name", (long)k,
                               "\"%.*s\" has a character that a name may not have",
                               STR_ARG(names[i]));
        }
    return ERR_OK;
}

static status check_origins(const access_rules *r, err *e)
{
    for (int i = 0; i < r->n_origins; i++) {
        str o = r->origins[i];
        if (str_is(o, "*") && r->key.len == 0)
            return err_set(e, ERR_INVALID, "--allowed-origin", -1,
                           "* needs --api-key: else every web page may use this server");
        if (!str_is(o, "*") && str_find(o, STR("://"), 0) < 1)
            return err_set(e, ERR_INVALID, "--allowed-origin", -1,
                           "\"%.*s\": want http://HOST:PORT", STR_ARG(o));
    }
    return ERR_OK;
}

status serve_flags_resolve(const serve_flags *f, arena *a, server_options *s, engine_options *e,
                           err *out)
{
    server_options o = server_options_default();
    o.host = f->host;
    o.port = (int)f->port;
    o.body_max = f->max_request_size;
    o.grace_ms = f->stop_grace * 1000;
    o.response_store = f->response_store;
    o.request_log = f->request_log;
    o.response_bytes = f->response_store_size;
    o.handles_signals = true;
    o.reasoning_most = f->reasoning_budget;
    o.allows_loops = f->allow_reasoning_loops;
    size_t twice = 2 * (size_t)f->max_request_size;
    if (o.limits.body_budget < twice) o.limits.body_budget = twice;
    o.access.key = str_from(f->api_key);
    TRY(split_list(a, f->allowed_host, "--allowed-host", &o.access.hosts, &o.access.n_hosts, out));
    TRY(split_list(a, f->allowed_origin, "--allowed-origin", &o.access.origins, &o.access.n_origins,
                   out));
    TRY(split_list(a, f->served_model_name, "--served-model-name", &o.names, &o.n_names, out));
    TRY(check_names(o.names, o.n_names, out));
    TRY(check_origins(&o.access, out));
    engine_options eo;
    TRY(engine_flags_resolve(&f->engine, a, &eo, out));
    eo.queue_size = (int)f->queue_size;
    /* More than wait and run at a time could never be taken. */
    int64_t at_once = f->queue_size + (f->engine.lanes > 0 ? f->engine.lanes : 1);
    if (at_once < o.choices_max) o.choices_max = (int)at_once;
    *s = o;
    *e = eo;
    return ERR_OK;
}

status serve_flags_check_bind(const serve_flags *f, bool is_loopback, err *e)
{
    if (is_loopback || f->allow_no_key || (f->api_key && f->api_key[0])) return ERR_OK;
    return err_set(e, ERR_INVALID, "--host", -1,
                   "others can reach %s: set RIPTIDE_API_KEY, or say --allow-no-key", f->host);
}
