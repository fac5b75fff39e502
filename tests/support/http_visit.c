#include "tests/support/http_visit.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#define END_MS 10000

int http_visit(const struct http_address *address)
{
    int fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, (const struct sockaddr *) &address->storage, address->size) < 0) {
        perror("http_visit");
        abort();
    }
    return fd;
}

void http_say(int fd, const char *text)
{
    ssize_t sent = send(fd, text, strlen(text), MSG_NOSIGNAL);

    (void) sent;
}

bool http_hear(int fd, char *ret, size_t size)
{
    size_t used = 0;

    while (used < size - 1) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, END_MS) <= 0)
            return false;
        ssize_t got = recv(fd, ret + used, size - 1 - used, 0);
        if (got <= 0) {
            ret[used] = '\0';
            return true;
        }
        used += (size_t) got;
    }
    return false;
}

bool http_get(const struct http_address *address, const char *path, char *ret, size_t size)
{
    AUTO_CLOSE int fd = http_visit(address);
    char request[256];

    (void) snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    http_say(fd, request);
    return http_hear(fd, ret, size);
}
