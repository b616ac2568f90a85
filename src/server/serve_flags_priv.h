/* serve_flags: the command line of `riptide serve`.
 *
 * Thread: one. */
#ifndef RIPTIDE_SERVER_SERVE_FLAGS_PRIV_H
#define RIPTIDE_SERVER_SERVE_FLAGS_PRIV_H

#include "base/arena.h"
#include "engine/engine_flags.h"
#include "server/server_priv.h"

typedef struct {
    engine_flags engine;
    const char *host, *api_key, *allowed_host, *allowed_origin, *served_model_name, *response_store,
        *request_log, *log_level;
    int64_t port, max_request_size, queue_size, stop_grace, response_store_size, reasoning_budget;
    bool allow_no_key, allow_reasoning_loops, no_self_test;
} serve_flags;

enum { SERVE_FLAG_ROWS = ENGINE_FLAG_ROWS + 17 };

void serve_flags_init(serve_flags *f);
/* Write all rows and the row that ends the table into rows[SERVE_FLAG_ROWS + 1]. */
void serve_flags_rows(serve_flags *f, option_row *rows);

/* Everything but the engine itself, and the options to open that with. Texts live in `a` or are
 * borrowed from f.
 *
 * Returns  INVALID naming the flag; IO when there is no such model; NOMEM */
status serve_flags_resolve(const serve_flags *f, arena *a, server_options *s, engine_options *e,
                           err *out);

/* An address that others can reach wants a key, unless --allow-no-key says otherwise.
 *
 * Returns  INVALID */
status serve_flags_check_bind(const serve_flags *f, bool is_loopback, err *e);

#endif
