/* doctor_mount.c - what kind of file system a directory lies on. */
#include "ipc/cli/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#define SPACE_BYTES_LOW (100ull << 20)
#define INODES_LOW 1000
#define USUAL_CACHE_S 60ul

static const struct {
    unsigned long magic;
    enum mount_kind kind;
    const char *name;
} file_systems[] = {
    {0xef53, MOUNT_LOCAL, "ext4"},
    {0x58465342, MOUNT_LOCAL, "xfs"},
    {0x9123683e, MOUNT_LOCAL, "btrfs"},
    {0x2fc12fc1, MOUNT_LOCAL, "zfs"},
    {0xf2f52010, MOUNT_LOCAL, "f2fs"},
    {0x01021994, MOUNT_LOCAL, "tmpfs"},
    {0x858458f6, MOUNT_LOCAL, "ramfs"},
    {0x794c7630, MOUNT_LOCAL, "overlay"},
    {0xca451a4e, MOUNT_LOCAL, "bcachefs"},
    {0x2011bab0, MOUNT_LOCAL, "exfat"},
    {0x4d44, MOUNT_LOCAL, "vfat"},
    {0x6969, MOUNT_NFS, "nfs"},
    {0x00c36400, MOUNT_CLUSTER, "ceph"},
    {0x01161970, MOUNT_CLUSTER, "gfs2"},
    {0x7461636f, MOUNT_CLUSTER, "ocfs2"},
    {0x0bd00bd0, MOUNT_CLUSTER, "lustre"},
    {0x47504653, MOUNT_CLUSTER, "gpfs"},
    {0x19830326, MOUNT_CLUSTER, "beegfs"},
    {0xff534d42, MOUNT_SMB, "cifs"},
    {0xfe534d42, MOUNT_SMB, "smb3"},
    {0x517b, MOUNT_SMB, "smb"},
    {0x65735546, MOUNT_FUSE, "fuse"},
    {0x01021997, MOUNT_UNKNOWN, "9p"},
    {0x5346414f, MOUNT_UNKNOWN, "afs"},
    {0x786f4256, MOUNT_UNKNOWN, "vboxsf"},
};

const char *mount_kind_name(enum mount_kind kind)
{
    static const char *const names[] = {
        [MOUNT_LOCAL] = "local", [MOUNT_NFS] = "network", [MOUNT_CLUSTER] = "cluster",
        [MOUNT_SMB] = "network", [MOUNT_FUSE] = "FUSE",   [MOUNT_UNKNOWN] = "unknown"};

    return names[kind];
}

/* Fields of a mountinfo line: id, parent, major:minor, root, mount point, options, optional ones, a
 * dash, type, source, options of the file system. */
static bool read_mount_line(char *line, dev_t device, struct mount *ret)
{
    unsigned major_number, minor_number;
    char *dash = strstr(line, " - ");
    char own_options[512], type[64], options[512];

    if (!dash ||
        sscanf(line, "%*d %*d %u:%u %*s %*s %511s", &major_number, &minor_number, own_options) != 3)
        return false;
    if (makedev(major_number, minor_number) != device)
        return false;
    if (sscanf(dash + 3, "%63s %*s %511s", type, options) != 2)
        return false;
    (void) snprintf(ret->type, sizeof ret->type, "%s", type);
    (void) snprintf(ret->options, sizeof ret->options, "%s,%s", own_options, options);
    return true;
}

/* The last mount of the device that the list has; its type and options are the same everywhere. */
static void read_mount_list(dev_t device, struct mount *ret)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    AUTO_FREE char *line = NULL;
    size_t capacity = 0;

    if (!file)
        return;
    while (getline(&line, &capacity, file) > 0)
        (void) read_mount_line(line, device, ret);
    (void) fclose(file);
}

void mount_find(const char *path, struct mount *ret)
{
    struct statfs info;
    struct stat st;

    *ret = (struct mount){.kind = MOUNT_UNKNOWN, .type = "unknown"};
    if (statfs(path, &info) < 0 || stat(path, &st) < 0)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(file_systems); i++) {
        if (file_systems[i].magic == ((unsigned long) info.f_type & 0xffffffff)) {
            ret->kind = file_systems[i].kind;
            (void) snprintf(ret->type, sizeof ret->type, "%s", file_systems[i].name);
        }
    }
    read_mount_list(st.st_dev, ret);
}

/* True when `option` (a whole one, with its value) is among the mount's. */
static bool has_option(const struct mount *mount, const char *option)
{
    size_t size = strlen(option);
    const char *at = mount->options;

    for (;;) {
        size_t length = strcspn(at, ",");
        if (length == size && strncmp(at, option, size) == 0)
            return true;
        if (at[length] == '\0')
            return false;
        at += length + 1;
    }
}

