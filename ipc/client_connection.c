/* client_connection.c - one libzmq socket, watched by its monitor.
 *
 * libzmq reconnects silently and for ever. The monitor tells when connecting failed or the peer
 * went away, and only then a plain connect() finds out why, so an agent that is there is never
 * probed. A connection that broke is dropped as a whole, with what was queued on it: a request is
 * never sent twice, nor after its caller has given up.
 */
#include "ipc/client_private.h"
#include "ipc/socket_descriptor.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define MONITOR_ADDRESS "inproc://monitor"
#define RECONNECT_MS 50
#define RECONNECT_MS_MAX 500
#define SEND_QUEUE 64

static bool set_option(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof value) == 0;
}

static bool set_options(const struct connection *connection)
{
    void *socket = connection->socket;
    int64_t bytes_max = CLIENT_MESSAGE_BYTES_MAX;

    return set_option(socket, ZMQ_LINGER, 0) && set_option(socket, ZMQ_SNDHWM, SEND_QUEUE) &&
           set_option(socket, ZMQ_RECONNECT_IVL, RECONNECT_MS) &&
           set_option(socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MS_MAX) &&
           set_option(socket, ZMQ_HANDSHAKE_IVL, 0) && /* the deadline is the caller's */
           set_option(socket, ZMQ_IPV6, strchr(connection->endpoint, '[') != NULL) &&
           zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &bytes_max, sizeof bytes_max) == 0;
}

static bool open_monitor(struct connection *connection)
{
    const int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED |
                       ZMQ_EVENT_CONNECT_RETRIED;

    if (zmq_socket_monitor(connection->socket, MONITOR_ADDRESS, events) < 0)
        return false;
    connection->monitor = zmq_socket(connection->context, ZMQ_PAIR);
    return connection->monitor && set_option(connection->monitor, ZMQ_LINGER, 0) &&
           zmq_connect(connection->monitor, MONITOR_ADDRESS) == 0;
}

static bool open_socket(struct connection *connection)
{
    const char *prefix = connection->prefix;

    connection->context = zmq_ctx_new();
    if (!connection->context || zmq_ctx_set(connection->context, ZMQ_BLOCKY, 0) < 0)
        return false;
    connection->socket = zmq_socket(connection->context, connection->kind);
    if (!connection->socket || !set_options(connection) || !open_monitor(connection))
        return false;
    if (prefix && zmq_setsockopt(connection->socket, ZMQ_SUBSCRIBE, prefix, strlen(prefix)) < 0)
        return false;
    return zmq_connect(connection->socket, connection->endpoint) == 0;
}

static void forget(struct connection *connection)
{
    connection->pid = 0;
    connection->context = connection->socket = connection->monitor = NULL;
    connection->is_up = connection->is_broken = false;
    connection->unanswered = 0;
}

void connection_drop(struct connection *connection)
{
    if (connection->pid == getpid()) {
        if (connection->monitor)
            (void) zmq_close(connection->monitor);
        if (connection->socket)
            (void) zmq_close(connection->socket);
        while (connection->context && zmq_ctx_term(connection->context) < 0 && errno == EINTR)
            continue;
    }
    forget(connection);
}

static void note_event(struct connection *connection, unsigned event)
{
    switch (event) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        connection->is_up = true;
        connection->is_broken = false;
        connection->unanswered = 0; /* their answers went with the old connection */
        break;
    case ZMQ_EVENT_DISCONNECTED:
    case ZMQ_EVENT_CLOSED:
    case ZMQ_EVENT_CONNECT_RETRIED:
        connection->is_broken = true;
        break;
    default:
        break;
    }
}

/* Receives a frame without waiting for one; false when there is none. */
static bool receive_frame(zmq_msg_t *frame, void *socket)
{
    int size;

    do
        size = zmq_msg_recv(frame, socket, ZMQ_DONTWAIT);
    while (size < 0 && errno == EINTR);
    return size >= 0;
}

static void read_events(struct connection *connection)
{
    zmq_msg_t frame;
    bool is_first = true;

    (void) zmq_msg_init(&frame);
    while (receive_frame(&frame, connection->monitor)) {
        uint16_t event;
        if (is_first && zmq_msg_size(&frame) >= sizeof event) {
            memcpy(&event, zmq_msg_data(&frame), sizeof event);
            note_event(connection, event);
        }
        is_first = !zmq_msg_more(&frame);
    }
    (void) zmq_msg_close(&frame);
}

int connection_ready(struct connection *connection)
{
    if (connection->pid != 0 && connection->pid != getpid())
        forget(connection);
    if (connection->pid != 0) {
        read_events(connection);
        if (!connection->is_broken || connection->is_patient)
            return MEMSYNC_OK;
        connection_drop(connection);
    }
    connection->pid = getpid();
    if (open_socket(connection)) {
        read_events(connection); /* the descriptor tells only of what comes after a first look */
        return MEMSYNC_OK;
    }
    int error = errno;
    connection_drop(connection);
    return client_fail(error == EINVAL ? MEMSYNC_BAD_ENDPOINT : MEMSYNC_NO_MEMORY,
                       "cannot open a connection to %s: %s", connection->endpoint,
                       zmq_strerror(error));
}

