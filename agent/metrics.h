/* agent/metrics.h - what the agent itself counts, beside its backend, as metrics. */
#ifndef MEMSYNC_AGENT_METRICS_H
#define MEMSYNC_AGENT_METRICS_H

#include "core/exposition.h"
#include "ipc/events.h"
#include "ipc/server.h"

/* Requests, their queues, clients and events; `events` NULL: none are published. Waits for nobody.
 */
void metrics_measure_ipc(const struct server *server, const struct events *events,
                         struct exposition *page);

#endif
