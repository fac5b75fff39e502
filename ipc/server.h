/* ipc/server.h - owns the ROUTER socket: frames in, replies out, limits, deadlines.
 *
 * One thread (server_run's caller) owns the socket. A request that the handler can answer without
 * waiting is answered there; others, and all in large frames, which take long to read, go to
 * request threads, which the server starts. Every accepted frame gets exactly one reply: from the
 * handler, or from the server at the request's deadline (then the handler's late reply is dropped).
 * Queues are per client and served in turn, and with several request threads one client never runs
 * on all of them, so that it cannot delay others beyond its share. Replies of one client may come
 * in another order than its requests.
 *
 *     server_create(&options, &handler, &server, &error);   binds
 *     server_run(server, &error);                            until server_stop() from elsewhere
 *     server_destroy(&server);
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
    uint64_t deadline_ns; /* a little (at most 50 ms) before the server answers by itself, so that
                             a handler that keeps it can still say more than "timeout" */
    bool may_block; /* false: on the server's thread; answer STATUS_WOULD_BLOCK to be called again
                       on another */
    /* 0: the server's own; 1..n: request threads, e.g. to pick a reader. n is
     * server_options.threads + SERVER_THREADS_SPARE. */
    unsigned thread;
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

/* A request thread that hangs in a call to the volume, or whose request was answered without it, is
 * replaced for as long: up to that many at a time. Their numbers are above server_options.threads.
 */
#define SERVER_THREADS_SPARE 16

struct server_options {
    const char *endpoint;      /* already claimed */
    unsigned threads;          /* request threads, 1..64 */
    size_t message_bytes_max;  /* larger messages are answered too_large up to twice this size;
                                  beyond, they drop their connection. Also bounds the bytes that
                                  wait:  4 times this a client, 16 times in total */
    unsigned queue_per_client; /* waiting requests a client; beyond: -32009 busy */
    unsigned queue_total;
    unsigned timeout_default_ms;
    unsigned timeout_max_ms; /* params.timeout_ms is clamped to 1..this */
    void *zmq_context;       /* shared with the events socket; not owned */
};

struct server_counters {
    uint64_t requests;          /* messages taken */
    uint64_t errors;            /* error replies of any kind; those below are among them */
    uint64_t timeouts;          /* answered -32004 */
    uint64_t busy;              /* refused by a limit */
    uint64_t malformed;         /* no request that can be understood */
    uint64_t inline_replies;    /* answered on the server's thread without a queue */
    uint64_t queued;            /* handed to request threads */
    uint64_t clients;           /* now: with a request that waits or runs */
    uint64_t waiting;           /* now: requests in queues */
    uint64_t threads_busy;      /* now: request threads with a request */
    uint64_t oldest_running_ms; /* now: since when the longest of them is there; 0: none */
    uint64_t late_replies;      /* came after the server had answered, or for a client that left */
    uint64_t undelivered;       /* replies dropped: the client is gone or does not read */
    uint64_t connections;       /* now */
    uint64_t disconnects;       /* ended so far, by either side */
};

MUST_CHECK enum status server_create(const struct server_options *options,
                                     const struct server_handler *handler, struct server **ret,
                                     struct error *error);

/* Serves until server_stop(). Then answers new requests -32007, finishes what is under way until
 * the drain deadline, answers the rest -32007 too, and returns. STATUS_TIMEOUT: request threads are
 * still inside the handler, whose context must then stay alive until the process ends. */
MUST_CHECK enum status server_run(struct server *server, struct error *error);

/* Async-signal-safe and thread-safe. The first call counts. */
void server_stop(struct server *server, unsigned drain_ms);

/* From any thread. */
void server_counters(const struct server *server, struct server_counters *ret);

/* After server_run() returned (or without it). Threads that are stuck in the handler free what they
 * share when they come back. */
void server_destroy(struct server **server);

#endif
