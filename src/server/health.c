/* Whether the server works, for people, load balancers and clients that look first. */
#include "server/endpoint_priv.h"

void endpoint_root(server *s, conn *c)
{
    buf b;
    buf_init(&b);
    buf_printf(&b, "riptide serves %s\n\nPOST /v1/chat/completions\nGET /v1/models\nGET /health\n",
               s->about->model_name);
    conn_reply_buf(c, 200, "text/plain; charset=utf-8", &b);
    buf_fini(&b);
}

/* After a device fault nothing can be computed any more; the truth is told here too. */
void endpoint_health(server *s, conn *c)
{
    if (s->is_broken)
        conn_reply(c, 503, NULL, STR("{\"status\":\"failed\"}"), NULL);
    else
        conn_reply(c, 200, NULL, STR("{\"status\":\"ok\"}"), NULL);
}

void endpoint_ready(server *s, conn *c)
{
    if (s->is_broken || s->n_stops > 0)
        conn_reply(c, 503, NULL, STR("{\"status\":\"unavailable\"}"), "Retry-After: 1\r\n");
    else
        conn_reply(c, 200, NULL, STR("{\"status\":\"ready\"}"), NULL);
}
