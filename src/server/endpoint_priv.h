/* endpoint: the functions behind the routes. Each either replies at once or takes the connection
 * and replies later.
 *
 * Thread: the event loop. */
#ifndef RIPTIDE_SERVER_ENDPOINT_PRIV_H
#define RIPTIDE_SERVER_ENDPOINT_PRIV_H

#include "server/server_priv.h"

void endpoint_root(server *s, conn *c);             /* GET /: the chat page */
void endpoint_health(server *s, conn *c);           /* GET /health: the process can answer */
void endpoint_ready(server *s, conn *c);            /* GET /ready: the model can */
void endpoint_status(server *s, conn *c);           /* GET /status: counters as JSON */
void endpoint_metrics(server *s, conn *c);          /* GET /metrics: the same for Prometheus */
void endpoint_models(server *s, conn *c);           /* GET /v1/models */
void endpoint_model(server *s, conn *c);            /* GET /v1/models/NAME */
void endpoint_chat_completions(server *s, conn *c); /* POST /v1/chat/completions */
void endpoint_completions(server *s, conn *c);      /* POST /v1/completions */
void endpoint_responses(server *s, conn *c);        /* POST /v1/responses */
void endpoint_get_response(server *s, conn *c);     /* GET /v1/responses/ID, …/input_items */
void endpoint_delete_response(server *s, conn *c);  /* DELETE /v1/responses/ID */
void endpoint_messages(server *s, conn *c);         /* POST /v1/messages */
void endpoint_count_tokens(server *s, conn *c);     /* POST /v1/messages/count_tokens */
void endpoint_judgments(server *s, conn *c);        /* POST /v1/judgments */
void endpoint_systemone(server *s, conn *c);        /* POST /v1/systemone */
void endpoint_tokenize(server *s, conn *c);         /* POST /tokenize */
void endpoint_detokenize(server *s, conn *c);       /* POST /detokenize */
void endpoint_apply_template(server *s, conn *c);   /* POST /apply-template */

#endif
