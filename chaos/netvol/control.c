#include "chaos/netvol/control.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define CLIENTS_MAX 32
#define LINE_MAX_BYTES 65536
#define BACKLOG 16
#define SEND_TIMEOUT_S 10

struct client {
    int fd;
    struct text input; /* what has come of the next line */
};

struct control {
    struct volume *volume;
    struct client clients[CLIENTS_MAX];
    unsigned count;
};

int control_listen(const char *path, int *ret_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return errno;
    if (strlen(path) >= sizeof address.sun_path)
        return ENAMETOOLONG;
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (bind(fd, (const struct sockaddr *) &address, sizeof address) < 0 || listen(fd, BACKLOG) < 0)
        return errno;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static bool send_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return false;
        bytes += sent;
        size -= (size_t) sent;
    }
    return true;
}

static bool answer_lines(struct control *control, struct client *client)
{
    char *line = client->input.bytes;
    char *newline = memchr(line, '\n', client->input.size);

    while (newline) {
        AUTO_TEXT struct text reply = {0};
        *newline = '\0';
        commands_run(control->volume, line, &reply);
        text_append_char(&reply, '\n');
        if (!text_ok(&reply) || !send_all(client->fd, reply.bytes, reply.size))
            return false;
        line = newline + 1;
        newline = memchr(line, '\n', client->input.size - (size_t) (line - client->input.bytes));
    }
    size_t left = client->input.size - (size_t) (line - client->input.bytes);
    memmove(client->input.bytes, line, left + 1);
    client->input.size = left;
    return left < LINE_MAX_BYTES;
}

/* False: it has gone, or says what nobody can read. */
static bool hear_client(struct control *control, struct client *client)
{
    char bytes[4096];
    ssize_t got = recv(client->fd, bytes, sizeof bytes, 0);

    if (got <= 0)
        return got < 0 && errno == EINTR;
    text_append(&client->input, bytes, (size_t) got);
    return text_ok(&client->input) && answer_lines(control, client);
}

static void close_client(struct control *control, unsigned i)
{
    (void) close(control->clients[i].fd);
    text_destroy(&control->clients[i].input);
    control->clients[i] = control->clients[--control->count];
}

static void take_client(struct control *control, int listen_fd)
{
    const struct timeval patience = {.tv_sec = SEND_TIMEOUT_S};
    AUTO_CLOSE int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0 || control->count == CLIENTS_MAX ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) < 0)
        return;
    control->clients[control->count++] = (struct client){.fd = TAKE_FD(fd)};
}

static bool has_ended(int fd)
{
    char byte;

    return fd >= 0 && read(fd, &byte, 1) == 0;
}

static bool all_ended(const struct volume *volume)
{
    unsigned ended = 0;

    for (unsigned i = 0; i < volume->count; i++)
        ended += atomic_load(&volume->nodes[i].ended) ? 1 : 0;
    return ended == volume->count;
}

enum place {
    PLACE_STOP,
    PLACE_END,
    PLACE_LISTEN,
    PLACE_NODES,
    PLACE_CLIENTS = PLACE_NODES + NODES_MAX
};

static void prepare(const struct control *control, const int fds[PLACE_NODES],
                    struct pollfd *polled)
{
    for (unsigned i = 0; i < PLACE_CLIENTS + CLIENTS_MAX; i++)
        polled[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    for (unsigned i = 0; i < PLACE_NODES; i++)
        polled[i].fd = fds[i];
    /* One that has ended stays readable. */
    for (unsigned i = 0; i < control->volume->count; i++)
        if (!atomic_load(&control->volume->nodes[i].ended))
            polled[PLACE_NODES + i].fd = control->volume->nodes[i].ended_fd;
    for (unsigned i = 0; i < control->count; i++)
        polled[PLACE_CLIENTS + i].fd = control->clients[i].fd;
}

/* From the last to the first: whoever goes is replaced by the last. */
static void hear_clients(struct control *control, const struct pollfd *polled)
{
    for (unsigned i = control->count; i-- > 0;)
        if (polled[i].revents && !hear_client(control, &control->clients[i]))
            close_client(control, i);
}

bool control_serve(struct volume *volume, int listen_fd, int stop_fd, int end_fd)
{
    const int fds[PLACE_NODES] = {
        [PLACE_STOP] = stop_fd, [PLACE_END] = end_fd, [PLACE_LISTEN] = listen_fd};
    struct pollfd polled[PLACE_CLIENTS + CLIENTS_MAX];
    struct control control = {.volume = volume};
    bool asked_to_end = false;

    while (!asked_to_end && !all_ended(volume)) {
        prepare(&control, fds, polled);
        if (poll(polled, ARRAY_SIZE(polled), -1) < 0)
            continue;
        asked_to_end =
            polled[PLACE_STOP].revents || (polled[PLACE_END].revents && has_ended(end_fd));
        hear_clients(&control, polled + PLACE_CLIENTS);
        if (polled[PLACE_LISTEN].revents)
            take_client(&control, listen_fd);
    }
    while (control.count > 0)
        close_client(&control, 0);
    return asked_to_end;
}
