/* ipc/events.h - the PUB socket: what changed, for workers that keep caches.
 *
 * Two frames: topic scope/<user>/<agent>/ (parts percent-encoded, no user = an empty part), and a
 * body, one JSON object. events_publish() may be called from any thread; one thread inside owns the
 * socket. A subscriber that does not read loses events (bounded queues); each body carries `n`, a
 * counter per topic that grows by one, and `epoch`: equal epochs and a gap in n, or another epoch
 * (the agent started anew, or it met more topics than it keeps counters for), mean that events may
 * be missing.
 */
#ifndef MEMSYNC_IPC_EVENTS_H
#define MEMSYNC_IPC_EVENTS_H

#include "core/scope.h"
#include "core/text.h"

struct events;

struct events_options {
    const char *endpoint; /* already claimed */
    void *zmq_context;
    unsigned high_water_mark; /* messages kept for a slow subscriber */
};

/* Binds the socket and starts its thread. STATUS_INVALID: no high-water mark, or an endpoint that
 * cannot be bound; STATUS_NO_MEMORY. */
MUST_CHECK enum status events_create(const struct events_options *options, struct events **ret,
                                     struct error *error);
void events_destroy(struct events **events);

/* Publishes {"event": event, "user_id", "agent_name", "epoch", "n", ...members}; `members` is JSON
 * text of the form
 * "\"revision\":7,\"cause\":\"search\"" or "". Never blocks; drops (and counts) when its own queue
 * is full. */
void events_publish(struct events *events, const struct scope *scope, const char *event,
                    const char *members);

/* How many events were dropped since the start, for want of room or memory. Any thread. */
uint64_t events_dropped(const struct events *events);

/* The topic, e.g. scope/u1/__default__/ ; without a user the second part is empty:
 * scope//__default__/ */
void events_topic(struct text *text, const char *user, const char *agent);

#endif
