/* ipc/socket_descriptor.h - what poll() waits on for a libzmq socket.
 *
 * Shared by the server and the client library, which has nothing else in common with it.
 */
#ifndef MEMSYNC_IPC_SOCKET_DESCRIPTOR_H
#define MEMSYNC_IPC_SOCKET_DESCRIPTOR_H

#include <zmq.h>

/* The socket's; -1 with libzmq's errno. It becomes readable when something has happened since
 * somebody asked the socket last and found nothing, and not before somebody did; what happened,
 * only asking the socket tells. */
static inline int socket_descriptor(void *socket)
{
    int fd = -1;
    size_t size = sizeof fd;

    return zmq_getsockopt(socket, ZMQ_FD, &fd, &size) < 0 ? -1 : fd;
}

#endif
