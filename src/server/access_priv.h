/* access: who may talk to this server. Host names (against DNS rebinding), origins of web pages,
 * the key. Pure functions of the rules and of header values.
 *
 * Thread: any; rules do not change. */
#ifndef RIPTIDE_SERVER_ACCESS_PRIV_H
#define RIPTIDE_SERVER_ACCESS_PRIV_H

#include "base/err.h"
#include "base/str.h"

/* Everything borrowed. */
typedef struct {
    bool is_loopback; /* bound to a loopback address only */
    str bind_name;    /* what --host said */
    const str *hosts; /* [n_hosts] further names a Host field may have */
    int n_hosts;
    const str *origins; /* [n_origins] "http://app.example:3000", or "*" */
    int n_origins;
    str key; /* empty: none is asked for */
} access_rules;

/* Whether a Host field names this server. A loopback bind accepts loopback names only. Any other
 * bind accepts addresses and its own name, and with a key every name: who does not know the key
 * gains nothing by rebinding.
 *
 * host     the field's value; ptr NULL (HTTP/1.0 without one) is accepted
 * Returns  FORMAT when it is no host and port, INVALID when it is not accepted */
status access_check_host(const access_rules *r, str host, err *e);

/* Whether a page of this origin may ask. One that the server itself served may (its authority is
 * the request's Host), and those of the rules.
 *
 * origin   the field's value; ptr NULL (no page) is accepted
 * Returns  INVALID when it is not accepted */
status access_check_origin(const access_rules *r, str origin, str host, err *e);

/* Whether the right key was shown, as "Authorization: Bearer KEY" or "x-api-key: KEY"; where both
 * are given (ptr not NULL) both must be right. Takes equally long wherever they differ. */
bool access_has_key(const access_rules *r, str authorization, str x_api_key);

#endif
