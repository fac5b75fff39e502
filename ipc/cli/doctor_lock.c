/* doctor_lock.c - does a lock keep another process out? */
#include "ipc/cli/commands.h"
#include "ipc/cli/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>

/* Another process opens the lock file anew and tries: 0 when it got the lock, else the errno, -1
 * when that could not be tried. */
static int try_from_child(int directory_fd)
{
    int status;
    pid_t child = fork();

    if (child < 0)
        return -1;
    if (child == 0) {
        int fd = openat(directory_fd, PROBE_LOCK, O_RDWR | O_CLOEXEC);
        _exit(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno & 127);
    }
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR)
            return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void judge(struct doctor *doctor, int while_held, int when_free)
{
    if (while_held < 0 || when_free < 0)
        doctor_find(doctor, LEVEL_WARNING, "locks", "try again when the machine has room",
                    "no second process could be started to try the locks");
    else if (while_held == 0)
        doctor_find(doctor, LEVEL_ERROR, "locks", "do not let two programs write to this volume",
                    "a second process got a lock that was held");
    else if (when_free != 0)
        doctor_find(doctor, LEVEL_ERROR, "locks", "look at the file server's lock service",
                    "a second process did not get a free lock: %s", strerror(when_free));
    else
        doctor_find(doctor, LEVEL_OK, "locks", NULL, "flock keeps a second process out%s",
                    doctor->mount.kind == MOUNT_LOCAL ? "" : " (on this node; others not tried)");
}

void doctor_check_locks(struct doctor *doctor)
{
    if (doctor->probe_fd < 0)
        return;
    AUTO_CLOSE int fd = openat(doctor->probe_fd, PROBE_LOCK, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) {
        doctor_find(doctor, LEVEL_ERROR, "locks",
                    "mount it with locks (NFS: without nolock, lock service running); without "
                    "them reads work, writes are refused",
                    "a lock cannot be taken: %s", strerror(errno));
        return;
    }
    int while_held = try_from_child(doctor->probe_fd);
    (void) flock(fd, LOCK_UN);
    judge(doctor, while_held, try_from_child(doctor->probe_fd));
}
