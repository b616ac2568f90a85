/* route: which endpoint a method and a path mean. One table.
 *
 * Thread: any; the table does not change. */
#ifndef RIPTIDE_SERVER_ROUTE_PRIV_H
#define RIPTIDE_SERVER_ROUTE_PRIV_H

#include "server/conn_priv.h"

typedef struct server server;

typedef struct {
    http_method method;
    const char *path; /* one that ends in "/" and has a method of its own takes all below it */
    void (*run)(server *s, conn *c);
    bool is_public; /* answered without a key */
    bool has_body;  /* a body is wanted; up to the server's limit */
} route;

typedef enum { ROUTE_FOUND, ROUTE_NO_PATH, ROUTE_NO_METHOD } route_match;

/* HEAD finds what GET finds. *found is set for ROUTE_FOUND. */
route_match route_find(http_method method, str path, const route **found);

/* Append the methods of a path, "GET, HEAD, OPTIONS"; for ROUTE_NO_METHOD. */
void route_put_methods(str path, buf *out);

/* What comes after the route's path: the name in /v1/models/NAME, still percent-encoded. */
str route_rest(const route *r, str path);

#endif
