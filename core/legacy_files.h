/* core/legacy_files.h - reading below one bucket, names first.
 *
 * Remembers each listing it made, so that many files in one directory cost one listing, and never
 * opens a name that no listing has shown: what is gone between listing and opening is STATUS_STALE.
 * Used by one thread, for one reading.
 */
#ifndef MEMSYNC_CORE_LEGACY_FILES_H
#define MEMSYNC_CORE_LEGACY_FILES_H

#include "core/volume.h"

struct legacy_files; /* opaque */

/* `volume` must outlive it. STATUS_NO_MEMORY. */
MUST_CHECK enum status legacy_files_create(const struct volume *volume, struct legacy_files **ret);
void legacy_files_destroy(struct legacy_files **files);

static inline void cleanup_legacy_files(struct legacy_files **files)
{
    legacy_files_destroy(files);
}
#define AUTO_LEGACY_FILES CLEANUP(cleanup_legacy_files)

/* The listing of a directory that is known to be there; owned by `files`, valid until it goes. The
 * path is relative to the volume. */
MUST_CHECK enum status legacy_files_list(struct legacy_files *files, const char *path,
                                         const struct listing **ret, struct error *error);

/* Follows a relative path of plain parts below a directory that is known to be there, listing by
 * listing. `ret` is the entry it ends at, or NULL when some part is not there. */
MUST_CHECK enum status legacy_files_find(struct legacy_files *files, const char *directory,
                                         const char *path, const struct listing_entry **ret,
                                         struct error *error);

/* Reads a file that a listing has shown. */
MUST_CHECK enum status legacy_files_read(struct legacy_files *files, const char *path,
                                         size_t size_max, struct file_image *ret,
                                         struct error *error);

#endif