/* The number behind `name` ("acdirmax="), or `otherwise`. */
static unsigned long option_number(const struct mount *mount, const char *name,
                                   unsigned long otherwise)
{
    size_t size = strlen(name);

    for (const char *at = mount->options; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, size) == 0)
            return strtoul(at + size, NULL, 10);
    }
    return otherwise;
}

static bool is_coherent(const struct mount *mount)
{
    static const char *const names[] = {"ceph", "gfs2", "ocfs2", "lustre", "gpfs"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (strcmp(mount->type, names[i]) == 0)
            return true;
    }
    return false;
}

/* As the agent sees it, see volume.cache_ms. */
static unsigned long cache_seconds(const struct mount *mount)
{
    if (is_coherent(mount) || (mount->kind == MOUNT_NFS && has_option(mount, "noac")))
        return 0;
    if (mount->kind != MOUNT_NFS)
        return USUAL_CACHE_S;
    unsigned long files = option_number(mount, "acregmax=", USUAL_CACHE_S);
    unsigned long directories = option_number(mount, "acdirmax=", USUAL_CACHE_S);
    return files > directories ? files : directories;
}

static void tell_cache_time(struct doctor *doctor)
{
    unsigned long seconds = cache_seconds(&doctor->mount);

    if (doctor->mount.kind == MOUNT_LOCAL)
        return;
    if (seconds == 0)
        doctor_find(doctor, LEVEL_OK, "caches", NULL, "listings of this mount are never old");
    else
        doctor_find(doctor, LEVEL_INFO, "caches",
                    "set volume.cache_ms if you know how long this mount keeps listings",
                    "freshness cannot be forced for certain: a listing may be %lu s old, so a "
                    "scope that changed is looked at once more after that",
                    seconds);
}

static void check_nfs_options(struct doctor *doctor)
{
    static const char *const local_locks[] = {"nolock", "local_lock=all", "local_lock=flock"};

    for (size_t i = 0; i < ARRAY_SIZE(local_locks); i++) {
        if (has_option(&doctor->mount, local_locks[i]))
            doctor_find(doctor, LEVEL_ERROR, "mount", "mount it without that option",
                        "%s keeps locks on this node: two nodes could write at once",
                        local_locks[i]);
    }
    if (has_option(&doctor->mount, "soft") || has_option(&doctor->mount, "softerr"))
        doctor_find(doctor, LEVEL_INFO, "mount", "use hard where waiting is better than failing",
                    "a soft mount answers with errors while the server is away");
}

void doctor_check_mount(struct doctor *doctor)
{
    struct mount *mount = &doctor->mount;

    mount_find(doctor->volume_path, mount);
    doctor_find(doctor, LEVEL_OK, "mount", NULL, "%s is on %s (%s)", doctor->volume_path,
                mount->type, mount_kind_name(mount->kind));
    switch (mount->kind) {
    case MOUNT_LOCAL:
        if (strcmp(mount->type, "tmpfs") == 0 || strcmp(mount->type, "ramfs") == 0)
            doctor_find(doctor, LEVEL_WARNING, "mount", "use a disk for what is to be kept",
                        "%s is memory: facts are gone after a restart of this machine",
                        mount->type);
        break;
    case MOUNT_NFS:
        check_nfs_options(doctor);
        break;
    case MOUNT_CLUSTER:
        break;
    case MOUNT_SMB:
    case MOUNT_FUSE:
    case MOUNT_UNKNOWN:
        doctor_find(doctor, LEVEL_INFO, "mount",
                    "set volume.locks: trusted if locks taken here are seen by all other nodes",
                    "locks may not reach other nodes, so a dead writer's commit is rolled back "
                    "only after volume.recovery_grace_ms");
        break;
    }
    tell_cache_time(doctor);
}

void doctor_check_space(struct doctor *doctor)
{
    struct statvfs info;

    if (fstatvfs(doctor->volume_fd, &info) < 0)
        return;
    unsigned long long bytes = (unsigned long long) info.f_bavail * info.f_frsize;
    if (bytes < SPACE_BYTES_LOW)
        doctor_find(doctor, LEVEL_WARNING, "space", "make room before writes begin to fail",
                    "%llu MiB are free on the volume", bytes >> 20);
    else if (info.f_files > 0 && info.f_favail < INODES_LOW)
        doctor_find(doctor, LEVEL_WARNING, "space", "each fact needs one; make room",
                    "%llu inodes are free on the volume", (unsigned long long) info.f_favail);
    else
        doctor_find(doctor, LEVEL_OK, "space", NULL, "%llu MiB are free on the volume",
                    bytes >> 20);
}
