/* core/migration_files.h - the files that a migration keeps a copy of, and those that it removes.
 *
 * For core/migration.c. The caller holds the user's lock.
 */
#ifndef MEMSYNC_CORE_MIGRATION_FILES_H
#define MEMSYNC_CORE_MIGRATION_FILES_H

#include "core/scope.h"
#include "core/volume.h"

#define MIGRATION_COPY_SUFFIX ".v1.bak"

/* One file of an earlier layout, as it was read. All borrowed. */
struct migration_source {
    int dir_fd;
    const char *name; /* in that directory */
    const char *path; /* relative to the volume, for errors */
    const char *bytes;
    size_t size;
};

/* Fills `error` for what cannot be taken over, with the member `reason` "migration"; returns
 * STATUS_CONFLICT. */
enum status migration_stop(struct error *error, const char *path, const char *cause);

/* Whether a copy can be kept: there is none yet, or one with the same bytes. Else
 * migration_stop(). */
MUST_CHECK enum status migration_check_copy(const struct volume *volume,
                                            const struct migration_source *source,
                                            struct error *error);

/* Makes the copy, or makes sure of the one that is there; it is durable afterwards. */
MUST_CHECK enum status migration_keep_copy(const struct volume *volume,
                                           const struct migration_source *source,
                                           struct error *error);

/* Removes the source durably, unless its bytes are others by now: then migration_stop(). One that
 * is gone is fine. */
MUST_CHECK enum status migration_remove_source(const struct volume *volume,
                                               const struct migration_source *source,
                                               struct error *error);

/* Removes from agents/lead-agent the files that `files` (of a legacy view) names and that still
 * have those bytes, then the directories that are empty, durably. */
MUST_CHECK enum status migration_remove_lead(const struct volume *volume, int bucket_fd,
                                             const struct scope *scope, const json_t *files,
                                             struct error *error);

#endif
