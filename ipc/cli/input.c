/* input.c - reads without losing a signal between two reads. */
#include "ipc/cli/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#define CHUNK_BYTES 65536u

bool input_is_standard(const char *path)
{
    return strcmp(path, "-") == 0;
}

bool input_is_typed(const char *path)
{
    return input_is_standard(path) && isatty(STDIN_FILENO);
}

/* Waits until there is something to read. The signals that stop the command are let through during
 * the wait only, so none slips in before it. False: one came. */
static bool wait_readable(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    sigset_t stopping, before;

    (void) sigemptyset(&stopping);
    (void) sigaddset(&stopping, SIGINT);
    (void) sigaddset(&stopping, SIGTERM);
    (void) sigaddset(&stopping, SIGHUP);
    (void) pthread_sigmask(SIG_BLOCK, &stopping, &before);
    while (!stop_signal() && ppoll(&poll_fd, 1, NULL, &before) < 0 && errno == EINTR)
        continue;
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !stop_signal();
}

static ssize_t read_some(int fd, char *bytes, size_t size)
{
    ssize_t got;

    do {
        if (!wait_readable(fd))
            return -1;
        got = read(fd, bytes, size);
    } while (got < 0 && (errno == EINTR || errno == EAGAIN));
    return got;
}

/* The bytes until the end, as long as there are not too many; -1 and errno after an error. */
static ssize_t read_all(int fd, char **ret)
{
    AUTO_FREE char *bytes = NULL;
    size_t size = 0, room = 0;
    ssize_t got;

    do {
        if (room - size < CHUNK_BYTES) {
            room = 2 * room + 2 * CHUNK_BYTES;
            char *larger = realloc(bytes, room + 1);
            if (!larger)
                return -1;
            bytes = larger;
        }
        got = read_some(fd, bytes + size, CHUNK_BYTES);
        if (got < 0)
            return -1;
        size += (size_t) got;
    } while (got > 0 && size <= INPUT_BYTES_MAX);
    bytes[size] = '\0';
    *ret = TAKE_PTR(bytes);
    return (ssize_t) size;
}

enum exit_code input_read(const struct cli *cli, const char *path, char **ret, size_t *ret_size)
{
    const char *name = input_is_standard(path) ? "standard input" : path;
    AUTO_CLOSE int own_fd = -1;
    AUTO_FREE char *bytes = NULL;

    if (!input_is_standard(path)) {
        own_fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (own_fd < 0 && stop_signal())
            return EXIT_SIGNAL;
        if (own_fd < 0) {
            complain(cli->command, "cannot open %s: %s", path, strerror(errno));
            return EXIT_USAGE;
        }
    }
    if (input_is_typed(path))
        complain(cli->command, "type the text; Ctrl-D on a line of its own ends it");
    ssize_t size = read_all(own_fd >= 0 ? own_fd : STDIN_FILENO, &bytes);
    if (stop_signal())
        return EXIT_SIGNAL;
    if (size < 0) {
        complain(cli->command, "cannot read %s: %s", name, strerror(errno));
        return EXIT_USAGE;
    }
    if ((size_t) size > INPUT_BYTES_MAX) {
        complain(cli->command,
                 "%s has more than %u bytes, the most that is read (what an agent takes in a "
                 "request is its ipc.max_message_bytes)",
                 name, INPUT_BYTES_MAX);
        return EXIT_REFUSED;
    }
    *ret_size = (size_t) size;
    *ret = TAKE_PTR(bytes);
    return EXIT_DONE;
}

bool input_read_line(int fd, char *line, size_t size)
{
    size_t used = 0;
    char character = '\0';

    while (read_some(fd, &character, 1) == 1) {
        if (character == '\n') {
            line[used] = '\0';
            return true;
        }
        if (used + 1 < size)
            line[used++] = character;
    }
    return false;
}