/* After the monitor said that something broke. MEMSYNC_OK: go on waiting. */
static int judge_break(struct connection *connection)
{
    const char *endpoint = connection->endpoint;
    bool was_up = connection->is_up;
    char why[500];

    bool is_served = client_endpoint_is_served(endpoint, why, sizeof why);
    if (is_served && !was_up) { /* it came up just now, or its backlog was full */
        connection->is_broken = false;
        return MEMSYNC_OK;
    }
    connection_drop(connection);
    if (is_served)
        return client_fail(MEMSYNC_NO_AGENT,
                           "the connection to %s broke before the answer came: the agent was "
                           "restarted, or a message was larger than it allows",
                           endpoint);
    return client_fail(MEMSYNC_NO_AGENT, "%s", why);
}

static long remaining_ms(uint64_t deadline_ns)
{
    uint64_t now = client_now_ns();

    if (deadline_ns == UINT64_MAX)
        return -1;
    return now >= deadline_ns ? 0 : (long) ((deadline_ns - now + 999999) / 1000000);
}

static bool has_message(void *socket)
{
    int events = 0;
    size_t size = sizeof events;

    return zmq_getsockopt(socket, ZMQ_EVENTS, &events, &size) == 0 && (events & ZMQ_POLLIN);
}

static int poll_timeout(long ms)
{
    return ms > INT_MAX ? INT_MAX : (int) ms;
}

/* One turn of waiting. MEMSYNC_OK: something happened, or a signal came; look again.
 *
 * The descriptors need somebody who has found nothing before: has_message() asks the one socket,
 * read_events() the monitor, which nobody else reads. (zmq_poll() would ask both before and after,
 * each time.) */
static int poll_once(struct connection *connection, struct wake *wake, uint64_t deadline_ns,
                     bool *ret_readable)
{
    long timeout_ms = remaining_ms(deadline_ns);

    if (wake_take(wake))
        return client_fail(MEMSYNC_INTERRUPTED, "interrupted");
    *ret_readable = has_message(connection->socket);
    if (*ret_readable)
        return MEMSYNC_OK;
    struct pollfd fds[] = {
        {.fd = socket_descriptor(connection->socket), .events = POLLIN},
        {.fd = socket_descriptor(connection->monitor), .events = POLLIN},
        {.fd = wake->fd, .events = POLLIN},
    };
    if (fds[0].fd < 0 || fds[1].fd < 0)
        return client_fail(MEMSYNC_NO_MEMORY, "cannot wait: %s", zmq_strerror(errno));
    int ready = poll(fds, sizeof fds / sizeof fds[0], poll_timeout(timeout_ms));
    if (ready < 0 && errno != EINTR)
        return client_fail(MEMSYNC_NO_MEMORY, "cannot wait: %s", strerror(errno));
    if (ready > 0 && fds[0].revents)
        return MEMSYNC_OK;
    if (ready > 0 && fds[1].revents)
        read_events(connection);
    if (connection->is_broken && !connection->is_patient)
        return judge_break(connection);
    return ready == 0 && timeout_ms == 0 ? CLIENT_TIMED_OUT : MEMSYNC_OK;
}

int connection_wait(struct connection *connection, struct wake *wake, uint64_t deadline_ns)
{
    bool is_readable = false;
    int code = MEMSYNC_OK;

    while (code == MEMSYNC_OK && !is_readable)
        code = poll_once(connection, wake, deadline_ns, &is_readable);
    return code;
}

int connection_wait_up(struct connection *connection, struct wake *wake, uint64_t deadline_ns)
{
    bool is_readable = false;
    int code = MEMSYNC_OK;

    read_events(connection);
    while (code == MEMSYNC_OK && !connection->is_up && !is_readable)
        code = poll_once(connection, wake, deadline_ns, &is_readable);
    return code;
}

static bool send_bytes(struct connection *connection, const char *bytes, size_t size)
{
    int sent;

    do
        sent = zmq_send(connection->socket, bytes, size, ZMQ_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent >= 0;
}

int connection_send(struct connection *connection, const char *bytes, size_t size)
{
    if (send_bytes(connection, bytes, size))
        return MEMSYNC_OK;
    /* The queue is full of requests that nobody waits for any more. */
    connection_drop(connection);
    int code = connection_ready(connection);
    if (code == MEMSYNC_OK && !send_bytes(connection, bytes, size))
        code = client_fail(MEMSYNC_NO_AGENT, "cannot send to %s: %s", connection->endpoint,
                           zmq_strerror(errno));
    return code;
}

int connection_receive(struct connection *connection, zmq_msg_t *ret_first, zmq_msg_t *ret_last)
{
    (void) zmq_msg_init(ret_first);
    (void) zmq_msg_init(ret_last);
    if (!receive_frame(ret_first, connection->socket))
        return CLIENT_TIMED_OUT;
    (void) zmq_msg_copy(ret_last, ret_first);
    while (zmq_msg_more(ret_last)) { /* a message arrives whole, so the rest is there */
        if (!receive_frame(ret_last, connection->socket))
            break;
    }
    return MEMSYNC_OK;
}
