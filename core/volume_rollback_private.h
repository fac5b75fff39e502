/* core/volume_rollback_private.h - what the survey finds and the roll-back works by. */
#ifndef MEMSYNC_CORE_VOLUME_ROLLBACK_PRIVATE_H
#define MEMSYNC_CORE_VOLUME_ROLLBACK_PRIVATE_H

#include "core/volume_private.h"
#include "core/volume_rollback.h"

#include <limits.h>

/* The manifest's backup has this name whatever the manifest is called. */
#define ROLLBACK_MANIFEST_BACKUP "memory.json"

/* A fact that the dead writer has created. */
struct added_fact {
    const char *id; /* the journal's */
    char shard[3];
};

enum manifest_action { MANIFEST_KEEP, MANIFEST_RESTORE, MANIFEST_REMOVE };

/* Filled by rollback_survey(); nothing is changed before it is complete. */
struct rollback {
    const struct volume *volume;
    int bucket_fd;
    const char *manifest_name;
    const struct journal *journal;
    int backup_fd;          /* -1: there is no directory of backups */
    struct listing backups; /* empty then */
    bool has_manifest;
    struct file_image manifest; /* as it is now; empty without one */
    bool manifest_is_sound;
    int64_t revision; /* the manifest's, when it is sound */
    enum manifest_action manifest_action;
    struct added_fact *added; /* those that are there */
    size_t added_count;
    bool settled; /* all is as before the change already; only traces are left */
};

/* Looks at everything that the roll-back needs. STATUS_CORRUPT: backups are lost. */
MUST_CHECK enum status rollback_survey(struct rollback *rollback, struct error *error);
void rollback_destroy(struct rollback *rollback);

/* The file name of a fact, which is that of its backup too. */
void rollback_backup_name(const char *fact_id, char ret[NAME_MAX + 1]);

/* Opens the directory of an old entry's path and gives the name in it. */
MUST_CHECK enum status rollback_open_parent(const struct rollback *rollback, const char *path,
                                            bool may_create, int *ret, const char **ret_name,
                                            struct error *error);

#endif
