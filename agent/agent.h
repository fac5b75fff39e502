/* agent/agent.h - owns every part of the process; start order, stop order.
 *
 *   endpoint claimed -> backend (store, keeper) -> events -> server bound -> ready -> serving
 *   stop: server drained and destroyed -> backend drained and destroyed -> events -> endpoint
 *   released
 */
#ifndef MEMSYNC_AGENT_AGENT_H
#define MEMSYNC_AGENT_AGENT_H

#include "agent/config.h"

struct agent;

/* What only the parts themselves can tell of a configuration: endpoints, the socket's group, the
 * backend's name, an index among the memories. For --check-config; agent_start() does the same. */
MUST_CHECK enum status agent_check(const struct config *config, struct error *error);

/* Starts everything and serves from a thread of its own. `config` must outlive the agent. */
MUST_CHECK enum status agent_start(const struct config *config, struct agent **ret,
                                   struct error *error);

/* Takes over what can change while running (log level) and tells the backend; the rest of `config`
 * is compared, and keys that need a restart are logged. */
void agent_reload(struct agent *agent, const struct config *config);

/* Logs the state, one line a part (SIGUSR1). */
void agent_log_state(struct agent *agent);

/* True when the serving thread has ended by itself, which is a failure. */
bool agent_has_ended(struct agent *agent);

/* Looks after the backend's threads. Call it about once a second, from one thread. */
void agent_oversee(struct agent *agent);

/* A line for `systemctl status`: what is served and how far the first compare is. */
void agent_status_line(struct agent *agent, struct text *text);

/* Drains within `drain_ms` and releases everything. False: a request hangs in a call that does not
 * return; then memory that it uses is left alone, and the process should end at once. */
bool agent_stop(struct agent **agent, unsigned drain_ms);

#endif
