/* memsync.h - the C client of memsyncd.
 *
 * A client holds one connection to one agent. It is safe to use from several threads (calls are
 * serialised) and across fork() (the child opens its own connection at its first call and never
 * touches the parent's). It reconnects by itself when the agent restarts, and drops late answers to
 * requests that timed out. Signals do not disturb it: a wait that one interrupts goes on until its
 * own deadline. A request is never sent twice.
 *
 *     memsync_client *client = NULL;
 *     char *reply = NULL;
 *
 *     if (memsync_open(NULL, &client) == MEMSYNC_OK &&
 *         memsync_call(client, "search", "{\"user_id\":\"u1\",\"query\":\"tea\"}", 1000, &reply) ==
 *             MEMSYNC_OK)
 *         puts(reply);
 *     else
 *         fprintf(stderr, "%s\n", memsync_last_error());
 *     memsync_free(reply);
 *     memsync_close(&client);
 *
 * Methods, parameters and results: docs/protocol.md. Link with `pkg-config --libs libmemsync`.
 */
#ifndef MEMSYNC_H
#define MEMSYNC_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MEMSYNC_PROTOCOL 1
#define MEMSYNC_DEFAULT_ENDPOINT "ipc:///run/memsync/memsyncd.sock"
#define MEMSYNC_DEFAULT_TIMEOUT_MS 5000

#if defined(__GNUC__)
#define MEMSYNC_API __attribute__((visibility("default")))
#else
#define MEMSYNC_API
#endif

typedef struct memsync_client memsync_client;
typedef struct memsync_subscriber memsync_subscriber;

/* 0, or what went wrong. Positive values are the client's own; negative ones are the agent's
 * (docs/protocol.md). */
enum {
    MEMSYNC_OK = 0,
    MEMSYNC_NO_AGENT = 1,     /* nobody listens there, or nothing came before the timeout */
    MEMSYNC_BAD_ENDPOINT = 2, /* the endpoint cannot be used; memsync_last_error() says why */
    MEMSYNC_NO_MEMORY = 3,    /* out of memory, descriptors or threads */
    MEMSYNC_BAD_REPLY = 4,    /* an answer that is not the protocol's */
    MEMSYNC_BAD_PARAMS = 5,   /* `params` is no JSON object, or an argument is missing */
    MEMSYNC_INTERRUPTED = 6,  /* memsync_interrupt() was called */
    MEMSYNC_NOT_FOUND = -32001,
    MEMSYNC_CONFLICT = -32002,
    MEMSYNC_CORRUPT = -32003,
    MEMSYNC_TIMEOUT = -32004,
    MEMSYNC_DENIED = -32005,
    MEMSYNC_UNSUPPORTED = -32006,
    MEMSYNC_UNAVAILABLE = -32007,
    MEMSYNC_STORAGE_FULL = -32008,
    MEMSYNC_BUSY = -32009,
    MEMSYNC_TOO_LARGE = -32010,
    MEMSYNC_PARSE_ERROR = -32700,
    MEMSYNC_INVALID_REQUEST = -32600,
    MEMSYNC_NO_METHOD = -32601,
    MEMSYNC_INVALID_PARAMS = -32602,
    MEMSYNC_INTERNAL = -32603
};

/* Opens a client. `endpoint` NULL: $MEMSYNC_ENDPOINT where it is set and not empty, else the
 * default. Nothing is connected before the first call, but an endpoint that cannot work (path too
 * long, unknown transport) is refused here: then `*ret` is NULL and memsync_last_error() says why.
 * May be called from any thread. */
MEMSYNC_API int memsync_open(const char *endpoint, memsync_client **ret);

/* Closes it and clears the caller's pointer; NULL is fine. No call may be under way, and its
 * subscribers must be gone. */
MEMSYNC_API void memsync_close(memsync_client **client);

/* Why an endpoint cannot be used, or NULL when it can. Pure: looks at the text only. The message
 * belongs to the library and lives until the thread's next call of this function. */
MEMSYNC_API const char *memsync_endpoint_error(const char *endpoint);

/* Calls a method. `params` is a JSON object as text, NULL for none. `timeout_ms` bounds the call,
 * the wait for other threads' calls included (0 or less: the default); the agent is given a
 * deadline shortly before ours, unless `params` has a timeout_ms of its own. On MEMSYNC_OK `*ret`
 * is the result as JSON text, exactly as the agent sent it. On an error of the agent (negative)
 * `*ret` is the JSON error object {code, message, data}. Else it is NULL. Free it with
 * memsync_free().
 *
 * MEMSYNC_NO_AGENT comes at once where nobody listens, and also when the connection breaks before
 * the answer: then the request may or may not have been carried out. */
MEMSYNC_API int memsync_call(memsync_client *client, const char *method, const char *params,
                             int timeout_ms, char **ret);

/* One line about the last failure of a call in this thread; never NULL. Valid until the thread's
 * next call. */
MEMSYNC_API const char *memsync_last_error(void);

/* Makes a wait (a call's or memsync_next_event()'s) in another thread, or one that a signal handler
 * interrupted, return MEMSYNC_INTERRUPTED. It ends one wait; where none is under way, the next.
 * Async-signal-safe. */
MEMSYNC_API void memsync_interrupt(memsync_client *client);

/* The name of a code, e.g. "not_found"; "unknown" for others. */
MEMSYNC_API const char *memsync_code_name(int code);

/* Frees a text that the library returned; NULL is fine. */
MEMSYNC_API void memsync_free(char *text);

/* Subscribes to events. `endpoint` NULL: the one that the agent names (`ping`). `prefix` "" or NULL
 * means all, memsync_topic() one scope. Events from the moment of the return on arrive, but for
 * those of its first instant. A subscriber is used by one thread at a time, and must be ended
 * before its client is closed. MEMSYNC_UNSUPPORTED: the agent publishes none. */
MEMSYNC_API int memsync_subscribe(memsync_client *client, const char *endpoint, const char *prefix,
                                  memsync_subscriber **ret);

/* Waits for the next event. MEMSYNC_OK, or MEMSYNC_NO_AGENT when none came before the timeout (-1:
 * wait for ever). A restart of the agent is waited through; whoever must not miss anything compares
 * the counters `n` in the bodies. The texts are freed with memsync_free(). */
MEMSYNC_API int memsync_next_event(memsync_subscriber *subscriber, int timeout_ms, char **ret_topic,
                                   char **ret_body);

/* Ends it and clears the caller's pointer; NULL is fine. */
MEMSYNC_API void memsync_unsubscribe(memsync_subscriber **subscriber);

/* The topic of a scope, scope/<user>/<agent>/ with the parts percent-encoded; user NULL = no user,
 * agent NULL = the default one. Free with memsync_free(); NULL when out of memory. */
MEMSYNC_API char *memsync_topic(const char *user, const char *agent);

/* "0.1.0" */
MEMSYNC_API const char *memsync_version(void);

#ifdef __cplusplus
}
#endif

#endif
