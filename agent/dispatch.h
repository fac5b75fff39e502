/* agent/dispatch.h - the method table: name -> what it needs -> the backend's function.
 *
 * Takes user_id and agent_name out of a call's params, so that a backend gets a checked scope, and
 * supplies the defaults of slots that a backend leaves out (docs/protocol.md). Stateless but for
 * its counters; any number of threads.
 */
#ifndef MEMSYNC_AGENT_DISPATCH_H
#define MEMSYNC_AGENT_DISPATCH_H

#include "backends/backend.h"
#include "ipc/server.h"

struct dispatch {
    const struct backend_table *table;
    struct backend *backend;
    const char *events_endpoint; /* NULL: none */
    /* Appends the whole `status` result. */
    void (*write_status)(void *context, struct text *result);
    void *status_context;
};

/* A struct server_handler's function; `context` is a struct dispatch. */
enum status dispatch_handle(void *context, const struct server_call *call, struct text *result,
                            int *ret_code, struct error *error);

#endif
