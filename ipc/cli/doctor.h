/* doctor.h - examines a volume and an index directory; each check adds findings.
 *
 * Everything is written below VOLUME/.memsyncd/doctor-<pid>-<n>/ under the names listed in
 * doctor.c, which removes them whatever happened.
 */
#ifndef MEMSYNC_IPC_CLI_DOCTOR_H
#define MEMSYNC_IPC_CLI_DOCTOR_H

#include "core/compiler.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum level { LEVEL_OK, LEVEL_INFO, LEVEL_WARNING, LEVEL_ERROR };

/* Who else may see and lock the files. */
enum mount_kind {
    MOUNT_LOCAL,
    MOUNT_NFS,
    MOUNT_CLUSTER,
    MOUNT_SMB,
    MOUNT_FUSE,
    MOUNT_UNKNOWN,
};

struct mount {
    enum mount_kind kind;
    char type[64];      /* as mounted, e.g. "nfs4", "fuse.sshfs" */
    char options[1024]; /* comma-separated, may be cut */
};

struct doctor {
    const char *volume;
    char volume_path[PATH_MAX]; /* without links */
    const char *index;          /* NULL: not given */
    int volume_fd;
    int probe_fd; /* -1: nothing can be written */
    struct mount mount;
    json_t *findings;
    enum level worst;
};

/* Names inside the probe directory. */
#define PROBE_FIRST "first"
#define PROBE_SECOND "second"
#define PROBE_LINK "link"
#define PROBE_CASE "Case"
#define PROBE_LOCK "lock"
#define PROBE_EVENT "event"

/* Adds a finding; `cure` NULL: none is needed. */
void doctor_find(struct doctor *doctor, enum level level, const char *check, const char *cure,
                 const char *format, ...) PRINTF(5, 6);

/* What is mounted at an existing directory; `path` is free of links. */
void mount_find(const char *path, struct mount *ret);
const char *mount_kind_name(enum mount_kind kind);

/* One group of checks each, in the order in which they run: they add findings and return. Those
 * that write need `probe_fd`. */
void doctor_check_mount(struct doctor *doctor);
void doctor_check_space(struct doctor *doctor);
void doctor_check_owner(struct doctor *doctor);
void doctor_check_writing(struct doctor *doctor);
void doctor_check_times(struct doctor *doctor);
void doctor_check_locks(struct doctor *doctor);
void doctor_check_watching(struct doctor *doctor);
void doctor_check_index(struct doctor *doctor);

#endif
