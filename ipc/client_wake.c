/* client_wake.c - ends a wait from another thread or from a signal handler. */
#include "ipc/client_private.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

int wake_open(struct wake *wake)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (fd < 0)
        return client_fail(MEMSYNC_NO_MEMORY, "cannot make an eventfd: %s", strerror(errno));
    wake->fd = fd;
    atomic_store(&wake->pid, getpid());
    return MEMSYNC_OK;
}

void wake_close(struct wake *wake)
{
    atomic_store(&wake->pid, 0);
    if (wake->fd >= 0)
        (void) close(wake->fd);
    wake->fd = -1;
}

void wake_raise(struct wake *wake)
{
    int saved_errno = errno;
    uint64_t one = 1;

    atomic_store(&wake->raised, true);
    /* In a forked child the descriptor is still the parent's, which must not wake up. A full
     * counter is as good as a written one. */
    if (atomic_load(&wake->pid) == getpid())
        (void) !write(wake->fd, &one, sizeof one);
    errno = saved_errno;
}

bool wake_take(struct wake *wake)
{
    uint64_t count;

    if (atomic_load(&wake->pid) == getpid())
        (void) !read(wake->fd, &count, sizeof count);
    return atomic_exchange(&wake->raised, false);
}
