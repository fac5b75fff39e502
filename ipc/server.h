/* ipc/server.h - owns the ROUTER socket: frames in, replies out, limits, deadlines.
 *
 * One thread (server_run's caller) owns the socket. A request that the handler can answer without
 * waiting is answered there; others go to request threads, which the server starts. Every accepted
 * frame gets exactly one reply: from the handler, or from the server at the request's deadline
 * (then the handler's late reply is dropped). Queues are per client and served in turn, so that one
 * client cannot delay others beyond its share.
 */
#ifndef MEMSYNC_IPC_SERVER_H
#define MEMSYNC_IPC_SERVER_H

#include "ipc/protocol.h"

#include <stdint.h>
#include <sys/types.h>

struct server;

struct server_peer {
    bool known; /* the kernel told (ipc only) */
    uid_t uid;
    gid_t gid;
    pid_t pid;
};

struct server_call {
    const char *method;
    const json_t *params;
    struct server_peer peer;
    uint64_t deadline_ns;
    bool may_block;  /* false: on the server's thread; answer STATUS_WOULD_BLOCK to be called again
                        on another */
    unsigned thread; /* 0: the server's own; 1..n: request threads, e.g. to pick a reader */
};

struct server_handler {
    void *context;
    /* Appends the result as JSON text to `result` and returns STATUS_OK, or fills `error`.
     * `ret_code` (0 at the call) may be set to one of JSON-RPC's own codes. Called from several
     * threads at once. `user_id`/`agent_name` for the error's data are taken from the params by the
     * server. */
    enum status (*handle)(void *context, const struct server_call *call, struct text *result,
                          int *ret_code, struct error *error);
    /* Called by the serving loop once per turn, at least every second while it is alive; feeds the
     * watchdog. NULL: none. */
    void (*tick)(void *context);
};

struct server_options {
    const char *endpoint;      /* already claimed */
    unsigned threads;          /* request threads, 1..64 */
    size_t message_bytes_max;  /* larger messages drop their connection */
    unsigned queue_per_client; /* waiting requests a client; beyond: -32009 busy */
    unsigned queue_total;
    unsigned timeout_default_ms;
    unsigned timeout_max_ms; /* params.timeout_ms is clamped to 1..this */
    void *zmq_context;       /* shared with the events socket; not owned */
};

struct server_counters {
    uint64_t requests, errors, timeouts, busy, malformed, inline_replies, queued, clients;
};

MUST_CHECK enum status server_create(const struct server_options *options,
                                     const struct server_handler *handler, struct server **ret,
                                     struct error *error);

/* Serves until server_stop(). Then takes nothing new, answers what is under way (until the drain
 * deadline), and returns. */
MUST_CHECK enum status server_run(struct server *server, struct error *error);

/* Async-signal-safe and thread-safe. */
void server_stop(struct server *server, unsigned drain_ms);

void server_counters(const struct server *server, struct server_counters *ret);
void server_destroy(struct server **server);

#endif
