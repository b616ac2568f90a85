/* Whether the server works, for people, load balancers and clients that look first. */
#include "server/endpoint_priv.h"

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
