/* hub_url: addresses at the hub, with '%' where a name needs it. */
#ifndef RIPTIDE_HUB_HUB_URL_PRIV_H
#define RIPTIDE_HUB_HUB_URL_PRIV_H

#include "hub/hub.h"

/* The list of files of a revision, with sizes and digests; NULL when out of memory. */
char *hub_url_listing(arena *a, const char *endpoint, const hub_name *n, const char *revision);
/* A file at a commit. */
char *hub_url_file(arena *a, const char *endpoint, const hub_name *n, const char *commit,
                   const char *path);

#endif
