#include "ipc/server_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define EVENTS_PER_CALL 1000

enum status monitor_open(struct server *server, struct error *error)
{
    const int unlimited = 0;
    char address[64];

    (void) snprintf(address, sizeof address, "inproc://memsync-server-%p", (void *) server);
    if (zmq_socket_monitor(server->router, address, ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED) <
        0)
        return error_set(error, STATUS_INTERNAL, NULL, "cannot watch connections: %s",
                         zmq_strerror(errno));
    server->monitor = zmq_socket(server->options.zmq_context, ZMQ_PAIR);
    /* With a limit, libzmq's own thread would wait for us when we are slow to read. */
    if (!server->monitor ||
        zmq_setsockopt(server->monitor, ZMQ_RCVHWM, &unlimited, sizeof unlimited) < 0 ||
        zmq_connect(server->monitor, address) < 0)
        return error_set(error, STATUS_INTERNAL, NULL, "cannot watch connections: %s",
                         zmq_strerror(errno));
    return STATUS_OK;
}

static bool receive(void *monitor, zmq_msg_t *frame)
{
    for (;;) {
        if (zmq_msg_recv(frame, monitor, ZMQ_DONTWAIT) >= 0)
            return true;
        if (errno != EINTR)
            return false;
    }
}

static void note_event(struct server *server, zmq_msg_t *frame)
{
    uint16_t event = 0;
    int32_t value = 0;

    if (zmq_msg_size(frame) < sizeof event + sizeof value)
        return;
    memcpy(&event, zmq_msg_data(frame), sizeof event);
    memcpy(&value, (const char *) zmq_msg_data(frame) + sizeof event, sizeof value);
    if (event == ZMQ_EVENT_ACCEPTED) {
        atomic_fetch_add(&server->counters.connections, 1);
    } else if (event == ZMQ_EVENT_DISCONNECTED) {
        atomic_fetch_sub(&server->counters.connections, 1);
        atomic_fetch_add(&server->counters.disconnects, 1);
        queue_abandon(&server->queue, value, NULL);
    }
}

void monitor_read(struct server *server)
{
    unsigned count = 0;
    zmq_msg_t frame;

    (void) zmq_msg_init(&frame);
    for (; count < EVENTS_PER_CALL && receive(server->monitor, &frame); count++) {
        note_event(server, &frame);
        while (zmq_msg_more(&frame) && receive(server->monitor, &frame))
            continue; /* the endpoint's name */
    }
    (void) zmq_msg_close(&frame);
    server->monitor_has_more = count == EVENTS_PER_CALL;
}
