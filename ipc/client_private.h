/* client_private.h - what the files of libmemsync share; nothing of it is exported.
 *
 * The library stands alone: libzmq, jansson and the C library, nothing of core/.
 */
#ifndef MEMSYNC_IPC_CLIENT_PRIVATE_H
#define MEMSYNC_IPC_CLIENT_PRIVATE_H

#include "ipc/memsync.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <zmq.h>

#define CLIENT_MESSAGE_BYTES_MAX (64 << 20)
#define CLIENT_PATH_BYTES_MAX 107 /* what fits into sockaddr_un beside the NUL */
#define CLIENT_TIMED_OUT 100      /* internal: never leaves the library */

#pragma GCC visibility push(hidden)

/* ---- errors (client_error.c) ---- */

/* Keeps the line for memsync_last_error() and returns `code`, so that it can end a return. */
int client_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- JSON as text (client_json.c) ---- */

struct json_span {
    const char *bytes; /* NULL: there is no such member */
    size_t size;
};

/* Checks that the bytes are one JSON object and finds the values of its members named `names`, each
 * as it stands in the text. False: they are not. Numbers keep their spelling that way, which a
 * round trip through a tree would change. */
bool client_json_members(const char *bytes, size_t size, const char *const *names, size_t count,
                         struct json_span *ret, size_t *ret_members);

/* ---- endpoints (client_endpoint.c) ---- */

/* True when somebody listens at a checked endpoint, or when that cannot be told without a
 * conversation; else `why` is a sentence for people: what is wrong, and what may help. */
bool client_endpoint_is_served(const char *endpoint, char *why, size_t why_size);

/* ---- waking up a wait (client_wake.c) ---- */

/* One interrupt ends one wait. It stays raised until a wait takes it. */
struct wake {
    atomic_bool raised;
    atomic_int pid; /* whose `fd` it is; another process only raises the flag */
    int fd;         /* an eventfd */
};

/* MEMSYNC_OK, or MEMSYNC_NO_MEMORY with its words. */
int wake_open(struct wake *wake);
void wake_close(struct wake *wake);
void wake_raise(struct wake *wake); /* async-signal-safe */
bool wake_take(struct wake *wake);

/* ---- one connection (client_connection.c) ---- */

/* A socket with its own context and a monitor that tells when the peer is gone. Used by one thread
 * at a time. In a forked child it is forgotten, never closed: libzmq's threads exist in the parent
 * only. */
struct connection {
    int kind;             /* ZMQ_DEALER or ZMQ_SUB */
    const char *endpoint; /* borrowed */
    const char *prefix;   /* borrowed; ZMQ_SUB */
    pid_t pid;            /* 0: not open */
    void *context;
    void *socket;
    void *monitor;
    bool is_up;        /* the handshake is done */
    bool is_broken;    /* it was up and is so no more, or connecting was refused */
    bool is_patient;   /* set by the owner: wait through breaks, libzmq reconnects */
    size_t unanswered; /* earlier requests whose answers may still come */
};

/* Makes it usable: opens it unless it is open and unbroken. */
int connection_ready(struct connection *connection);

/* Closes it; what was queued is dropped. */
void connection_drop(struct connection *connection);

/* Waits until a message can be read. CLIENT_TIMED_OUT at the deadline (monotonic; UINT64_MAX:
 * none). MEMSYNC_NO_AGENT: nobody is there (any more), the connection is dropped. */
int connection_wait(struct connection *connection, struct wake *wake, uint64_t deadline_ns);

/* Waits for the handshake, with the same results. */
int connection_wait_up(struct connection *connection, struct wake *wake, uint64_t deadline_ns);

/* Queues one request; never waits. When the queue is full of requests that nobody waits for any
 * more it connects anew, once. */
int connection_send(struct connection *connection, const char *bytes, size_t size);

/* Reads one message without waiting: its first and its last frame, which the caller closes.
 * MEMSYNC_OK, or CLIENT_TIMED_OUT when there is none. */
int connection_receive(struct connection *connection, zmq_msg_t *ret_first, zmq_msg_t *ret_last);

/* ---- the client (client.c) ---- */

/* Makes the client this process's own after a fork; to be called before anything else. */
void client_adopt(memsync_client *client);
struct wake *client_wake(memsync_client *client);

/* Monotonic nanoseconds, now and `timeout_ms` (not negative) from now. */
uint64_t client_now_ns(void);
uint64_t client_deadline_ns(int timeout_ms);

/* Ends it with a NUL; NULL: no memory. The caller frees it. */
char *client_copy(const char *bytes, size_t size);

#pragma GCC visibility pop

#endif
