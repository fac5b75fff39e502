/* agent/monitor.h - what is told of the agent over HTTP: /metrics, /healthz, /readyz.
 *
 * Asks parts of the agent for what they count; never the volume, nor the index. The pages are
 * described in docs/monitoring/README.md.
 */
#ifndef MEMSYNC_AGENT_MONITOR_H
#define MEMSYNC_AGENT_MONITOR_H

#include "agent/health.h"
#include "core/exposition.h"
#include "core/status.h"

struct monitor; /* opaque */

struct monitor_options {
    const char *listen; /* metrics.listen, see agent/http_address.h */
    const struct health *health;
    uint64_t patience_ns;     /* see health_is_alive() */
    const char *backend_name; /* for the page */
    /* Called on the monitor's thread while the agent serves or stops, not while it starts. Both
     * wait for nobody. */
    void (*measure)(void *context, struct exposition *page);
    bool (*is_ready)(void *context, const char **ret_reason);
    void *context;
};

/* Listens and answers from now on. The strings and `health` must outlive it. */
MUST_CHECK enum status monitor_start(const struct monitor_options *options, struct monitor **ret,
                                     struct error *error);

/* Nothing of the options is used any more when it returns; waits for no client. */
void monitor_stop(struct monitor **monitor);

#endif
