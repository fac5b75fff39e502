/* doctor_watch.c - inotify: limits against what the volume needs, and whether events come. */
#include "ipc/cli/commands.h"
#include "ipc/cli/doctor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>

#define BUCKETS_COUNTED_MAX 1000000
#define EVENT_WAIT_MS 1000
#define OWN_WATCHES 2 /* the root and users/ */

static long read_limit(const char *name)
{
    char path[100];
    long value = -1;

    (void) snprintf(path, sizeof path, "/proc/sys/fs/inotify/%s", name);
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    if (fscanf(file, "%ld", &value) != 1)
        value = -1;
    (void) fclose(file);
    return value;
}

static long count_buckets(int volume_fd)
{
    int users_fd = openat(volume_fd, "users", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = users_fd >= 0 ? fdopendir(users_fd) : NULL;
    const struct dirent *entry;
    long count = 0;

    if (!directory) {
        if (users_fd >= 0)
            (void) close(users_fd);
        return 0;
    }
    while (count < BUCKETS_COUNTED_MAX && !stop_signal() && (entry = readdir(directory)) != NULL)
        count += entry->d_name[0] != '.';
    (void) closedir(directory);
    return count;
}

static void check_limits(struct doctor *doctor)
{
    long limit = read_limit("max_user_watches");
    long needed = count_buckets(doctor->volume_fd) + OWN_WATCHES;

    if (limit < 0)
        doctor_find(doctor, LEVEL_INFO, "inotify", NULL, "the limits cannot be read");
    else if (needed > limit)
        doctor_find(doctor, LEVEL_WARNING, "inotify",
                    "raise fs.inotify.max_user_watches with sysctl; until then the rest is polled",
                    "%ld watches are needed and %ld allowed", needed, limit);
    else
        doctor_find(doctor, LEVEL_OK, "inotify", NULL,
                    "%ld watches are needed and %ld allowed (shared by all programs of the user)",
                    needed, limit);
}

/* True when a file made in the probe directory is told of. */
static bool event_comes(const struct doctor *doctor, int inotify_fd)
{
    char path[64];
    struct pollfd item = {.fd = inotify_fd, .events = POLLIN};

    (void) snprintf(path, sizeof path, "/proc/self/fd/%d", doctor->probe_fd);
    if (inotify_add_watch(inotify_fd, path, IN_CREATE) < 0)
        return false;
    AUTO_CLOSE int fd = openat(doctor->probe_fd, PROBE_EVENT, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    errno = 0; /* what is not an error of the watch is "nothing came" */
    return fd >= 0 && poll(&item, 1, EVENT_WAIT_MS) > 0;
}

void doctor_check_watching(struct doctor *doctor)
{
    check_limits(doctor);
    if (doctor->mount.kind != MOUNT_LOCAL)
        doctor_find(doctor, LEVEL_INFO, "inotify", NULL,
                    "other nodes' changes make no events here; the agent polls for them and "
                    "compares on each search");
    AUTO_CLOSE int inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (inotify_fd < 0)
        doctor_find(doctor, LEVEL_WARNING, "inotify",
                    "raise fs.inotify.max_user_instances with sysctl; until then all is polled",
                    "inotify cannot be used: %s", strerror(errno));
    else if (doctor->probe_fd >= 0 && !event_comes(doctor, inotify_fd))
        doctor_find(
            doctor, LEVEL_WARNING, "inotify",
            "raise fs.inotify.max_user_watches if it is used up; else nothing: it is polled",
            "no event came for a change made here%s%s", errno ? ": " : "",
            errno ? strerror(errno) : "");
}
