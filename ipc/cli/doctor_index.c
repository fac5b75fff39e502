/* doctor_index.c - is the index where it can work: on a local disk, outside of the volume? */
#include "ipc/cli/doctor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define SPACE_BYTES_LOW (100ull << 20)

/* The directory itself, or the nearest of those above it that exists, free of links. */
static bool find_existing(const char *path, char ret[PATH_MAX])
{
    char part[PATH_MAX];

    if (strlen(path) >= sizeof part)
        return false;
    (void) snprintf(part, sizeof part, "%s", path);
    while (!realpath(part, ret)) {
        if (errno != ENOENT)
            return false;
        char *slash = strrchr(part, '/');
        if (!slash)
            (void) snprintf(part, sizeof part, ".");
        else if (slash == part)
            slash[1] = '\0';
        else
            *slash = '\0';
    }
    return true;
}

static bool lies_in(const char *path, const char *directory)
{
    size_t size = strlen(directory);

    return strncmp(path, directory, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

/* Where the agent refuses it: everything below these is taken for users, agents and their facts. */
static bool lies_among_memories(const struct doctor *doctor, const char *path)
{
    static const char *const parts[] = {"users", "agents"};
    char data[PATH_MAX];
    char index[PATH_MAX];

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        int length = snprintf(data, sizeof data, "%s/%s", doctor->volume_path, parts[i]);
        if (length > 0 && (size_t) length < sizeof data &&
            (lies_in(path, data) || lies_in(doctor->index, data)))
            return true;
    }
    return strcmp(path, doctor->volume_path) == 0 && realpath(doctor->index, index) &&
           strcmp(index, path) == 0;
}

static void check_place(struct doctor *doctor, const char *path)
{
    struct mount mount;

    mount_find(path, &mount);
    if (mount.kind != MOUNT_LOCAL)
        doctor_find(doctor, LEVEL_ERROR, "index",
                    "set index.path to a directory on a local disk of this node (or "
                    "index.allow_network: true, at your own risk)",
                    "%s is on %s (%s), where SQLite's locks and shared memory may not work",
                    doctor->index, mount.type, mount_kind_name(mount.kind));
    else if (lies_among_memories(doctor, path))
        doctor_find(doctor, LEVEL_ERROR, "index",
                    "set index.path to a directory outside of the volume",
                    "%s lies among the memories, where the agent refuses it", doctor->index);
    else if (lies_in(path, doctor->volume_path))
        doctor_find(doctor, LEVEL_WARNING, "index",
                    "set index.path to a directory outside of the volume",
                    "%s lies in the volume: good for one agent only", doctor->index);
    else
        doctor_find(doctor, LEVEL_OK, "index", NULL, "%s is on %s (%s)", doctor->index, mount.type,
                    mount_kind_name(mount.kind));
}

static void check_access(struct doctor *doctor, const char *path)
{
    struct statvfs info;
    struct stat st;

    if (access(path, R_OK | W_OK | X_OK) < 0)
        doctor_find(doctor, LEVEL_ERROR, "index", "give the directory to the agent's user",
                    "uid %u cannot write to %s: %s", (unsigned) geteuid(), path, strerror(errno));
    if (statvfs(path, &info) == 0 &&
        (unsigned long long) info.f_bavail * info.f_frsize < SPACE_BYTES_LOW)
        doctor_find(doctor, LEVEL_WARNING, "index", "a fact takes about 1.5 kB of index; make room",
                    "%llu MiB are free there",
                    (unsigned long long) info.f_bavail * info.f_frsize >> 20);
    if (stat(doctor->index, &st) == 0 && (st.st_mode & 077))
        doctor_find(doctor, LEVEL_INFO, "index", "chmod 700 it if facts are not for everybody",
                    "others may look into %s", doctor->index);
}

void doctor_check_index(struct doctor *doctor)
{
    char path[PATH_MAX];

    if (!doctor->index) {
        doctor_find(doctor, LEVEL_INFO, "index", "give INDEX_DIR too",
                    "the index's place was not looked at");
        return;
    }
    if (!find_existing(doctor->index, path)) {
        doctor_find(doctor, LEVEL_ERROR, "index", "give a directory that can be reached",
                    "cannot look at %s: %s", doctor->index, strerror(errno));
        return;
    }
    check_place(doctor, path);
    check_access(doctor, path);
}
